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

/*
 * All of the coldest will go: in address order, so that neighbours are released by one call and dirty
 * pages are met in longer runs. Chunks that are in use stay behind them, to be tried last.
 */
static void sort_those_that_go(struct plan *plan)
{
	const struct plan_ring *ring = &plan->ring;
	uint32_t going = plan->counts[TIDE_CHUNK_ACTIVE] - plan->aim.goal;
	uint32_t n = 0;

	while (n < going && plan->keys[ring->chunks[n]] < CHOOSE_PINNED)
		n++;
	choose_sort(ring->chunks, n);
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
	sort_those_that_go(plan);
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
