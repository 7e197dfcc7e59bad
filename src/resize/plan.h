/* SPDX-License-Identifier: PostgreSQL */
/*
 * resize/plan.h - what to do next: the pure half of the resize engine.
 *
 * A plan is asked for the next action (plan_next) and told how it went (plan_result), in turn. It
 * makes no system call, reads no clock, takes no lock and allocates nothing: the same calls give the
 * same actions, so tests, the model and the simulator run exactly what the engine runs.
 *
 * The plan keeps a view of the chunk states. plan_next() moves the chunks of an action to the state
 * that must be in the chunk table before the action is carried out, plan_result() to the one that
 * its outcome leaves; the engine copies the view to the table after each of the two calls.
 *
 * Two machines do all work: one grows to a goal, one shrinks to a goal. A request runs one of them
 * forward; taking it back runs the other one towards the size to go back to.
 */
#ifndef RESIZE_PLAN_H
#define RESIZE_PLAN_H

#include <tidepool/resize.h>

#include "resize/flush.h"

#define PLAN_BATCH 512u	  /* chunks on their way out at a time */
#define PLAN_SURVEY 4096u /* chunks surveyed in one action */

/* A chunk whose pins did not move in so many drain steps is exchanged for another candidate. */
#define PLAN_STRIKES 3u
#define PLAN_STRIKE_NS UINT64_C(1000000)

/* struct plan_slot: no report yet. */
#define PLAN_LEFT_UNKNOWN UINT32_MAX

/* Back-off while there is nothing to do but to wait for others. */
#define PLAN_PAUSE_MIN_NS UINT64_C(1000000)
#define PLAN_PAUSE_MAX_NS UINT64_C(50000000)

/*
 * Taking a grow back needs chunks drained, which others can hold up. It ends when nothing moved for
 * the first time, and at the latest after the second: the operation is then PARTIAL, with every
 * chunk that could not be drained active again. So any operation ends within its deadline + 10 s.
 */
#define PLAN_UNDO_STALL_NS UINT64_C(1000000000)
#define PLAN_UNDO_LIMIT_NS UINT64_C(10000000000)

/* How often publication is tried again when chunks are put back into use. */
#define PLAN_RESTORE_TRIES 3u

enum plan_verb {
	PLAN_WAIT,
	PLAN_SURVEY_CHUNKS,
	PLAN_COMMIT,
	PLAN_PUBLISH,
	PLAN_FENCE,
	PLAN_DRAIN,
	PLAN_QUIESCE,
	PLAN_LINGER, /* chunks stay committed: nothing for the host to do */
	PLAN_DECOMMIT,
	PLAN_AUDIT,
};

/**
 * struct plan_action - one bounded action
 * @chunks, @n: ascending; valid until plan_result()
 * @first:      PLAN_SURVEY_CHUNKS: chunks first .. first+n-1 (and @chunks is NULL)
 * @budget:     PLAN_DRAIN
 * @wait_ns:    PLAN_WAIT
 */
struct plan_action {
	enum plan_verb verb;
	const uint32_t *chunks;
	uint32_t n;
	uint32_t first;
	struct tide_drain_budget budget;
	uint64_t wait_ns;
};

/**
 * struct plan_result - how an action went
 * @code:        0 or negative, with @why; PLAN_QUIESCE: 1 = somebody may still look
 * @took_ns:     how long it took
 * @audit_code:  PLAN_COMMIT, PLAN_DECOMMIT, PLAN_AUDIT: outcome of the audit made afterwards, with
 *               @audit_why; not looked at when a commit failed
 * @audit_bytes: committed bytes according to it
 */
struct plan_result {
	int code;
	uint64_t took_ns;
	struct tide_reason why;
	int audit_code;
	uint64_t audit_bytes;
	struct tide_reason audit_why;
	struct tide_drain_work work;
	const struct tide_chunk_fact *facts;
	const struct tide_drain_report *reports;
};

enum plan_stage {
	PLAN_STAGE_ENDED,
	PLAN_STAGE_GROW,    /* commit and publish until the goal is reached */
	PLAN_STAGE_DISCARD, /* give back a slice that was committed and could not be verified */
	PLAN_STAGE_SURVEY,
	PLAN_STAGE_SHRINK,  /* fence, drain, quiesce and release until the goal is reached */
	PLAN_STAGE_RESTORE, /* put everything that is on its way out back into use */
	PLAN_STAGE_VERIFY,
};

/* A chunk on its way out. */
enum plan_slot_stage {
	PLAN_SLOT_FENCING,
	PLAN_SLOT_DRAINING,
	PLAN_SLOT_QUIESCING,
	PLAN_SLOT_EMPTY,     /* drained, and nobody looks */
	PLAN_SLOT_RETURNING, /* to be exchanged for another candidate */
};

struct plan_slot {
	uint32_t chunk;
	uint32_t left;	    /* buffers not drained, by the last report */
	uint64_t strike_ns; /* when the last strike was counted, or the last progress seen */
	uint8_t strikes;
	uint8_t stage;
};

/* Chunks that may be retired, best first; those that were tried in vain queue up at the end. */
struct plan_ring {
	uint32_t *chunks;
	uint32_t capacity;
	uint32_t head;
	uint32_t n;
	uint32_t untried; /* of those, never tried */
};

/* What held the drain up, by its last reports. */
struct plan_blocked {
	uint32_t pinned_chunks, dirty_chunks;
	uint64_t pinned_buffers, dirty_buffers;
};

/* What a request comes to, given the present size; sizes in chunks. */
struct plan_aim {
	enum tide_direction direction;
	uint32_t from;
	uint32_t goal;
	uint32_t accept; /* size that must be reached at least; 0 = none given */
};

struct plan {
	/* Fixed when the engine is opened. */
	uint32_t n_chunks;
	uint64_t chunk_bytes;
	uint64_t step_ns;
	int compact;	 /* where chunks in use lie, see struct tide_engine_config */
	uint8_t *states; /* view of the chunk table */
	uint8_t *keys;	 /* rank of each chunk while candidates are ordered */
	uint32_t *order; /* grow: chunks in the order in which they are taken */

	uint32_t counts[TIDE_CHUNK_STATES]; /* of the view */

	/* The operation. */
	struct tide_request request;
	struct plan_aim aim;
	enum plan_stage stage;
	uint32_t goal; /* active chunks that the running machine aims at */
	int undoing;
	enum tide_op_state end_state; /* how it will end once verified */
	int cancelled;
	struct tide_reason cancel_why;
	uint64_t base_bytes; /* audit when it began */
	uint32_t released;   /* chunks decommitted by it */
	uint64_t last_ns;    /* time accounted for so far */
	struct tide_progress progress;

	/* The machine that grows. */
	uint32_t order_n, order_next;
	uint32_t revive_n; /* the first so many of order[] linger and need no commit */
	uint32_t slice;	   /* chunks to take at a time */
	uint32_t part_n;   /* chunks of the slice being worked on: order[order_next - part_n ...] */
	uint64_t part_ns;

	/* The machine that shrinks. */
	struct plan_ring ring;
	uint32_t surveyed;
	uint32_t n_slots;
	struct plan_slot slots[PLAN_BATCH];
	uint32_t list[PLAN_BATCH];
	struct plan_blocked blocked;
	struct flush_bucket flush;
	uint64_t allowance; /* bytes that the running drain step may write */
	uint64_t drain_at_ns, quiesce_at_ns;
	uint64_t drain_pause_ns, quiesce_pause_ns;
	uint64_t exchanged_ns; /* when chunks were last exchanged for others tried before */
	uint64_t undo_began_ns, moved_ns;
	uint32_t keep_lingering; /* drained chunks that are to linger whatever the request says */

	/* Putting back into use. */
	uint32_t restore_next;
	int grow_back; /* grow to the size it had before, once everything is back in use */
	uint32_t restore_failures;
	uint64_t restore_at_ns;
};

/** plan_check() - is the request acceptable at the present size? Changes nothing. */
int plan_check(const struct plan *plan, const struct tide_request *request, uint64_t min_bytes,
	       struct tide_reason *why);

/**
 * plan_begin() - begin an operation; every chunk is in a state that lasts
 *
 * @base_bytes: audit before anything is done
 */
void plan_begin(struct plan *plan, const struct tide_request *request, uint64_t op,
		uint64_t base_bytes, uint64_t now_ns);

/** plan_commit_bytes() - bytes that a grow just begun has to commit */
uint64_t plan_commit_bytes(const struct plan *plan);

/** plan_refuse() - preflight said no: ends as DENIED, or goes on with what can be had */
void plan_refuse(struct plan *plan, const struct tide_reason *why, uint64_t now_ns);

/** plan_finish() - end the operation here and now; not for one that has ended */
void plan_finish(struct plan *plan, enum tide_op_state end, uint64_t now_ns);

/** plan_cancel() - stop at the next action; @why: reason that the operation will end with */
void plan_cancel(struct plan *plan, const struct tide_reason *why);

/** plan_next() - the next action; not for an operation that has ended */
void plan_next(struct plan *plan, uint64_t now_ns, struct plan_action *action);

/** plan_result() - how the action went; the operation may have ended then (plan_running) */
void plan_result(struct plan *plan, const struct plan_action *action,
		 const struct plan_result *result, uint64_t now_ns);

/** plan_account() - time has passed */
void plan_account(struct plan *plan, uint64_t now_ns);

/** plan_note_audit() - the kernel's figure, read at this moment */
void plan_note_audit(struct plan *plan, uint64_t bytes);

/** plan_is_valid() - do the view, the counts and the slots agree? For assertions and tests. */
int plan_is_valid(const struct plan *plan);

static inline int plan_running(const struct plan *plan)
{
	return plan->stage != PLAN_STAGE_ENDED;
}

/* Chunks that hold memory whose buffers are usable or were a moment ago. */
static inline uint32_t plan_usable(const struct plan *plan)
{
	return plan->counts[TIDE_CHUNK_ACTIVE] + plan->counts[TIDE_CHUNK_FENCED] +
	       plan->counts[TIDE_CHUNK_DRAINING] + plan->counts[TIDE_CHUNK_QUIESCING];
}

/* Chunks that the kernel must be backing; those being committed or released are in between. */
static inline uint32_t plan_backed(const struct plan *plan)
{
	return plan_usable(plan) + plan->counts[TIDE_CHUNK_LINGERING];
}

static inline void plan_set(struct plan *plan, uint32_t chunk, enum tide_chunk_state state)
{
	plan->counts[plan->states[chunk]]--;
	plan->counts[state]++;
	plan->states[chunk] = (uint8_t)state;
}

#endif /* RESIZE_PLAN_H */
