/* SPDX-License-Identifier: PostgreSQL */
/*
 * pool/session.h - a session as its thread sees it.
 */
#ifndef POOL_SESSION_H
#define POOL_SESSION_H

#include "pool/shared.h"

struct tide_session {
	struct tide_pool *pool;
	struct slot *slot;
	struct tide_reader reader;
	uint64_t me;	       /* owner bits: index + 1 */
	uint64_t free_entries; /* bit i = entry i is free */
	uint64_t free_claims;  /* bit i = claim i is free */
	uint32_t n_hints;      /* hints are a stack */
	uint32_t tick;	       /* counts hits; replace_hit() */
	struct replace_recent recent;
	_Atomic uint8_t nowhere; /* takes stores that change nothing; nobody reads it */
	uint32_t search_chunk;	 /* where the search for free buffers goes on */
	uint32_t search_buffer;	 /* in it */
	uint32_t process_id;
};

static inline void session_count(struct tide_session *session, enum slot_counter counter,
				 uint64_t n)
{
	_Atomic uint64_t *at = &session->slot->counter[counter];

	/* Only we store: no read-modify-write needed. */
	atomic_store_explicit(at, atomic_load_explicit(at, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

static inline int session_is_fenced(const struct tide_session *session)
{
	return session->reader.mode != TIDE_READER_PLAIN;
}

/*
 * (E) pairs with (F), the barrier between claim and scan (claim.c): the entry is visible before the
 * state is looked at afterwards, or the claim is seen there.
 */
static inline void session_note(struct tide_session *session, uint32_t at, uint64_t entry)
{
	struct slot *slot = session->slot;

	if (at >= atomic_load_explicit(&slot->used, memory_order_relaxed))
		atomic_store_explicit(&slot->used, at + 1, memory_order_relaxed);
	if (__builtin_expect(session_is_fenced(session), 0)) {
		(void)atomic_exchange_explicit(&slot->entry[at], entry, memory_order_seq_cst);
		return;
	}
	atomic_store_explicit(&slot->entry[at], entry, memory_order_release);
	atomic_signal_fence(memory_order_seq_cst);
}

/* (G) pairs with (H), the writer's scan (latch.c): visible before the state is looked at again. */
static inline void session_show(struct tide_session *session, uint32_t at, uint64_t entry)
{
	struct slot *slot = session->slot;

	if (at >= atomic_load_explicit(&slot->used, memory_order_relaxed))
		atomic_store_explicit(&slot->used, at + 1, memory_order_relaxed);
	(void)atomic_exchange_explicit(&slot->entry[at], entry, memory_order_seq_cst);
}

/* Release: what was done to the page comes before somebody may take the buffer. */
static inline void session_forget(struct tide_session *session, uint32_t at)
{
	atomic_store_explicit(&session->slot->entry[at], 0, memory_order_release);
}

#if defined(__SANITIZE_THREAD__)
#define SESSION_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SESSION_TSAN 1
#endif
#endif

/**
 * session_see_all() - ThreadSanitizer only: see what every session of this process let go of
 *
 * That a reader of this process has left may be known through another process, which looked at its entry
 * and let go of the buffer then. ThreadSanitizer knows one process only; so whoever gets a buffer to himself
 * looks at all entries again.
 */
#ifdef SESSION_TSAN
void session_see_all(const struct tide_session *session);
#else
static inline void session_see_all(const struct tide_session *session)
{
	(void)session;
}
#endif

/**
 * session_batch() - how many buffers a session should have in its hands: @most, fewer in a small pool
 *
 * All sessions together leave three quarters of the buffers to pages. Never 0.
 */
uint32_t session_batch(const struct tide_session *session, uint32_t most);

/** session_claim() - note a buffer that is about to become our own; returns the place */
uint32_t session_claim(struct tide_session *session, uint32_t buffer);

/** session_unclaim() - it is not our own any more */
void session_unclaim(struct tide_session *session, uint32_t claim);

/**
 * session_pinned() - which of these buffers does a session have fixed? Bit i = buffers[i].
 *
 * At most 64. Our own count, too. What the entries mean against a claim is said in slot.h.
 */
uint64_t session_pinned(struct tide_session *session, const uint32_t *buffers, uint32_t n);

/** session_has_fix() - mode + 1 of one of our own fixes of the buffer; WRITE before others; 0 = none */
int session_has_fix(const struct tide_session *session, uint32_t buffer);

/** session_reap() - tide_pool_reap(), callable with pages fixed but not within a read section */
uint32_t session_reap(struct tide_session *session);

#endif /* POOL_SESSION_H */
