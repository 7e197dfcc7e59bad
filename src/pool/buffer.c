/* SPDX-License-Identifier: PostgreSQL */
/* buffer.c - free buffers: getting one for a page, and giving one back. */
#include "pool/buffer.h"

#include <inttypes.h>
#include <time.h>

#include "pool/clock.h"
#include "pool/evict.h"
#include "pool/latch.h"
#include "pool/pause.h"
#include "pool/reap.h"

#define PATIENCE_NS UINT64_C(2000000000)
#define FAILURES 8 /* to write dirty victims, before it is an error */
#define REAP_EVERY_NS UINT64_C(10000000)

void buffer_count_free(struct tide_pool *pool, uint32_t buffer)
{
	atomic_fetch_add_explicit(&pool->free_counts[pool_chunk(pool, buffer)], 1,
				  memory_order_relaxed);
	atomic_fetch_add_explicit(&pool->shared->n_free, 1, memory_order_relaxed);
}

/*
 * The counts tell where to search. A buffer is free first and counted afterwards: search_chunk(), which puts
 * right a count that is too high, then cannot take back a count whose buffer it has passed. Who takes
 * the buffer in between leaves a count that is too high. A death in between leaves one too low; the
 * buffer is still noted as claimed, and the reaper counts it (again).
 */
void buffer_uncount_free(struct tide_pool *pool, uint32_t buffer)
{
	_Atomic uint32_t *count = &pool->free_counts[pool_chunk(pool, buffer)];
	uint32_t found = atomic_load_explicit(count, memory_order_relaxed);

	while (found > 0)
		if (atomic_compare_exchange_weak_explicit(
			    count, &found, found - 1, memory_order_relaxed, memory_order_relaxed)) {
			atomic_fetch_sub_explicit(&pool->shared->n_free, 1, memory_order_relaxed);
			return;
		}
}

/* Make a free buffer our own; inside a section, its chunk seen active. */
static int take(struct tide_session *session, uint32_t buffer, uint64_t mark, uint32_t *place)
{
	struct tide_pool *pool = session->pool;
	struct descriptor *d = &pool->descriptors[buffer];
	uint64_t state = descriptor_state(d);
	uint64_t wanted;

	if (!state_is_free(state))
		return 0;
	*place = session_claim(session, buffer);
	wanted = ((state & ~(STATE_FLAGS | STATE_OWNER)) + STATE_VERSION) | STATE_USABLE | mark |
		 session->me;
	if (!descriptor_swap(d, &state, wanted)) {
		session_unclaim(session, *place);
		return 0;
	}
	session_see_all(session);
	if (!(state & STATE_HINT))
		buffer_uncount_free(pool, buffer);
	return 1;
}

static int take_hint(struct tide_session *session, uint64_t mark, uint32_t *buffer, uint32_t *place)
{
	const struct tide_pool *pool = session->pool;
	int taken = 0;

	while (!taken && session->n_hints > 0) {
		_Atomic uint32_t *hint = &session->slot->hint[--session->n_hints];

		*buffer = atomic_load_explicit(hint, memory_order_relaxed) - 1;
		if (pool_chunk_active(pool, pool_chunk(pool, *buffer)))
			taken = take(session, *buffer, mark, place);
		atomic_store_explicit(hint, 0, memory_order_release);
	}
	return taken;
}

/* The chunk where the search stands. One that has nothing in spite of its count is put right. */
static int search_chunk(struct tide_session *session, uint64_t mark, uint32_t *buffer,
			uint32_t *place)
{
	const struct tide_pool *pool = session->pool;
	const uint32_t n = pool->shared->layout.chunk_buffers;
	_Atomic uint32_t *count = &pool->free_counts[session->search_chunk];
	uint32_t promised = atomic_load_explicit(count, memory_order_relaxed);

	if (promised == 0)
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		const uint32_t k = (session->search_buffer + i) & (n - 1);

		*buffer = (session->search_chunk << pool->chunk_shift) + k;
		if (take(session, *buffer, mark, place)) {
			session->search_buffer = (k + 1) & (n - 1);
			return 1;
		}
	}
	if (atomic_compare_exchange_strong_explicit(count, &promised, 0, memory_order_relaxed,
						    memory_order_relaxed))
		atomic_fetch_sub_explicit(&pool->shared->n_free, promised, memory_order_relaxed);
	return 0;
}

static int search(struct tide_session *session, uint64_t mark, uint32_t *buffer, uint32_t *place)
{
	const struct tide_pool *pool = session->pool;
	uint32_t n_chunks;

	if (atomic_load_explicit(&pool->shared->n_free, memory_order_relaxed) <= 0)
		return 0;
	n_chunks = atomic_load_explicit(&pool->shared->n_reach, memory_order_relaxed) >>
		   pool->chunk_shift;
	for (uint32_t i = 0; i < n_chunks; i++) {
		if (session->search_chunk >= n_chunks)
			session->search_chunk = 0;
		if (pool_chunk_active(pool, session->search_chunk) &&
		    search_chunk(session, mark, buffer, place))
			return 1;
		session->search_chunk++;
		session->search_buffer = 0;
	}
	return 0;
}

int buffer_find_free(struct tide_session *session, uint64_t mark, uint32_t *buffer, uint32_t *place)
{
	int found;

	tide_reader_enter(&session->reader);
	found = take_hint(session, mark, buffer, place) || search(session, mark, buffer, place);
	tide_reader_leave(&session->reader);
	return found;
}

void buffer_make_loading(struct tide_session *session, uint32_t buffer, uint64_t mark)
{
	struct descriptor *d = &session->pool->descriptors[buffer];
	uint64_t state = descriptor_state(d);

	/* Waiters look the page up again when the owner changes; they time out on us. */
	while (!descriptor_swap(d, &state,
				((state & ~(STATE_FLAGS | STATE_OWNER)) + STATE_VERSION) |
					STATE_USABLE | (state & STATE_WAIT) | mark | session->me))
		;
}

void buffer_give(struct tide_session *session, uint32_t buffer, uint32_t place)
{
	struct tide_pool *pool = session->pool;
	const uint64_t clear = STATE_FLAGS & ~STATE_USABLE;

	if (session->n_hints < session_batch(session, SLOT_HINTS)) {
		/* Noted first: a hint without a note would be found by the hands only. */
		atomic_store_explicit(&session->slot->hint[session->n_hints++], buffer + 1,
				      memory_order_release);
		latch_release(pool, buffer, STATE_HINT, clear & ~STATE_HINT);
	} else {
		latch_release(pool, buffer, 0, clear);
		buffer_count_free(pool, buffer);
	}
	session_unclaim(session, place);
}

void buffer_publish_hint(struct tide_pool *pool, uint32_t buffer, uint64_t state)
{
	if (descriptor_swap(&pool->descriptors[buffer], &state, state & ~STATE_HINT))
		buffer_count_free(pool, buffer);
}

void buffer_drop_hints(struct tide_session *session)
{
	struct tide_pool *pool = session->pool;

	tide_reader_enter(&session->reader);
	while (session->n_hints > 0) {
		_Atomic uint32_t *hint = &session->slot->hint[--session->n_hints];
		const uint32_t buffer = atomic_load_explicit(hint, memory_order_relaxed) - 1;
		uint64_t state;

		if (pool_chunk_active(pool, pool_chunk(pool, buffer))) {
			state = descriptor_state(&pool->descriptors[buffer]);
			if (state_is_free(state) && (state & STATE_HINT))
				buffer_publish_hint(pool, buffer, state);
		}
		atomic_store_explicit(hint, 0, memory_order_release);
	}
	tide_reader_leave(&session->reader);
}

/* What the buffers are at this moment, for a message. */
static void count_buffers(struct tide_session *session, uint32_t *n_free, uint32_t *n_owned,
			  uint32_t *n_dirty, uint32_t *n_clean)
{
	const struct tide_pool *pool = session->pool;
	const uint32_t reach = atomic_load_explicit(&pool->shared->n_reach, memory_order_relaxed);

	*n_free = *n_owned = *n_dirty = *n_clean = 0;
	tide_reader_enter(&session->reader);
	for (uint32_t buffer = 0; buffer < reach; buffer++) {
		uint64_t state;

		if (!pool_chunk_active(pool, pool_chunk(pool, buffer)))
			continue;
		state = descriptor_state(&pool->descriptors[buffer]);
		if (state_is_free(state))
			++*n_free;
		else if (state_owner(state) != 0)
			++*n_owned;
		else if (state & STATE_DIRTY)
			++*n_dirty;
		else
			++*n_clean;
	}
	tide_reader_leave(&session->reader);
}

static int exhausted(struct tide_session *session, struct tide_reason *why)
{
	uint32_t n_free, n_owned, n_dirty, n_clean;
	int code;

	count_buffers(session, &n_free, &n_owned, &n_dirty, &n_clean);
	code = tide_reason_set(why, TIDE_POOL_EXHAUSTED, 0,
			       "no buffer could be had for %" PRIu64 " s: of %" PRIu32
			       " buffers %" PRIu32 " are free, %" PRIu32 " owned, %" PRIu32
			       " dirty and %" PRIu32 " clean; clean ones are fixed",
			       PATIENCE_NS / UINT64_C(1000000000),
			       n_free + n_owned + n_dirty + n_clean, n_free, n_owned, n_dirty,
			       n_clean);

	tide_reason_hint(why, "fix fewer pages at a time, or make the pool larger");
	return code;
}

int buffer_take(struct tide_session *session, int ghost, uint32_t *buffer, uint32_t *place,
		struct tide_reason *why)
{
	const struct timespec nap = {.tv_nsec = 100000};
	uint64_t began_ns = 0, reaped_ns = 0, now_ns;
	int code, failures = 0;

	for (;;) {
		if (buffer_find_free(session, STATE_LOAD, buffer, place))
			break;
		code = evict_batch(session, ghost, why);
		/* Pages that cannot be written stand behind the others now. */
		if (code < 0 && ++failures == FAILURES)
			return code;
		if (code < 0)
			continue;
		if (code > 0)
			continue;
		now_ns = clock_ns();
		if (began_ns == 0)
			began_ns = reaped_ns = now_ns;
		if (now_ns - began_ns > PATIENCE_NS)
			return exhausted(session, why);
		if (now_ns - reaped_ns > REAP_EVERY_NS) {
			(void)session_reap(session);
			reaped_ns = now_ns;
		}
		nanosleep(&nap, NULL);
	}
	pool_pause(POOL_PAUSE_TAKEN);
	return TIDE_OK;
}
