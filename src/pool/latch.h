/* SPDX-License-Identifier: PostgreSQL */
/*
 * pool/latch.h - fixing a buffer that was found, letting go of it, and waiting for its owner.
 *
 * READ against WRITE. Readers are visible in their entries only. So that a writer need not look through
 * all entries each time, a buffer is BIASed while it may have readers:
 *   reader   sets BIAS, shows its entry, and looks at the state again: no owner, BIAS still set
 *   writer   becomes owner, and when BIAS is set waits until no READ entry is left, then clears it
 * Each does its first step before its second, both sequentially consistent, so one sees the other.
 */
#ifndef POOL_LATCH_H
#define POOL_LATCH_H

#include "pool/session.h"

enum latch_outcome {
	LATCH_TAKEN,
	LATCH_MOVED, /* the buffer holds another page, or none: look the page up again */
	LATCH_BUSY,  /* somebody owns the buffer: latch_wait(), then look the page up again */
	LATCH_TORN,  /* the page has to be dropped first */
	LATCH_OWN,   /* we have it fixed in a mode that excludes this one */
};

/** latch_refuse() - what a state that does not let us in means */
enum latch_outcome latch_refuse(const struct tide_session *session, uint64_t state);

/** latch_pin() - latch_take() for TIDE_FIX_PIN: on the path of every hit */
static inline enum latch_outcome latch_pin(struct tide_session *session, uint32_t b,
					   const struct tide_page_id *id, uint32_t at,
					   uint64_t *state)
{
	const struct descriptor *d = &session->pool->descriptors[b];

	session_note(session, at, entry_make(b, TIDE_FIX_PIN));
	*state = descriptor_state(d);
	if (__builtin_expect(state_is_resident(*state) && descriptor_holds(d, id), 1))
		return LATCH_TAKEN;
	session_forget(session, at);
	if (state_is_resident(*state))
		return LATCH_MOVED;
	return latch_refuse(session, *state);
}

/**
 * latch_take() - fix buffer @b, which the lookup table gave for @id; inside a read section
 *
 * For writing the buffer is ours then, but readers may be left: when STATE_BIAS is set in *state,
 * latch_wait_readers() comes next, after the section.
 *
 * @at:    entry to use; empty again unless taken
 * @state: out: what was seen last; for latch_wait()
 */
enum latch_outcome latch_take(struct tide_session *session, uint32_t b,
			      const struct tide_page_id *id, enum tide_fix_mode mode, uint32_t at,
			      uint64_t *state);

/**
 * latch_wait() - until the owner seen in @state has let go, but not for long; inside a read section
 *
 * @round: how often the caller waited already; decides between spinning and sleeping
 */
void latch_wait(struct tide_session *session, uint32_t b, uint64_t state, unsigned round);

/** latch_owner_died() - outside a section: has the owner seen in @state died? Then it is reaped. */
int latch_owner_died(struct tide_session *session, uint64_t state);

/**
 * latch_own_read_keeps() - a writer owns the buffer, but waits for a READ fix of ours?
 *
 * As long as that fix lasts, we may read on: waiting for the writer would be waiting for ourselves.
 */
int latch_own_read_keeps(const struct tide_session *session, uint32_t b, uint64_t state);

/**
 * latch_wait_readers() - we own @b: wait until nobody has it fixed for reading, clear BIAS
 *
 * Not inside a read section: it may last as long as a reader likes.
 */
void latch_wait_readers(struct tide_session *session, uint32_t b);

/**
 * latch_release() - let go of a buffer that we own: set and clear flags, wake who waits
 *
 * Return: the state it has now.
 */
uint64_t latch_release(struct tide_pool *pool, uint32_t b, uint64_t set, uint64_t clear);

#endif /* POOL_LATCH_H */
