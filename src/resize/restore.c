/* SPDX-License-Identifier: PostgreSQL */
/*
 * resize/restore.c - the part of the plan that puts chunks on their way out back into use.
 */
#include "resize/machine.h"

#include "resize/chunk.h"

void restore_start(struct plan *plan, enum tide_op_state end, int grow_back, uint64_t now_ns)
{
	plan->end_state = end;
	plan->grow_back = grow_back;
	plan->undoing = 1;
	plan->n_slots = 0;
	plan->part_n = 0;
	plan->restore_next = 0;
	plan->restore_failures = 0;
	plan->restore_at_ns = now_ns;
	plan_enter(plan, PLAN_STAGE_RESTORE, TIDE_OP_UNDO);
}

static uint32_t find(struct plan *plan)
{
	uint32_t n = 0;

	while (plan->restore_next < plan->n_chunks && n < PLAN_BATCH) {
		uint32_t i = plan->restore_next++;

		if (chunk_may_publish((enum tide_chunk_state)plan->states[i]))
			plan->list[n++] = i;
	}
	return n;
}

int restore_next(struct plan *plan, uint64_t now_ns, struct plan_action *action)
{
	if (now_ns < plan->restore_at_ns) {
		action->verb = PLAN_WAIT;
		action->wait_ns = plan->restore_at_ns - now_ns;
		return 1;
	}

	uint32_t n = find(plan);

	if (n > 0) {
		action->verb = PLAN_PUBLISH;
		action->chunks = plan->list;
		action->n = n;
		return 1;
	}
	if (plan->grow_back)
		grow_start(plan, plan->aim.from);
	else
		plan_enter(plan, PLAN_STAGE_VERIFY, TIDE_OP_VERIFY);
	return 0;
}

void restore_result(struct plan *plan, const struct plan_action *action,
		    const struct plan_result *result, uint64_t now_ns)
{
	if (result->code == 0) {
		for (uint32_t i = 0; i < action->n; i++)
			plan_set(plan, action->chunks[i], TIDE_CHUNK_ACTIVE);
		return;
	}
	if (++plan->restore_failures < PLAN_RESTORE_TRIES) {
		plan->restore_next = 0;
		plan->restore_at_ns = now_ns + (PLAN_PAUSE_MIN_NS << plan->restore_failures);
		return;
	}
	/*
	 * The host does not take them back. They keep their state, from which the engine repairs
	 * them when it is idle or begins the next operation.
	 */
	plan_reason_add(&plan->progress.reason, "; putting chunks back into use failed: %s",
			result->why.message);
	plan->end_state = TIDE_OP_FAILED;
	plan_enter(plan, PLAN_STAGE_VERIFY, TIDE_OP_VERIFY);
}
