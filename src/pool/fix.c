/* SPDX-License-Identifier: PostgreSQL */
/* fix.c - having a page and letting go of it. */
#include <string.h>
#include <time.h>

#include "pool/buffer.h"
#include "pool/claim.h"
#include "pool/clock.h"
#include "pool/latch.h"
#include "pool/load.h"

#define TORN_PATIENCE_NS UINT64_C(1000000000)
#define ROUNDS_BEFORE_ALIVE 10u

/* One fix that did not succeed at once. */
struct attempt {
	const struct tide_page_id *id;
	uint64_t hash;
	enum tide_fix_mode mode;
	uint32_t at; /* entry */
	unsigned round;
	uint64_t began_ns; /* 0 = never waited for a torn page */
};

static inline void heat(struct tide_session *session, uint32_t buffer)
{
	struct descriptor *d = &session->pool->descriptors[buffer];
	_Atomic uint8_t *at;
	uint8_t before, after;

	if (replace_recent(&session->recent, buffer))
		return;
	before = atomic_load_explicit(&d->heat, memory_order_relaxed);
	after = replace_hit(before, ++session->tick);
	/* Elsewhere when nothing changes: a store to the page's line only if need be, and no branch. */
	at = after != before ? &d->heat : &session->nowhere;
	atomic_store_explicit(at, after, memory_order_relaxed);
}

static inline void taken(struct tide_session *session, uint32_t buffer, uint32_t at,
			 struct tide_fix *fix)
{
	session->free_entries &= ~(UINT64_C(1) << at);
	fix->page = pool_page(session->pool, buffer);
	fix->buffer = buffer;
	fix->entry = at;
}

/* The entry holds the buffer before the page becomes valid, so that no moment is unprotected. */
static void keep_loaded(struct tide_session *session, const struct load *load,
			const struct attempt *attempt)
{
	if (attempt->mode == TIDE_FIX_PIN) {
		session_note(session, attempt->at, entry_make(load->buffer, TIDE_FIX_PIN));
		load_end(session, load, 0);
	} else if (attempt->mode == TIDE_FIX_READ) {
		session_show(session, attempt->at, entry_make(load->buffer, TIDE_FIX_READ));
		load_end(session, load, STATE_BIAS);
	} else {
		session_note(session, attempt->at, entry_make(load->buffer, TIDE_FIX_WRITE));
		load_end(session, load, STATE_X);
	}
}

static int read_page(struct tide_session *session, const struct load *load, struct tide_reason *why)
{
	const struct tide_storage *storage = &session->pool->storage;
	struct tide_io io = {.id = load->id, .page = pool_page(session->pool, load->buffer)};
	int code = storage->ops->transfer(storage->self, &io, 1, why);

	if (code == TIDE_OK)
		session_count(session, SLOT_READ, 1);
	return code;
}

/* Return: 1 = fixed, 0 = look again, or a negative code. */
static int miss(struct tide_session *session, const struct attempt *attempt, struct tide_fix *fix,
		struct tide_reason *why)
{
	struct load load;
	int code = load_begin(session, attempt->id, attempt->hash, &load, why);

	if (code <= 0)
		return code;
	session_count(session, SLOT_MISS, 1);
	if (attempt->mode == TIDE_FIX_NEW)
		memset(pool_page(session->pool, load.buffer), 0, session->pool->page_bytes);
	else
		code = read_page(session, &load, why);
	if (code < 0) {
		load_fail(session, &load);
		return code;
	}
	keep_loaded(session, &load, attempt);
	taken(session, load.buffer, attempt->at, fix);
	return 1;
}

/* The page's writer died. It goes as soon as nobody has it fixed; then it is read again. */
static int drop_torn(struct tide_session *session, struct attempt *attempt, uint32_t buffer,
		     uint64_t state, struct tide_reason *why)
{
	const struct timespec nap = {.tv_nsec = 1000000};
	struct claims claims = {0};
	uint64_t now_ns;

	tide_reader_enter(&session->reader);
	if (pool_chunk_readable(session->pool, pool_chunk(session->pool, buffer)))
		(void)claim_try(session, &claims, buffer, state);
	tide_reader_leave(&session->reader);
	if (claims.n > 0 && claim_settle(session, &claims) == 0) {
		claim_forget_page(session, buffer, claims.hash[0], 0);
		buffer_give(session, buffer, claims.place[0]);
		return TIDE_OK;
	}
	now_ns = clock_ns();
	if (attempt->began_ns == 0)
		attempt->began_ns = now_ns;
	if (now_ns - attempt->began_ns > TORN_PATIENCE_NS)
		return tide_reason_set(why, TIDE_PINNED_BUFFERS, 0,
				       "the writer of the page died, and others have had the page "
				       "fixed for a second since");
	(void)session_reap(session);
	nanosleep(&nap, NULL);
	return TIDE_OK;
}

/* The buffer that was found cannot be had at this moment. Return: 0 = look again, or a negative code. */
static int look_again(struct tide_session *session, struct attempt *attempt,
		      enum latch_outcome outcome, uint32_t buffer, uint64_t state,
		      struct tide_reason *why)
{
	if (outcome == LATCH_OWN)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "this session has the page fixed in a mode that excludes "
				       "the one asked for");
	if (outcome == LATCH_TORN)
		return drop_torn(session, attempt, buffer, state, why);
	if (outcome == LATCH_BUSY && ++attempt->round > ROUNDS_BEFORE_ALIVE)
		(void)latch_owner_died(session, state);
	return TIDE_OK;
}

/* Return: 1 = fixed, 0 = look again, or a negative code. */
static int fix_once(struct tide_session *session, struct attempt *attempt, struct tide_fix *fix,
		    struct tide_reason *why)
{
	struct tide_pool *pool = session->pool;
	enum latch_outcome outcome = LATCH_MOVED;
	uint64_t state = 0;
	uint32_t buffer;

	tide_reader_enter(&session->reader);
	buffer = tide_lookup_find(pool->lookup, attempt->id, attempt->hash);
	if (buffer != TIDE_LOOKUP_NONE) {
		outcome = latch_take(session, buffer, attempt->id, attempt->mode, attempt->at,
				     &state);
		if (outcome == LATCH_TAKEN)
			heat(session, buffer);
		else if (outcome == LATCH_BUSY)
			latch_wait(session, buffer, state, attempt->round);
	}
	tide_reader_leave(&session->reader);
	if (buffer == TIDE_LOOKUP_NONE)
		return miss(session, attempt, fix, why);
	if (outcome != LATCH_TAKEN)
		return look_again(session, attempt, outcome, buffer, state, why);
	if (attempt->mode >= TIDE_FIX_WRITE && (state & STATE_BIAS))
		latch_wait_readers(session, buffer);
	taken(session, buffer, attempt->at, fix);
	session_count(session, SLOT_HIT, 1);
	return 1;
}

static int check_fix(const struct tide_session *session, const struct tide_page_id *id,
		     enum tide_fix_mode mode, struct tide_reason *why)
{
	if ((unsigned)mode > TIDE_FIX_NEW)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0, "%d is no mode of fixing a page",
				       (int)mode);
	if (id->file == TIDE_ALL_FILES || id->page == TIDE_ALL_PAGES)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "the largest number is no file and no page");
	if (session->free_entries != 0)
		return TIDE_OK;
	return tide_reason_set(why, TIDE_LIMIT_REACHED, 0,
			       "this session has %u pages fixed already", TIDE_SESSION_FIXES);
}

static __attribute__((noinline)) int fix_slowly(struct tide_session *session,
						const struct tide_page_id *id,
						enum tide_fix_mode mode, struct tide_fix *fix,
						struct tide_reason *why)
{
	struct attempt attempt;
	int code = check_fix(session, id, mode, why);

	if (code != TIDE_OK)
		return code;
	attempt = (struct attempt){.id = id,
				   .hash = tide_lookup_hash(session->pool->lookup, id),
				   .mode = mode,
				   .at = (uint32_t)__builtin_ctzll(session->free_entries)};
	do {
		code = fix_once(session, &attempt, fix, why);
	} while (code == 0);
	return code > 0 ? TIDE_OK : code;
}

/* The hit that is worth a path of its own: pinned, and nobody in the way. It stores to our slot only. */
static inline int fix_at_once(struct tide_session *session, const struct tide_page_id *id,
			      struct tide_fix *fix)
{
	const struct tide_pool *pool = session->pool;
	const uint64_t hash = tide_lookup_hash(pool->lookup, id);
	const uint32_t at = (uint32_t)__builtin_ctzll(session->free_entries);
	uint32_t buffer;
	uint64_t state;
	int fixed = 0;

	tide_reader_enter(&session->reader);
	buffer = tide_lookup_find(pool->lookup, id, hash);
	if (__builtin_expect(buffer != TIDE_LOOKUP_NONE, 1)) {
		fixed = latch_pin(session, buffer, id, at, &state) == LATCH_TAKEN;
		if (__builtin_expect(fixed, 1))
			heat(session, buffer);
	}
	tide_reader_leave(&session->reader);
	if (__builtin_expect(!fixed, 0))
		return 0;
	taken(session, buffer, at, fix);
	session_count(session, SLOT_HIT, 1);
	return 1;
}

int tide_pool_fix(struct tide_session *session, const struct tide_page_id *id,
		  enum tide_fix_mode mode, struct tide_fix *fix, struct tide_reason *why)
{
	if (__builtin_expect(mode == TIDE_FIX_PIN && session->free_entries != 0, 1) &&
	    __builtin_expect(fix_at_once(session, id, fix), 1))
		return TIDE_OK;
	return fix_slowly(session, id, mode, fix, why);
}

void tide_pool_mark_dirty(struct tide_session *session, const struct tide_fix *fix)
{
	atomic_fetch_or_explicit(&session->pool->descriptors[fix->buffer].state, STATE_DIRTY,
				 memory_order_seq_cst);
}

void tide_pool_unfix(struct tide_session *session, struct tide_fix *fix)
{
	const uint64_t entry =
		atomic_load_explicit(&session->slot->entry[fix->entry], memory_order_relaxed);

	/* Let go of the page before the entry: the reaper looks for what is owned in the entries. */
	if (__builtin_expect(entry_mode(entry) == TIDE_FIX_WRITE, 0))
		latch_release(session->pool, fix->buffer, 0, STATE_X);
	session_forget(session, fix->entry);
	session->free_entries |= UINT64_C(1) << fix->entry;
	fix->page = NULL;
}
