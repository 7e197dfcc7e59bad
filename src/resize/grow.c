/* SPDX-License-Identifier: PostgreSQL */
/*
 * resize/grow.c - the part of the plan that grows to a goal, slice by slice.
 *
 * A slice is committed, verified by the audit, and published before the next one begins, so the
 * first new buffers are usable after the first slice, which is one chunk. Chunks that linger come
 * first: they have their memory.
 */
#include "resize/machine.h"

#include <assert.h>

#include "resize/choose.h"
#include "resize/slice.h"

/* Append chunks in @state to the order until it has @need of them. */
static void take(struct plan *plan, enum tide_chunk_state state, uint32_t need)
{
	uint32_t want = need - plan->order_n;
	uint32_t *order = plan->order + plan->order_n;

	/* A shrink has no use for the ring any more, nor has a grow yet: it serves as scratch. */
	if (plan->compact)
		plan->order_n += choose_lowest(plan->states, plan->n_chunks, state, want, order);
	else
		plan->order_n += choose_spread(plan->states, plan->n_chunks, state, want, order,
					       plan->ring.chunks);
}

void grow_start(struct plan *plan, uint32_t goal)
{
	uint32_t need = goal - plan->counts[TIDE_CHUNK_ACTIVE];

	assert(goal >= plan->counts[TIDE_CHUNK_ACTIVE]);
	plan->goal = goal;
	ring_clear(&plan->ring);
	plan->order_n = 0;
	take(plan, TIDE_CHUNK_LINGERING, need);
	plan->revive_n = plan->order_n;
	take(plan, TIDE_CHUNK_RETIRED, need);
	plan->order_next = 0;
	plan->part_n = 0;
	plan->slice = 1;
	plan_enter(plan, PLAN_STAGE_GROW, plan->revive_n > 0 ? TIDE_OP_PUBLISH : TIDE_OP_COMMIT);
}

static const uint32_t *part(const struct plan *plan)
{
	return plan->order + plan->order_next - plan->part_n;
}

static void set_part(struct plan *plan, enum tide_chunk_state state)
{
	for (uint32_t i = 0; i < plan->part_n; i++)
		plan_set(plan, part(plan)[i], state);
}

/* Take the next slice out of the order; chunks that linger never share one with others. */
static void take_part(struct plan *plan)
{
	uint32_t end = plan->order_next < plan->revive_n ? plan->revive_n : plan->order_n;
	uint32_t n = end - plan->order_next;

	plan->part_n = n < plan->slice ? n : plan->slice;
	choose_sort(plan->order + plan->order_next, plan->part_n);
	plan->order_next += plan->part_n;
	plan->part_ns = 0;
}

static void act(struct plan *plan, struct plan_action *action, enum plan_verb verb)
{
	action->verb = verb;
	action->chunks = part(plan);
	action->n = plan->part_n;
}

/* What ended a shrink stays its reason when growing back fails as well. */
static void blame(struct plan *plan, const struct tide_reason *why)
{
	if (plan->undoing)
		plan_reason_add(&plan->progress.reason, "; growing back failed: %s", why->message);
	else
		plan->progress.reason = *why;
}

int grow_next(struct plan *plan, struct plan_action *action)
{
	if (plan->part_n > 0) {
		plan_phase(plan, TIDE_OP_PUBLISH);
		act(plan, action, PLAN_PUBLISH);
		return 1;
	}
	if (plan->counts[TIDE_CHUNK_ACTIVE] == plan->goal) {
		plan_enter(plan, PLAN_STAGE_VERIFY, TIDE_OP_VERIFY);
		return 0;
	}
	if (plan->order_next == plan->order_n) {
		struct tide_reason why;

		tide_reason_set(&why, TIDE_HOST_ERROR, 0,
				"%u chunks cannot be used because giving their memory back failed",
				plan->counts[TIDE_CHUNK_RELEASING]);
		blame(plan, &why);
		grow_stop(plan, TIDE_OP_FAILED, plan->last_ns);
		return 0;
	}

	int revive = plan->order_next < plan->revive_n;

	take_part(plan);
	if (revive) {
		set_part(plan, TIDE_CHUNK_FENCED);
		plan_phase(plan, TIDE_OP_PUBLISH);
		act(plan, action, PLAN_PUBLISH);
	} else {
		set_part(plan, TIDE_CHUNK_COMMITTING);
		plan_phase(plan, TIDE_OP_COMMIT);
		act(plan, action, PLAN_COMMIT);
	}
	return 1;
}

static void committed(struct plan *plan, const struct plan_result *result, uint64_t now_ns)
{
	uint64_t expected = (plan_backed(plan) + (uint64_t)plan->part_n) * plan->chunk_bytes;

	if (result->code < 0) {
		blame(plan, &result->why);
		set_part(plan, TIDE_CHUNK_RETIRED);
		grow_stop(plan, TIDE_OP_FAILED, now_ns);
		return;
	}
	if (result->audit_code < 0) {
		blame(plan, &result->audit_why);
		plan_enter(plan, PLAN_STAGE_DISCARD, TIDE_OP_UNDO);
		return;
	}
	plan_note_audit(plan, result->audit_bytes);
	if (result->audit_bytes < expected) {
		struct tide_reason why;

		tide_reason_set(&why, TIDE_VERIFY_MISMATCH, 0,
				"after committing %u chunks %llu bytes should be committed, the "
				"kernel says %llu",
				plan->part_n, (unsigned long long)expected,
				(unsigned long long)result->audit_bytes);
		tide_reason_bytes(&why, expected, result->audit_bytes);
		blame(plan, &why);
		plan_enter(plan, PLAN_STAGE_DISCARD, TIDE_OP_UNDO);
		return;
	}
	/* Verified. Fenced, not active: see chunk.h for what a crash during publish leaves. */
	set_part(plan, TIDE_CHUNK_FENCED);
}

static void published(struct plan *plan, const struct plan_result *result, uint64_t now_ns)
{
	if (result->code < 0) {
		blame(plan, &result->why);
		grow_stop(plan, TIDE_OP_FAILED, now_ns);
		return;
	}
	set_part(plan, TIDE_CHUNK_ACTIVE);
	if (plan->progress.first_publish_ns == 0 && !plan->undoing)
		plan->progress.first_publish_ns = now_ns - plan->progress.start_ns;
	plan->slice = slice_next(plan->slice, plan->part_n, plan->part_ns, plan->step_ns);
	plan->part_n = 0;
}

void grow_result(struct plan *plan, const struct plan_action *action,
		 const struct plan_result *result, uint64_t now_ns)
{
	plan->part_ns += result->took_ns;
	if (action->verb == PLAN_COMMIT)
		committed(plan, result, now_ns);
	else
		published(plan, result, now_ns);
}

int discard_next(struct plan *plan, struct plan_action *action)
{
	set_part(plan, TIDE_CHUNK_RELEASING);
	act(plan, action, PLAN_DECOMMIT);
	return 1;
}

void discard_result(struct plan *plan, const struct plan_action *action,
		    const struct plan_result *result, uint64_t now_ns)
{
	(void)action;
	if (result->code < 0)
		plan_reason_add(&plan->progress.reason, "; giving them back failed too: %s",
				result->why.message);
	else
		set_part(plan, TIDE_CHUNK_RETIRED);
	grow_stop(plan, TIDE_OP_FAILED, now_ns);
}

/*
 * Candidates for taking a grow back: chunks that were committed and not published, then those that
 * were published by this operation, then any other, because each of them can give the bytes back.
 */
static void fill_ring(struct plan *plan)
{
	struct plan_ring *ring = &plan->ring;

	ring_clear(ring);
	for (uint32_t i = 0; i < plan->n_chunks; i++)
		plan->keys[i] = 1;
	for (uint32_t i = 0; i < plan->order_next; i++) {
		plan->keys[plan->order[i]] = 0;
		if (plan->states[plan->order[i]] == TIDE_CHUNK_FENCED)
			ring->chunks[ring->n++] = plan->order[i];
	}
	ring->n += survey_order(plan, ring->chunks + ring->n);
	ring->untried = ring->n;
}

void grow_stop(struct plan *plan, enum tide_op_state end_when_undone, uint64_t now_ns)
{
	uint32_t active = plan->counts[TIDE_CHUNK_ACTIVE];
	int acceptable = plan->aim.accept > 0 && active >= plan->aim.accept;

	if (plan->undoing) {
		/* A shrink could not be taken back: whatever is in use stays in use. */
		restore_start(plan, TIDE_OP_PARTIAL, 0, now_ns);
		return;
	}
	if (end_when_undone == TIDE_OP_CANCELLED && plan->cancelled)
		acceptable = 0; /* who cancels wants the size it had */
	plan->end_state = acceptable ? TIDE_OP_PARTIAL : end_when_undone;
	plan->undoing = 1;
	plan->undo_began_ns = now_ns;
	if (!acceptable)
		plan->keep_lingering =
			plan->order_next < plan->revive_n ? plan->order_next : plan->revive_n;
	fill_ring(plan);
	plan->part_n = 0;
	shrink_start(plan, acceptable ? active : plan->aim.from, now_ns);
}
