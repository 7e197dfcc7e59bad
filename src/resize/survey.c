/* SPDX-License-Identifier: PostgreSQL */
/*
 * resize/survey.c - the part of the plan that looks at all active chunks and orders them.
 */
#include "resize/machine.h"

#include "resize/choose.h"

void survey_start(struct plan *plan)
{
	plan->surveyed = 0;
	plan_enter(plan, PLAN_STAGE_SURVEY, TIDE_OP_FENCE);
}

int survey_next(struct plan *plan, uint64_t now_ns, struct plan_action *action)
{
	uint32_t left = plan->n_chunks - plan->surveyed;

	if (left > 0) {
		action->verb = PLAN_SURVEY_CHUNKS;
		action->first = plan->surveyed;
		action->n = left < PLAN_SURVEY ? left : PLAN_SURVEY;
		return 1;
	}

	struct plan_ring *ring = &plan->ring;

	ring_clear(ring);
	ring->n = choose_coldest(plan->states, plan->keys, plan->n_chunks, TIDE_CHUNK_ACTIVE,
				 ring->chunks);
	ring->untried = ring->n;
	shrink_start(plan, plan->aim.goal, now_ns);
	return 0;
}

void survey_result(struct plan *plan, const struct plan_action *action,
		   const struct plan_result *result)
{
	for (uint32_t i = 0; i < action->n; i++)
		plan->keys[action->first + i] = choose_key(&result->facts[i]);
	plan->surveyed += action->n;
}
