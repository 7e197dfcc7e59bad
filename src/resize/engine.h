/* SPDX-License-Identifier: PostgreSQL */
/*
 * resize/engine.h - the engine: a plan, the host that carries its actions out, the table they share.
 */
#ifndef RESIZE_ENGINE_H
#define RESIZE_ENGINE_H

#include "resize/plan.h"

/* Pause before repair is tried again by an idle engine; doubles up to the second. */
#define ENGINE_REPAIR_MIN_NS UINT64_C(100000000)
#define ENGINE_REPAIR_MAX_NS UINT64_C(10000000000)

struct tide_engine {
	struct tide_chunk_table *table;
	const struct tide_host_ops *ops;
	void *host;
	uint64_t min_bytes;
	uint64_t next_op;
	uint64_t linger_ns;	     /* of the last operation: how long chunks may linger */
	enum tide_op_state reported; /* state that the host was told last */
	uint64_t repair_at_ns, repair_pause_ns;
	struct plan plan;
	struct tide_chunk_fact facts[PLAN_SURVEY];
	struct tide_drain_report reports[PLAN_BATCH];
	uint32_t publish[PLAN_BATCH], decommit[PLAN_BATCH];
};

/* repair.c */

/** engine_read_table() - make the plan's view equal to the table */
void engine_read_table(struct tide_engine *engine);

/** engine_needs_repair() - are there chunks in states that do not last? By the view. */
int engine_needs_repair(const struct tide_engine *engine);

/**
 * engine_repair() - bring every chunk into a state that lasts, and the view up to date
 *
 * committing, releasing -> decommitted, retired; fenced, draining, quiescing -> published, active.
 * A chunk for which the host fails keeps its state; the others are repaired all the same.
 *
 * Return: 0 or the first error of the host.
 */
int engine_repair(struct tide_engine *engine, uint32_t *repaired, struct tide_reason *why);

/** engine_tidy() - what an idle engine does: repair, release chunks that lingered; next time to call */
uint64_t engine_tidy(struct tide_engine *engine);

/* perform.c */

/** engine_perform() - carry out one action through the host, keeping table and view in step */
void engine_perform(struct tide_engine *engine, const struct plan_action *action);

/** engine_report() - tell the host if the operation entered another state */
void engine_report(struct tide_engine *engine);

#endif /* RESIZE_ENGINE_H */
