/* SPDX-License-Identifier: PostgreSQL */
/* session.c - a thread's use of the pool: its slot, its pins, its claims. */
#include "pool/session.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "pool/buffer.h"
#include "pool/reap.h"

#define MAX_PINNED 64u

static void slot_clear(struct slot *slot)
{
	for (uint32_t i = 0; i < SLOT_ENTRIES; i++)
		atomic_store_explicit(&slot->entry[i], 0, memory_order_relaxed);
	for (uint32_t i = 0; i < SLOT_CLAIMS; i++)
		atomic_store_explicit(&slot->claim[i], 0, memory_order_relaxed);
	for (uint32_t i = 0; i < SLOT_HINTS; i++)
		atomic_store_explicit(&slot->hint[i], 0, memory_order_relaxed);
	for (int i = 0; i < SLOT_COUNTERS; i++)
		atomic_store_explicit(&slot->counter[i], 0, memory_order_relaxed);
	atomic_store_explicit(&slot->scanning, 0, memory_order_relaxed);
	/* Last, and it stays: entries of the next session are looked for up to here at least. */
	atomic_store_explicit(&slot->used, 0, memory_order_release);
}

static int register_reader(struct tide_session *session, struct tide_reason *why)
{
	struct tide_pool *pool = session->pool;
	int code = tide_reader_register(pool->grace, &session->reader, why);

	if (code == TIDE_LIMIT_REACHED && pool_reap(pool) > 0)
		code = tide_reader_register(pool->grace, &session->reader, why);
	if (code == TIDE_LIMIT_REACHED)
		tide_reason_hint(why, "close sessions, or create the pool with a larger "
				      "max_sessions");
	return code;
}

int tide_session_open(struct tide_pool *pool, struct tide_session **out, struct tide_reason *why)
{
	struct tide_session *session;
	int code;

	if (!pool || !out)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "no pool, or no place for the session");
	*out = NULL;
	session = calloc(1, sizeof(*session));
	if (!session)
		return tide_reason_set(why, TIDE_NOT_ENOUGH_MEMORY, ENOMEM,
				       "no memory for a session");
	session->pool = pool;
	code = register_reader(session, why);
	if (code != TIDE_OK) {
		free(session);
		return code;
	}
	session->slot = &pool->slots[tide_reader_index(&session->reader)];
	slot_clear(session->slot);
	session->me = tide_reader_index(&session->reader) + 1u;
	session->free_entries = UINT64_MAX;
	session->free_claims = UINT64_MAX;
	session->process_id = (uint32_t)getpid();
	session->recent = REPLACE_RECENT_NONE;
	*out = session;
	return TIDE_OK;
}

static void close_slot(struct tide_session *session)
{
	struct shared *shared = session->pool->shared;

	for (uint32_t at = 0; at < TIDE_SESSION_FIXES; at++) {
		const uint64_t entry =
			atomic_load_explicit(&session->slot->entry[at], memory_order_relaxed);
		struct tide_fix fix = {.entry = at};

		if (entry == 0)
			continue;
		fix.buffer = entry_buffer(entry);
		tide_pool_unfix(session, &fix);
	}
	buffer_drop_hints(session);
	for (int i = 0; i < SLOT_COUNTERS; i++)
		atomic_fetch_add_explicit(&shared->past[i],
					  atomic_exchange_explicit(&session->slot->counter[i], 0,
								   memory_order_relaxed),
					  memory_order_relaxed);
}

void tide_session_close(struct tide_session *session)
{
	if (!session)
		return;
	/* A child that inherited it owns nothing of what the slot holds. */
	if (session->process_id == (uint32_t)getpid())
		close_slot(session);
	tide_reader_unregister(&session->reader);
	free(session);
}

uint32_t session_batch(const struct tide_session *session, uint32_t most)
{
	const struct tide_pool *pool = session->pool;
	uint32_t n_slots, share;

	(void)tide_grace_slots(pool->grace, &n_slots);
	share = atomic_load_explicit(&pool->shared->n_usable, memory_order_relaxed) /
		(4 * (n_slots ? n_slots : 1));
	return share < 1 ? 1 : share < most ? share : most;
}

uint32_t session_claim(struct tide_session *session, uint32_t buffer)
{
	const uint32_t place = (uint32_t)__builtin_ctzll(session->free_claims);

	assert(session->free_claims != 0);
	session->free_claims &= ~(UINT64_C(1) << place);
	atomic_store_explicit(&session->slot->claim[place], buffer + 1, memory_order_release);
	return place;
}

void session_unclaim(struct tide_session *session, uint32_t claim)
{
	atomic_store_explicit(&session->slot->claim[claim], 0, memory_order_release);
	session->free_claims |= UINT64_C(1) << claim;
}

/* A filter of 256 bits keeps the comparison with every buffer for entries that may match. */
static void filter_set(uint64_t filter[4], const uint32_t *buffers, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		filter[buffers[i] >> 6 & 3] |= UINT64_C(1) << (buffers[i] & 63);
}

uint64_t session_pinned(struct tide_session *session, const uint32_t *buffers, uint32_t n)
{
	const struct tide_pool *pool = session->pool;
	uint64_t filter[4] = {0}, pinned = 0;
	uint32_t n_slots;

	assert(n <= MAX_PINNED);
	filter_set(filter, buffers, n);
	(void)tide_grace_slots(pool->grace, &n_slots);
	for (uint32_t i = 0; i < n_slots; i++) {
		const struct slot *slot = &pool->slots[i];
		const uint32_t used = atomic_load_explicit(&slot->used, memory_order_acquire);

		for (uint32_t k = 0; k < used; k++) {
			const uint64_t entry =
				atomic_load_explicit(&slot->entry[k], memory_order_seq_cst);
			const uint32_t b = entry_buffer(entry);

			if (entry == 0 || !(filter[b >> 6 & 3] >> (b & 63) & 1))
				continue;
			for (uint32_t j = 0; j < n; j++)
				if (buffers[j] == b)
					pinned |= UINT64_C(1) << j;
		}
	}
	return pinned;
}

int session_has_fix(const struct tide_session *session, uint32_t buffer)
{
	uint64_t taken = ~session->free_entries;
	int mode = 0;

	for (; taken; taken &= taken - 1) {
		const int at = __builtin_ctzll(taken);
		const uint64_t entry =
			atomic_load_explicit(&session->slot->entry[at], memory_order_relaxed);

		if (entry != 0 && entry_buffer(entry) == buffer &&
		    (int)entry_mode(entry) + 1 > mode)
			mode = (int)entry_mode(entry) + 1;
	}
	return mode;
}

#ifdef SESSION_TSAN
void session_see_all(const struct tide_session *session)
{
	const struct tide_pool *pool = session->pool;

	for (uint32_t i = 0; i < pool->shared->layout.max_sessions; i++)
		for (uint32_t k = 0; k < SLOT_ENTRIES; k++)
			(void)atomic_load_explicit(&pool->slots[i].entry[k], memory_order_acquire);
}
#endif

uint32_t session_reap(struct tide_session *session)
{
	return pool_reap(session->pool);
}

uint32_t tide_pool_reap(struct tide_session *session)
{
	return session_reap(session);
}
