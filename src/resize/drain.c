/* SPDX-License-Identifier: PostgreSQL */
/*
 * resize/drain.c - the chunks on their way out: their slots, drain steps, pins that do not move.
 *
 * Progress guarantee: a chunk whose pins do not move costs three drain steps, then another takes
 * its place. So chunks that stay pinned delay a shrink, but stop it only when no others are left;
 * even then every candidate is tried again in turn, at the pace of the back-off.
 */
#include "resize/machine.h"

uint32_t drain_count(const struct plan *plan, enum plan_slot_stage stage)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < plan->n_slots; i++)
		n += plan->slots[i].stage == stage;
	return n;
}

uint32_t drain_list(struct plan *plan, enum plan_slot_stage stage, uint32_t limit)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < plan->n_slots && n < limit; i++)
		if (plan->slots[i].stage == stage)
			plan->list[n++] = plan->slots[i].chunk;
	return n;
}

void drain_next(struct plan *plan, uint64_t now_ns, struct plan_action *action)
{
	plan->allowance = flush_allowance(&plan->flush, now_ns);
	action->verb = PLAN_DRAIN;
	action->chunks = plan->list;
	action->n = drain_list(plan, PLAN_SLOT_DRAINING, PLAN_BATCH);
	action->budget.write_bytes = plan->allowance;
	action->budget.work_ns = plan->step_ns;
	for (uint32_t i = 0; i < action->n; i++)
		plan_set(plan, plan->list[i], TIDE_CHUNK_DRAINING);
}

enum drain_move {
	DRAIN_STUCK,
	DRAIN_FRESH, /* the first report, and not all that is left is pinned */
	DRAIN_MOVED,
};

static enum drain_move note_report(struct plan *plan, struct plan_slot *slot,
				   const struct tide_drain_report *report, uint64_t now_ns)
{
	uint32_t before = slot->left;

	slot->left = report->left;
	if (report->left == 0) {
		plan_set(plan, slot->chunk, TIDE_CHUNK_QUIESCING);
		slot->stage = PLAN_SLOT_QUIESCING;
		plan->quiesce_at_ns = now_ns;
		return DRAIN_MOVED;
	}
	plan->blocked.pinned_chunks += report->pinned > 0;
	plan->blocked.dirty_chunks += report->pinned == 0 && report->dirty > 0;
	plan->blocked.pinned_buffers += report->pinned;
	plan->blocked.dirty_buffers += report->dirty;
	if (report->left != before) {
		slot->strikes = 0;
		slot->strike_ns = now_ns;
		if (before == PLAN_LEFT_UNKNOWN)
			return report->left > report->pinned ? DRAIN_FRESH : DRAIN_STUCK;
		return report->left < before ? DRAIN_MOVED : DRAIN_STUCK;
	}
	if (report->pinned > 0 && now_ns - slot->strike_ns >= PLAN_STRIKE_NS) {
		slot->strikes++;
		slot->strike_ns = now_ns;
	}
	return DRAIN_STUCK;
}

static void mark_stubborn(struct plan *plan, uint64_t now_ns)
{
	uint32_t limit = plan->ring.untried;

	/* Candidates that were tried in vain have their next turn no sooner than this. */
	if (limit == 0 && now_ns - plan->exchanged_ns >= PLAN_PAUSE_MAX_NS) {
		plan->exchanged_ns = now_ns;
		limit = plan->ring.n;
	}
	for (uint32_t i = 0; i < plan->n_slots && limit > 0; i++) {
		struct plan_slot *slot = &plan->slots[i];

		if (slot->stage == PLAN_SLOT_DRAINING && slot->strikes >= PLAN_STRIKES) {
			slot->stage = PLAN_SLOT_RETURNING;
			limit--;
		}
	}
}

static void set_pause(struct plan *plan, enum drain_move move, uint64_t now_ns)
{
	uint64_t pause = 0;

	if (move == DRAIN_MOVED) {
		plan->drain_pause_ns = PLAN_PAUSE_MIN_NS;
		plan->moved_ns = now_ns;
	} else if (move == DRAIN_STUCK) {
		if (plan->allowance == 0 && plan->blocked.dirty_buffers > 0) {
			pause = flush_wait(&plan->flush);
		} else if (plan->ring.untried > 0 && plan->blocked.pinned_chunks > 0) {
			pause = PLAN_PAUSE_MIN_NS;
		} else {
			pause = plan->drain_pause_ns;
			plan->drain_pause_ns =
				pause < PLAN_PAUSE_MAX_NS / 2 ? 2 * pause : PLAN_PAUSE_MAX_NS;
		}
	}
	plan->drain_at_ns = now_ns + pause;
}

void drain_result(struct plan *plan, const struct plan_result *result, uint64_t now_ns)
{
	enum drain_move move = DRAIN_STUCK;
	uint32_t n = 0;

	plan->progress.evicted_pages += result->work.evicted_pages;
	plan->progress.written_pages += result->work.written_pages;
	if (result->work.written_pages > 0)
		flush_charge(&plan->flush, plan->allowance);
	plan->blocked = (struct plan_blocked){0};
	for (uint32_t i = 0; i < plan->n_slots; i++) {
		struct plan_slot *slot = &plan->slots[i];

		if (slot->stage != PLAN_SLOT_DRAINING)
			continue;

		enum drain_move m = note_report(plan, slot, &result->reports[n++], now_ns);

		move = m > move ? m : move;
	}
	plan->progress.blocked_chunks = plan->blocked.pinned_chunks + plan->blocked.dirty_chunks;
	mark_stubborn(plan, now_ns);
	set_pause(plan, move, now_ns);
}

void drain_reason(const struct plan *plan, struct tide_reason *why)
{
	const struct plan_blocked *b = &plan->blocked;
	uint32_t left = plan_usable(plan) - plan->goal;
	uint32_t looked_at = drain_count(plan, PLAN_SLOT_QUIESCING);

	if (b->pinned_chunks > 0) {
		tide_reason_set(why, TIDE_PINNED_BUFFERS, 0,
				"%u of %u chunks not retired yet hold %llu buffers in use",
				b->pinned_chunks, left, (unsigned long long)b->pinned_buffers);
		tide_reason_hint(why, "End the transactions or close the cursors that use them, or "
				      "allow more time.");
	} else if (b->dirty_chunks > 0) {
		tide_reason_set(why, TIDE_DIRTY_BACKLOG, 0,
				"%u of %u chunks not retired yet hold %llu dirty buffers that are "
				"not written",
				b->dirty_chunks, left, (unsigned long long)b->dirty_buffers);
		tide_reason_hint(why, "Allow more time, or raise the limit on writing.");
	} else if (looked_at > 0) {
		tide_reason_set(why, TIDE_PINNED_BUFFERS, 0,
				"%u drained chunks may still be looked at by readers", looked_at);
		tide_reason_hint(why, "Allow more time.");
	} else {
		tide_reason_set(why, TIDE_CANCELLED, 0, "%u chunks were not retired yet", left);
		tide_reason_hint(why, "Allow more time.");
	}
}
