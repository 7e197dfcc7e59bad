/* SPDX-License-Identifier: PostgreSQL */
/*
 * resize/shrink.c - the part of the plan that shrinks to a goal.
 *
 * Up to PLAN_BATCH chunks are on their way out at a time, each at its own stage: fenced, drained,
 * quiescent, then released or left to linger. Nothing else is fenced than what the goal needs, so
 * the pool is never smaller than it was asked to be.
 */
#include "resize/machine.h"

#include <assert.h>

#include "resize/choose.h"
#include "resize/slice.h"

/* Chunks fenced by the first action; how many next follows from the time it took. */
#define FENCE_FIRST 64u

void shrink_start(struct plan *plan, uint32_t goal, uint64_t now_ns)
{
	assert(goal <= plan_usable(plan));
	plan->goal = goal;
	plan->n_slots = 0;
	plan->slice = FENCE_FIRST;
	plan->blocked = (struct plan_blocked){0};
	plan->drain_at_ns = now_ns;
	plan->drain_pause_ns = PLAN_PAUSE_MIN_NS;
	plan->quiesce_at_ns = now_ns;
	plan->quiesce_pause_ns = PLAN_PAUSE_MIN_NS;
	plan->exchanged_ns = now_ns;
	plan->moved_ns = now_ns;
	plan_enter(plan, PLAN_STAGE_SHRINK, TIDE_OP_FENCE);
}

int shrink_has_empty(const struct plan *plan)
{
	return plan->stage == PLAN_STAGE_SHRINK && drain_count(plan, PLAN_SLOT_EMPTY) > 0;
}

static uint32_t to_fence(const struct plan *plan)
{
	return plan_usable(plan) - plan->goal - plan->n_slots;
}

/* A full batch, or what is left: never a handful for every handful that is done. */
static uint32_t fence_size(const struct plan *plan)
{
	uint32_t want = to_fence(plan);
	uint32_t room = PLAN_BATCH - plan->n_slots;

	if (want > room && room < PLAN_BATCH / 2)
		return 0;
	want = want < room ? want : room;
	return want < plan->slice ? want : plan->slice;
}

static void sort_slots(struct plan *plan)
{
	/* By insertion: all but the chunks fenced last are sorted already. */
	for (uint32_t i = 1; i < plan->n_slots; i++) {
		struct plan_slot moved = plan->slots[i];
		uint32_t j = i;

		for (; j > 0 && plan->slots[j - 1].chunk > moved.chunk; j--)
			plan->slots[j] = plan->slots[j - 1];
		plan->slots[j] = moved;
	}
}

static void fence_next(struct plan *plan, uint32_t n, struct plan_action *action)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t chunk = ring_pop(&plan->ring);

		plan->slots[plan->n_slots++] = (struct plan_slot){
			.chunk = chunk,
			.left = PLAN_LEFT_UNKNOWN,
			.stage = PLAN_SLOT_FENCING,
		};
		plan_set(plan, chunk, TIDE_CHUNK_FENCED);
	}
	sort_slots(plan);
	plan_phase(plan, TIDE_OP_FENCE);
	action->verb = PLAN_FENCE;
	action->chunks = plan->list;
	action->n = drain_list(plan, PLAN_SLOT_FENCING, PLAN_BATCH);
}

static void empty_next(struct plan *plan, struct plan_action *action)
{
	uint32_t limit = PLAN_BATCH;

	action->verb = PLAN_DECOMMIT;
	if (plan->undoing && plan->keep_lingering > 0) {
		action->verb = PLAN_LINGER;
		limit = plan->keep_lingering;
	} else if (!plan->undoing && plan->request.linger_ns > 0) {
		action->verb = PLAN_LINGER;
	}
	plan_phase(plan, TIDE_OP_RELEASE);
	action->chunks = plan->list;
	action->n = drain_list(plan, PLAN_SLOT_EMPTY, limit);
	if (action->verb == PLAN_DECOMMIT)
		for (uint32_t i = 0; i < action->n; i++)
			plan_set(plan, plan->list[i], TIDE_CHUNK_RELEASING);
}

static int overdue(const struct plan *plan, uint64_t now_ns)
{
	return plan->undoing && (now_ns - plan->moved_ns > PLAN_UNDO_STALL_NS ||
				 now_ns - plan->undo_began_ns > PLAN_UNDO_LIMIT_NS);
}

static void wait_next(const struct plan *plan, uint64_t now_ns, struct plan_action *action)
{
	uint64_t until = now_ns + PLAN_PAUSE_MAX_NS;

	if (drain_count(plan, PLAN_SLOT_DRAINING) > 0 && plan->drain_at_ns < until)
		until = plan->drain_at_ns;
	if (drain_count(plan, PLAN_SLOT_QUIESCING) > 0 && plan->quiesce_at_ns < until)
		until = plan->quiesce_at_ns;
	action->verb = PLAN_WAIT;
	action->wait_ns = until - now_ns;
}

static void pick(struct plan *plan, enum plan_slot_stage stage, enum plan_verb verb,
		 enum tide_op_state phase, struct plan_action *action)
{
	plan_phase(plan, phase);
	action->verb = verb;
	action->chunks = plan->list;
	action->n = drain_list(plan, stage, PLAN_BATCH);
}

int shrink_next(struct plan *plan, uint64_t now_ns, struct plan_action *action)
{
	uint32_t n;

	if (plan->n_slots == 0 && to_fence(plan) == 0) {
		plan_enter(plan, PLAN_STAGE_VERIFY, TIDE_OP_VERIFY);
		return 0;
	}
	if (overdue(plan, now_ns)) {
		struct tide_reason held;

		drain_reason(plan, &held);
		plan_reason_add(&plan->progress.reason, "; taking it back was given up: %s",
				held.message);
		restore_start(plan, TIDE_OP_PARTIAL, 0, now_ns);
		return 0;
	}
	if (drain_count(plan, PLAN_SLOT_RETURNING) > 0) {
		pick(plan, PLAN_SLOT_RETURNING, PLAN_PUBLISH, TIDE_OP_DRAIN, action);
	} else if (drain_count(plan, PLAN_SLOT_EMPTY) > 0) {
		empty_next(plan, action);
	} else if (now_ns >= plan->quiesce_at_ns && drain_count(plan, PLAN_SLOT_QUIESCING) > 0) {
		pick(plan, PLAN_SLOT_QUIESCING, PLAN_QUIESCE, TIDE_OP_QUIESCE, action);
	} else if ((n = fence_size(plan)) > 0) {
		fence_next(plan, n, action);
	} else if (now_ns >= plan->drain_at_ns && drain_count(plan, PLAN_SLOT_DRAINING) > 0) {
		plan_phase(plan, TIDE_OP_DRAIN);
		drain_next(plan, now_ns, action);
	} else {
		wait_next(plan, now_ns, action);
	}
	return 1;
}

/* Remove the first @n slots of a stage, whose chunks are now in @state. */
static void drop_slots(struct plan *plan, enum plan_slot_stage stage, uint32_t n,
		       enum tide_chunk_state state)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < plan->n_slots; i++) {
		if (n > 0 && plan->slots[i].stage == stage) {
			plan_set(plan, plan->slots[i].chunk, state);
			n--;
		} else {
			plan->slots[kept++] = plan->slots[i];
		}
	}
	plan->n_slots = kept;
}

static void move_slots(struct plan *plan, enum plan_slot_stage from, enum plan_slot_stage to)
{
	for (uint32_t i = 0; i < plan->n_slots; i++)
		if (plan->slots[i].stage == from)
			plan->slots[i].stage = (uint8_t)to;
}

static void failed(struct plan *plan, const struct tide_reason *why, uint64_t now_ns)
{
	if (plan->undoing)
		plan_reason_add(&plan->progress.reason, "; taking it back failed: %s",
				why->message);
	else
		plan->progress.reason = *why;
	shrink_stop(plan, plan->undoing ? TIDE_OP_PARTIAL : TIDE_OP_FAILED, now_ns);
}

static void fenced(struct plan *plan, const struct plan_result *result, uint64_t now_ns)
{
	uint32_t n = drain_count(plan, PLAN_SLOT_FENCING);

	plan->slice = slice_next(plan->slice, n, result->took_ns, plan->step_ns);
	move_slots(plan, PLAN_SLOT_FENCING, PLAN_SLOT_DRAINING);
	plan->drain_at_ns = now_ns;
}

static void quiesced(struct plan *plan, const struct plan_result *result, uint64_t now_ns)
{
	uint64_t pause = plan->quiesce_pause_ns;

	if (result->code == 0) {
		move_slots(plan, PLAN_SLOT_QUIESCING, PLAN_SLOT_EMPTY);
		plan->quiesce_pause_ns = PLAN_PAUSE_MIN_NS;
		plan->moved_ns = now_ns;
		return;
	}
	plan->quiesce_at_ns = now_ns + pause;
	plan->quiesce_pause_ns = pause < PLAN_PAUSE_MAX_NS / 2 ? 2 * pause : PLAN_PAUSE_MAX_NS;
}

static void emptied(struct plan *plan, const struct plan_action *action,
		    const struct plan_result *result, uint64_t now_ns)
{
	if (action->verb == PLAN_LINGER) {
		plan->keep_lingering -= plan->undoing ? action->n : 0;
		drop_slots(plan, PLAN_SLOT_EMPTY, action->n, TIDE_CHUNK_LINGERING);
		return;
	}
	if (result->code < 0) {
		/* Some of them may have been released: they stay releasing until it is repeated. */
		drop_slots(plan, PLAN_SLOT_EMPTY, action->n, TIDE_CHUNK_RELEASING);
		failed(plan, &result->why, now_ns);
		return;
	}
	drop_slots(plan, PLAN_SLOT_EMPTY, action->n, TIDE_CHUNK_RETIRED);
	plan->released += action->n;
	if (result->audit_code == 0)
		plan_note_audit(plan, result->audit_bytes);
}

static void returned(struct plan *plan, const struct plan_action *action)
{
	drop_slots(plan, PLAN_SLOT_RETURNING, action->n, TIDE_CHUNK_ACTIVE);
	for (uint32_t i = 0; i < action->n; i++)
		ring_return(&plan->ring, action->chunks[i]);
}

void shrink_result(struct plan *plan, const struct plan_action *action,
		   const struct plan_result *result, uint64_t now_ns)
{
	if (action->verb == PLAN_QUIESCE) {
		quiesced(plan, result, now_ns);
	} else if (action->verb == PLAN_LINGER || action->verb == PLAN_DECOMMIT) {
		emptied(plan, action, result, now_ns);
	} else if (result->code < 0) {
		failed(plan, &result->why, now_ns);
	} else if (action->verb == PLAN_FENCE) {
		fenced(plan, result, now_ns);
	} else if (action->verb == PLAN_DRAIN) {
		drain_result(plan, result, now_ns);
	} else if (action->verb == PLAN_PUBLISH) {
		returned(plan, action);
	}
}

void shrink_stop(struct plan *plan, enum tide_op_state end, uint64_t now_ns)
{
	uint32_t accept = plan->aim.accept;
	int grow_back = !plan->undoing && end != TIDE_OP_CANCELLED && accept > 0 &&
			plan_usable(plan) > accept;

	restore_start(plan, grow_back ? TIDE_OP_FAILED : end, grow_back, now_ns);
}
