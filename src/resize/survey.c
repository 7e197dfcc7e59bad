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

uint32_t survey_order(const struct plan *plan, uint32_t *order)
{
	if (plan->compact)
		return choose_highest(plan->states, plan->keys, plan->n_chunks, TIDE_CHUNK_ACTIVE,
				      order);
	return choose_coldest(plan->states, plan->keys, plan->n_chunks, TIDE_CHUNK_ACTIVE, order);
}

/*
 * All of the coldest will go: in address order, so that neighbours are released by one call and dirty
 * pages are met in longer runs. Chunks that are in use stay behind them, to be tried last. Not when
 * compact: there the highest go first, so that a shrink that is stopped leaves no hole, and those of
 * one batch are neighbours as it is.
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
	ring->n = survey_order(plan, ring->chunks);
	ring->untried = ring->n;
	if (!plan->compact)
		sort_those_that_go(plan);
	shrink_start(plan, plan->aim.goal, now_ns);
	return 0;
}

void survey_result(struct plan *plan, const struct plan_action *action,
		   const struct plan_result *result)
{
	/* What a chunk holds is worth nothing when its place decides, but that somebody holds it. */
	uint8_t mask = plan->compact ? CHOOSE_PINNED : UINT8_MAX;

	for (uint32_t i = 0; i < action->n; i++)
		plan->keys[action->first + i] = choose_key(&result->facts[i]) & mask;
	plan->surveyed += action->n;
}
