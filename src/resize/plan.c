/* SPDX-License-Identifier: PostgreSQL */
/*
 * resize/plan.c - an operation from request to end; the machines that do the work are in grow.c,
 * survey.c and shrink.c, the way back in restore.c.
 */
#include "resize/plan.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "resize/machine.h"

/* Sizes in chunks. A target between two sizes never overshoots: down growing, up shrinking. */
static struct plan_aim aim_at(const struct plan *plan, const struct tide_request *request)
{
	uint64_t unit = plan->chunk_bytes;
	uint64_t target = request->target_bytes, accept = request->min_acceptable_bytes;
	struct plan_aim aim = {.from = plan_usable(plan)};
	uint64_t down = target / unit, up = down + (target % unit != 0);
	uint64_t at_most = accept / unit, at_least = at_most + (accept % unit != 0);

	aim.goal = aim.from;
	if (down > aim.from) {
		aim.direction = TIDE_DIRECTION_GROW;
		aim.goal = (uint32_t)down;
		aim.accept = (uint32_t)(at_least < aim.goal ? at_least : aim.goal);
	} else if (up < aim.from) {
		aim.direction = TIDE_DIRECTION_SHRINK;
		aim.goal = (uint32_t)up;
		if (accept > 0)
			aim.accept = at_most < aim.goal	  ? aim.goal
				     : at_most > aim.from ? aim.from
							  : (uint32_t)at_most;
	}
	return aim;
}

int plan_check(const struct plan *plan, const struct tide_request *request, uint64_t min_bytes,
	       struct tide_reason *why)
{
	uint64_t max_bytes = plan->n_chunks * plan->chunk_bytes;
	uint64_t target = request->target_bytes, accept = request->min_acceptable_bytes;

	if (min_bytes == 0)
		min_bytes = 1;
	if (target < min_bytes) {
		tide_reason_set(why, TIDE_BELOW_MIN, 0,
				"a size of %llu bytes was asked for, the least is %llu",
				(unsigned long long)target, (unsigned long long)min_bytes);
		tide_reason_bytes(why, target, min_bytes);
		tide_reason_hint(why, "Ask for at least the minimum size.");
		return TIDE_BELOW_MIN;
	}
	if (target > max_bytes) {
		tide_reason_set(why, TIDE_ABOVE_MAX, 0,
				"a size of %llu bytes was asked for, the most is %llu",
				(unsigned long long)target, (unsigned long long)max_bytes);
		tide_reason_bytes(why, target, max_bytes);
		tide_reason_hint(why, "The maximum size is set when the pool is created.");
		return TIDE_ABOVE_MAX;
	}

	enum tide_direction direction = aim_at(plan, request).direction;

	if ((direction == TIDE_DIRECTION_GROW && accept > target) ||
	    (direction == TIDE_DIRECTION_SHRINK && accept > 0 && accept < target)) {
		tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				"the least acceptable size, %llu bytes, lies beyond the target of "
				"%llu bytes",
				(unsigned long long)accept, (unsigned long long)target);
		tide_reason_hint(why, "It has to lie between the present size and the target.");
		return TIDE_BAD_REQUEST;
	}
	return TIDE_OK;
}

static uint32_t distance(const struct plan_aim *aim)
{
	return aim->goal > aim->from ? aim->goal - aim->from : aim->from - aim->goal;
}

void plan_begin(struct plan *plan, const struct tide_request *request, uint64_t op,
		uint64_t base_bytes, uint64_t now_ns)
{
	plan->request = *request;
	plan->aim = aim_at(plan, request);
	plan->undoing = 0;
	plan->grow_back = 0;
	plan->end_state = TIDE_OP_DONE;
	plan->cancelled = 0;
	plan->base_bytes = base_bytes;
	plan->released = 0;
	plan->keep_lingering = 0;
	plan->order_n = plan->order_next = plan->revive_n = plan->part_n = 0;
	plan->n_slots = 0;
	plan->last_ns = now_ns;
	flush_open(&plan->flush, request->flush_bytes_per_s, now_ns);
	plan->progress = (struct tide_progress){
		.op = op,
		.direction = plan->aim.direction,
		.dry_run = request->dry_run,
		.from_bytes = plan->aim.from * plan->chunk_bytes,
		.requested_bytes = plan->aim.goal * plan->chunk_bytes,
		.committed_bytes = base_bytes,
		.chunks_total = distance(&plan->aim),
		.start_ns = now_ns,
	};
	if (plan->aim.direction == TIDE_DIRECTION_SHRINK)
		survey_start(plan);
	else
		grow_start(plan, plan->aim.goal);
}

uint64_t plan_commit_bytes(const struct plan *plan)
{
	if (plan->aim.direction != TIDE_DIRECTION_GROW)
		return 0;
	return (uint64_t)(plan->aim.goal - plan->aim.from - plan->revive_n) * plan->chunk_bytes;
}

void plan_refuse(struct plan *plan, const struct tide_reason *why, uint64_t now_ns)
{
	uint64_t within =
		plan->aim.from + (uint64_t)plan->revive_n + why->have_bytes / plan->chunk_bytes;
	int short_only = why->code == TIDE_HUGEPAGES_SHORT || why->code == TIDE_NOT_ENOUGH_MEMORY;

	plan->progress.reason = *why;
	if (!short_only || plan->aim.accept == 0 || within < plan->aim.accept ||
	    within <= plan->aim.from || within >= plan->aim.goal) {
		plan_finish(plan, TIDE_OP_DENIED, now_ns);
		return;
	}
	plan->aim.goal = (uint32_t)within;
	plan->end_state = TIDE_OP_PARTIAL;
	plan->progress.chunks_total = distance(&plan->aim);
	grow_start(plan, plan->aim.goal);
}

void plan_note_audit(struct plan *plan, uint64_t bytes)
{
	uint64_t released = plan->released * plan->chunk_bytes;
	uint64_t freed = plan->base_bytes > bytes ? plan->base_bytes - bytes : 0;

	plan->progress.committed_bytes = bytes;
	plan->progress.returned_bytes = freed < released ? freed : released;
}

void plan_account(struct plan *plan, uint64_t now_ns)
{
	struct tide_progress *p = &plan->progress;

	if (!plan_running(plan))
		return;
	if (p->state < TIDE_OP_PHASES && now_ns > plan->last_ns)
		p->phase_ns[p->state] += now_ns - plan->last_ns;
	plan->last_ns = now_ns > plan->last_ns ? now_ns : plan->last_ns;
	p->elapsed_ns = plan->last_ns - p->start_ns;
}

static void update(struct plan *plan)
{
	struct tide_progress *p = &plan->progress;
	uint32_t from = plan->aim.from, active = plan->counts[TIDE_CHUNK_ACTIVE];
	uint32_t gone = plan_usable(plan) + plan->counts[TIDE_CHUNK_RELEASING];

	p->allocatable_bytes = active * plan->chunk_bytes;
	if (p->direction == TIDE_DIRECTION_GROW)
		p->chunks_done = active > from ? active - from : 0;
	else
		p->chunks_done = from > gone ? from - gone : 0;
	p->eta_ns = 0;
	if (plan_running(plan) && !plan->undoing && p->chunks_done > 0 &&
	    p->chunks_done < p->chunks_total)
		p->eta_ns = (uint64_t)((double)p->elapsed_ns / p->chunks_done *
				       (p->chunks_total - p->chunks_done));
}

void plan_phase(struct plan *plan, enum tide_op_state phase)
{
	plan->progress.state = plan->undoing ? TIDE_OP_UNDO : phase;
}

void plan_enter(struct plan *plan, enum plan_stage stage, enum tide_op_state phase)
{
	plan->stage = stage;
	if (phase == TIDE_OP_VERIFY)
		plan->progress.state = phase;
	else
		plan_phase(plan, phase);
}

void plan_finish(struct plan *plan, enum tide_op_state end, uint64_t now_ns)
{
	assert(plan_running(plan));
	plan_account(plan, now_ns);
	plan->stage = PLAN_STAGE_ENDED;
	plan->n_slots = 0;
	plan->part_n = 0;
	plan->progress.state = end;
	if (end == TIDE_OP_DONE)
		plan->progress.blocked_chunks = 0;
	update(plan);
}

void plan_cancel(struct plan *plan, const struct tide_reason *why)
{
	plan->cancelled = 1;
	plan->cancel_why = *why;
}

/* May the operation still be stopped, or is nothing left of it but the end? */
static int stoppable(const struct plan *plan)
{
	if (plan->undoing)
		return 0;
	switch (plan->stage) {
	case PLAN_STAGE_SURVEY:
		return 1;
	case PLAN_STAGE_GROW:
	case PLAN_STAGE_SHRINK:
		return plan_usable(plan) != plan->goal || plan->n_slots > 0 || plan->part_n > 0;
	default:
		return 0;
	}
}

static void stop(struct plan *plan, enum tide_op_state end, uint64_t now_ns)
{
	if (plan->stage == PLAN_STAGE_GROW)
		grow_stop(plan, end, now_ns);
	else
		shrink_stop(plan, end, now_ns);
}

static void expire(struct plan *plan, uint64_t now_ns)
{
	struct tide_reason *why = &plan->progress.reason;

	if (plan->stage == PLAN_STAGE_SHRINK)
		drain_reason(plan, why);
	else
		tide_reason_set(why, TIDE_CANCELLED, 0, "%u of %u chunks were done",
				plan->progress.chunks_done, plan->progress.chunks_total);
	plan_reason_add(why, " when the deadline of %.3f s passed",
			(double)plan->request.deadline_ns / 1e9);
	stop(plan, plan->stage == PLAN_STAGE_GROW ? TIDE_OP_CANCELLED : TIDE_OP_PARTIAL, now_ns);
}

static int expired(const struct plan *plan, uint64_t now_ns)
{
	uint64_t deadline = plan->request.deadline_ns;

	/* What is drained and quiescent already is released rather than taken back. */
	return deadline > 0 && now_ns - plan->progress.start_ns >= deadline &&
	       !shrink_has_empty(plan);
}

static int ask(struct plan *plan, uint64_t now_ns, struct plan_action *action)
{
	switch (plan->stage) {
	case PLAN_STAGE_GROW:
		return grow_next(plan, action);
	case PLAN_STAGE_DISCARD:
		return discard_next(plan, action);
	case PLAN_STAGE_SURVEY:
		return survey_next(plan, now_ns, action);
	case PLAN_STAGE_SHRINK:
		return shrink_next(plan, now_ns, action);
	case PLAN_STAGE_RESTORE:
		return restore_next(plan, now_ns, action);
	case PLAN_STAGE_VERIFY:
		action->verb = PLAN_AUDIT;
		return 1;
	case PLAN_STAGE_ENDED:
		break;
	}
	return 1;
}

void plan_next(struct plan *plan, uint64_t now_ns, struct plan_action *action)
{
	assert(plan_running(plan));
	plan_account(plan, now_ns);
	now_ns = plan->last_ns;
	*action = (struct plan_action){0};
	if (stoppable(plan)) {
		if (plan->cancelled) {
			plan->progress.reason = plan->cancel_why;
			stop(plan, TIDE_OP_CANCELLED, now_ns);
		} else if (expired(plan, now_ns)) {
			expire(plan, now_ns);
		}
	}
	while (!ask(plan, now_ns, action))
		;
	update(plan);
	/* Until the deadline and not longer: then it has to stop. */
	if (action->verb == PLAN_WAIT && plan->request.deadline_ns > 0 && !plan->undoing) {
		uint64_t past = now_ns - plan->progress.start_ns;
		uint64_t left = plan->request.deadline_ns - past;

		if (past < plan->request.deadline_ns && left < action->wait_ns)
			action->wait_ns = left;
	}
	assert(plan_is_valid(plan));
}

static void verified(struct plan *plan, const struct plan_result *result, uint64_t now_ns)
{
	uint64_t expected = plan_backed(plan) * plan->chunk_bytes;
	uint64_t unsure = plan->counts[TIDE_CHUNK_RELEASING] * plan->chunk_bytes;
	struct tide_reason before = plan->progress.reason;
	struct tide_reason *why = &plan->progress.reason;

	if (result->audit_code < 0) {
		*why = result->audit_why;
		plan->end_state = TIDE_OP_PARTIAL;
	} else {
		plan_note_audit(plan, result->audit_bytes);
		if (result->audit_bytes < expected || result->audit_bytes > expected + unsure) {
			tide_reason_set(why, TIDE_VERIFY_MISMATCH, 0,
					"%llu bytes should be committed, the kernel says %llu",
					(unsigned long long)expected,
					(unsigned long long)result->audit_bytes);
			tide_reason_bytes(why, expected, result->audit_bytes);
			tide_reason_hint(why, "Something touched memory that was given back, or "
					      "took memory away.");
			plan->end_state = TIDE_OP_PARTIAL;
		}
	}
	if (before.code != 0 && why->code != before.code)
		plan_reason_add(why, "; before that: %s", before.message);
	plan_finish(plan, plan->end_state, now_ns);
}

void plan_result(struct plan *plan, const struct plan_action *action,
		 const struct plan_result *result, uint64_t now_ns)
{
	assert(plan_running(plan));
	plan_account(plan, now_ns);
	now_ns = plan->last_ns;
	if (action->verb == PLAN_WAIT)
		return;
	switch (plan->stage) {
	case PLAN_STAGE_GROW:
		grow_result(plan, action, result, now_ns);
		break;
	case PLAN_STAGE_DISCARD:
		discard_result(plan, action, result, now_ns);
		break;
	case PLAN_STAGE_SURVEY:
		survey_result(plan, action, result);
		break;
	case PLAN_STAGE_SHRINK:
		shrink_result(plan, action, result, now_ns);
		break;
	case PLAN_STAGE_RESTORE:
		restore_result(plan, action, result, now_ns);
		break;
	case PLAN_STAGE_VERIFY:
		verified(plan, result, now_ns);
		break;
	case PLAN_STAGE_ENDED:
		break;
	}
	update(plan);
	assert(plan_is_valid(plan));
}

void plan_reason_add(struct tide_reason *why, const char *format, ...)
{
	size_t used = strlen(why->message);
	va_list args;

	va_start(args, format);
	vsnprintf(why->message + used, sizeof(why->message) - used, format, args);
	va_end(args);
}

int plan_is_valid(const struct plan *plan)
{
	uint64_t sum = 0;

	for (int s = 0; s < TIDE_CHUNK_STATES; s++)
		sum += plan->counts[s];
	if (sum != plan->n_chunks || plan->n_slots > PLAN_BATCH || plan->ring.n > plan->n_chunks ||
	    plan->ring.untried > plan->ring.n)
		return 0;
	for (uint32_t i = 0; i < plan->n_slots; i++) {
		uint8_t state = plan->states[plan->slots[i].chunk];

		if (i > 0 && plan->slots[i].chunk <= plan->slots[i - 1].chunk)
			return 0;
		if (state == TIDE_CHUNK_RETIRED || state == TIDE_CHUNK_ACTIVE ||
		    state == TIDE_CHUNK_LINGERING || state == TIDE_CHUNK_COMMITTING)
			return 0;
	}
	return 1;
}
