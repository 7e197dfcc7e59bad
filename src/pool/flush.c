/* SPDX-License-Identifier: PostgreSQL */
/*
 * flush.c - making pages durable.
 *
 * A walk over the buffers in order must not be overtaken by a page that moves from a buffer that the walk
 * has not reached to one that it has passed. Therefore a session says that it is scanning before
 * it walks, and a move looks for that after it has claimed both buffers (relocate.c): either the move
 * is given up, or the walk finds the claims and waits for it to end.
 *   (I) scanning is stored before the walk   pairs with   (J) the move's look at it after its claims
 */
#include <time.h>

#include "pool/latch.h"
#include "pool/pages.h"
#include "pool/write.h"

#define ROUNDS_BEFORE_ALIVE 10u

struct flush {
	struct pages pages;
	int code; /* of the first page that could not be written */
	struct tide_reason *why;
};

static int needs_flush(const struct tide_pool *pool, const struct flush *flush, uint32_t buffer,
		       uint64_t state)
{
	const struct tide_page_id id = descriptor_id(&pool->descriptors[buffer]);

	if (state & STATE_MOVE)
		return 1; /* whatever it is going to be */
	return (state & STATE_DIRTY) && pages_hold(&flush->pages, &id);
}

/* Return: bit i = buffers[i] is done with: it has been written, or writing it failed. */
static uint64_t write_some(struct tide_session *session, struct flush *flush,
			   const uint32_t *buffers, uint32_t n)
{
	struct tide_reason other;
	struct written written;
	int code = write_out(session, buffers, n, &written,
			     flush->code == TIDE_OK ? flush->why : &other);

	if (code != TIDE_OK && flush->code == TIDE_OK)
		flush->code = code;
	return written.done | written.failed;
}

/* For the owner of a dirty buffer, or for another session that is writing it to storage. */
static void wait(struct tide_session *session, uint32_t buffer, uint64_t state, unsigned round)
{
	const struct timespec nap = {.tv_nsec = 100000};
	struct tide_pool *pool = session->pool;

	if (state_owner(state) != 0) {
		tide_reader_enter(&session->reader);
		if (pool_chunk_readable(pool, pool_chunk(pool, buffer)))
			latch_wait(session, buffer, state, round);
		tide_reader_leave(&session->reader);
	} else if (state_writer(state) != 0) {
		nanosleep(&nap, NULL);
	}
	if (round > ROUNDS_BEFORE_ALIVE && latch_owner_died(session, state) == 0 &&
	    state_writer(state) != 0 && !tide_grace_alive(pool->grace, state_writer(state) - 1))
		(void)session_reap(session);
}

/*
 * Wait until nobody owns the buffer, and write it if it is dirty then. Once is enough: what makes it dirty
 * again came after the flush began. Return: 1, or 0 when there was nothing to write.
 */
static int finish(struct tide_session *session, struct flush *flush, uint32_t buffer)
{
	struct tide_pool *pool = session->pool;

	for (unsigned round = 0;; round++) {
		uint64_t state = 0;
		int dirty = 0;

		tide_reader_enter(&session->reader);
		if (pool_chunk_readable(pool, pool_chunk(pool, buffer))) {
			state = descriptor_state(&pool->descriptors[buffer]);
			dirty = needs_flush(pool, flush, buffer, state);
		}
		tide_reader_leave(&session->reader);
		if (!dirty)
			return 0;
		/* Also when it is owned: by somebody who waits for our own fix, it can be written. */
		if (write_some(session, flush, &buffer, 1))
			return 1;
		wait(session, buffer, state, round);
	}
}

/* Those of one span that need it. */
static uint32_t collect(struct tide_session *session, const struct flush *flush, uint32_t first,
			uint32_t n, uint32_t *buffers)
{
	const struct tide_pool *pool = session->pool;
	uint32_t found = 0;

	tide_reader_enter(&session->reader);
	if (pool_chunk_readable(pool, pool_chunk(pool, first)))
		for (uint32_t i = 0; i < n; i++) {
			const uint64_t state = descriptor_state(&pool->descriptors[first + i]);

			if (needs_flush(pool, flush, first + i, state))
				buffers[found++] = first + i;
		}
	tide_reader_leave(&session->reader);
	return found;
}

static void flush_walk(struct tide_session *session, struct flush *flush)
{
	const struct shared *shared = session->pool->shared;
	const uint32_t reach = atomic_load_explicit(&shared->n_reach, memory_order_acquire);
	const uint32_t step = pool_step(session->pool, SLOT_HOLDS);
	uint32_t buffers[SLOT_HOLDS];

	for (uint32_t first = 0; first < reach; first += step) {
		const uint32_t n = collect(session, flush, first, step, buffers);
		uint64_t over = 0;

		if (n > 0)
			over = write_some(session, flush, buffers, n);
		for (uint32_t i = 0; i < n; i++)
			if (!(over >> i & 1))
				(void)finish(session, flush, buffers[i]);
	}
}

/* By id: a page that moved meanwhile is looked up again. */
static void flush_page(struct tide_session *session, struct flush *flush,
		       const struct tide_page_id *id)
{
	struct tide_pool *pool = session->pool;
	const uint64_t hash = tide_lookup_hash(pool->lookup, id);

	for (;;) {
		uint32_t buffer;
		uint64_t state = 0;

		tide_reader_enter(&session->reader);
		buffer = tide_lookup_find(pool->lookup, id, hash);
		if (buffer != TIDE_LOOKUP_NONE)
			state = descriptor_state(&pool->descriptors[buffer]);
		tide_reader_leave(&session->reader);
		if (!(state & STATE_DIRTY) || finish(session, flush, buffer))
			return;
	}
}

static int check_flush(const struct tide_session *session, const struct flush *flush,
		       struct tide_reason *why)
{
	uint64_t taken = ~session->free_entries;

	for (; taken; taken &= taken - 1) {
		const uint64_t entry = atomic_load_explicit(
			&session->slot->entry[__builtin_ctzll(taken)], memory_order_relaxed);
		struct tide_page_id id;

		if (entry_mode(entry) != TIDE_FIX_WRITE)
			continue;
		id = descriptor_id(&session->pool->descriptors[entry_buffer(entry)]);
		if (pages_hold(&flush->pages, &id))
			return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
					       "this session has one of the pages fixed for "
					       "writing: it would wait for itself");
	}
	return TIDE_OK;
}

int tide_pool_flush(struct tide_session *session, uint64_t file, uint64_t first, uint64_t n,
		    struct tide_reason *why)
{
	struct flush flush = {.pages = {.file = file, .first = first, .n = n}, .why = why};
	const struct shared *shared = session->pool->shared;
	struct tide_reason other;
	int code = check_flush(session, &flush, why);

	if (code != TIDE_OK)
		return code;
	/* (I) */
	atomic_store_explicit(&session->slot->scanning, 1, memory_order_seq_cst);
	if (pages_are_few(&flush.pages,
			  atomic_load_explicit(&shared->n_usable, memory_order_relaxed)))
		for (uint64_t i = 0; i < n; i++) {
			const struct tide_page_id id = {.file = file, .page = first + i};

			flush_page(session, &flush, &id);
		}
	else
		flush_walk(session, &flush);
	atomic_store_explicit(&session->slot->scanning, 0, memory_order_release);
	code = write_sync(session, file, flush.code == TIDE_OK ? why : &other);
	return flush.code != TIDE_OK ? flush.code : code;
}
