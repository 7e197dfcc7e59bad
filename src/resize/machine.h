/* SPDX-License-Identifier: PostgreSQL */
/*
 * resize/machine.h - calls between the parts of the plan.
 */
#ifndef RESIZE_MACHINE_H
#define RESIZE_MACHINE_H

#include "resize/plan.h"

/*
 * A *_next() returns 1 with an action, or 0 when it moved the plan to another stage instead, which
 * is then asked. A *_stop() and *_start() move the plan to another stage.
 */

/* grow.c */
void grow_start(struct plan *plan, uint32_t goal);
int grow_next(struct plan *plan, struct plan_action *action);
void grow_result(struct plan *plan, const struct plan_action *action,
		 const struct plan_result *result, uint64_t now_ns);
int discard_next(struct plan *plan, struct plan_action *action);
void discard_result(struct plan *plan, const struct plan_action *action,
		    const struct plan_result *result, uint64_t now_ns);
/* The grow stops for the reason in the progress: keep what is acceptable, take back the rest. */
void grow_stop(struct plan *plan, enum tide_op_state end_when_undone, uint64_t now_ns);

/* survey.c */
void survey_start(struct plan *plan);
int survey_next(struct plan *plan, uint64_t now_ns, struct plan_action *action);
void survey_result(struct plan *plan, const struct plan_action *action,
		   const struct plan_result *result);

/* All active chunks in the order in which they go, by their keys. Returns their number. */
uint32_t survey_order(const struct plan *plan, uint32_t *order);

/* shrink.c; the ring holds the candidates */
void shrink_start(struct plan *plan, uint32_t goal, uint64_t now_ns);
int shrink_next(struct plan *plan, uint64_t now_ns, struct plan_action *action);
void shrink_result(struct plan *plan, const struct plan_action *action,
		   const struct plan_result *result, uint64_t now_ns);
/* The shrink stops for the reason in the progress: what is on its way out comes back. */
void shrink_stop(struct plan *plan, enum tide_op_state end, uint64_t now_ns);
int shrink_has_empty(const struct plan *plan);

/* drain.c */
uint32_t drain_count(const struct plan *plan, enum plan_slot_stage stage);
uint32_t drain_list(struct plan *plan, enum plan_slot_stage stage, uint32_t limit);
void drain_next(struct plan *plan, uint64_t now_ns, struct plan_action *action);
void drain_result(struct plan *plan, const struct plan_result *result, uint64_t now_ns);
void drain_reason(const struct plan *plan, struct tide_reason *why);

/* ring.c */
void ring_clear(struct plan_ring *ring);
uint32_t ring_pop(struct plan_ring *ring);
void ring_return(struct plan_ring *ring, uint32_t chunk);

/* restore.c */
void restore_start(struct plan *plan, enum tide_op_state end, int grow_back, uint64_t now_ns);
int restore_next(struct plan *plan, uint64_t now_ns, struct plan_action *action);
void restore_result(struct plan *plan, const struct plan_action *action,
		    const struct plan_result *result, uint64_t now_ns);

/* plan.c */
void plan_enter(struct plan *plan, enum plan_stage stage, enum tide_op_state phase);
void plan_phase(struct plan *plan, enum tide_op_state phase);

/* Append to the reason's message; what does not fit is cut off. */
__attribute__((format(printf, 2, 3))) void plan_reason_add(struct tide_reason *why,
							   const char *format, ...);

#endif /* RESIZE_MACHINE_H */
