/* SPDX-License-Identifier: PostgreSQL */
/* drop.c - forgetting pages without writing them. Its walk is protected as that of a flush (flush.c). */
#include <time.h>

#include "pool/buffer.h"
#include "pool/claim.h"
#include "pool/clock.h"
#include "pool/latch.h"
#include "pool/pages.h"

#define PATIENCE_NS UINT64_C(1000000000)

struct drop {
	struct pages pages;
	struct claims claims;
	uint64_t busy; /* pages that are fixed, or owned by somebody */
};

static void carry_out(struct tide_session *session, struct drop *drop)
{
	drop->busy += claim_settle(session, &drop->claims);
	for (uint32_t i = 0; i < drop->claims.n; i++) {
		const struct tide_page_id id =
			descriptor_id(&session->pool->descriptors[drop->claims.buffer[i]]);

		/* It may have changed hands before it was ours. */
		if (!pages_hold(&drop->pages, &id)) {
			latch_release(session->pool, drop->claims.buffer[i], 0, STATE_EVICT);
			claim_end(session, &drop->claims, i);
			continue;
		}
		claim_forget_page(session, drop->claims.buffer[i], drop->claims.hash[i], 0);
		buffer_give(session, drop->claims.buffer[i], drop->claims.place[i]);
	}
	drop->claims.n = 0;
}

/* Inside a read section. */
static void pick(struct tide_session *session, struct drop *drop, uint32_t buffer)
{
	const struct descriptor *d = &session->pool->descriptors[buffer];
	const uint64_t state = descriptor_state(d);
	struct tide_page_id id;

	if (!(state & (STATE_VALID | STATE_TORN | STATE_LOAD | STATE_MOVE)))
		return;
	id = descriptor_id(d);
	if (!(state & STATE_MOVE) && !pages_hold(&drop->pages, &id))
		return;
	if (state_owner(state) != 0 || !claim_try(session, &drop->claims, buffer, state))
		drop->busy++;
}

static void drop_walk(struct tide_session *session, struct drop *drop)
{
	const struct tide_pool *pool = session->pool;
	const uint32_t reach = atomic_load_explicit(&pool->shared->n_reach, memory_order_acquire);
	const uint32_t step = pool_step(pool, CLAIM_BATCH);

	for (uint32_t first = 0; first < reach; first += step) {
		tide_reader_enter(&session->reader);
		if (pool_chunk_readable(pool, pool_chunk(pool, first)))
			for (uint32_t i = 0; i < step; i++)
				pick(session, drop, first + i);
		tide_reader_leave(&session->reader);
		carry_out(session, drop);
	}
}

static void drop_each(struct tide_session *session, struct drop *drop)
{
	struct tide_pool *pool = session->pool;

	for (uint64_t i = 0; i < drop->pages.n; i++) {
		const struct tide_page_id id = {.file = drop->pages.file,
						.page = drop->pages.first + i};
		uint32_t buffer;

		tide_reader_enter(&session->reader);
		buffer = tide_lookup_find(pool->lookup, &id, tide_lookup_hash(pool->lookup, &id));
		if (buffer != TIDE_LOOKUP_NONE)
			pick(session, drop, buffer);
		tide_reader_leave(&session->reader);
		if (drop->claims.n == CLAIM_BATCH)
			carry_out(session, drop);
	}
	carry_out(session, drop);
}

int tide_pool_drop(struct tide_session *session, uint64_t file, uint64_t first, uint64_t n,
		   struct tide_reason *why)
{
	struct drop drop = {.pages = {.file = file, .first = first, .n = n}};
	const struct timespec nap = {.tv_nsec = 1000000};
	const struct shared *shared = session->pool->shared;
	const uint64_t began_ns = clock_ns();

	/* (I), see flush.c */
	atomic_store_explicit(&session->slot->scanning, 1, memory_order_seq_cst);
	for (;;) {
		drop.busy = 0;
		if (pages_are_few(&drop.pages,
				  atomic_load_explicit(&shared->n_usable, memory_order_relaxed)))
			drop_each(session, &drop);
		else
			drop_walk(session, &drop);
		if (drop.busy == 0 || clock_ns() - began_ns > PATIENCE_NS)
			break;
		(void)session_reap(session);
		nanosleep(&nap, NULL);
	}
	atomic_store_explicit(&session->slot->scanning, 0, memory_order_release);
	if (drop.busy == 0)
		return TIDE_OK;
	return tide_reason_set(why, TIDE_PINNED_BUFFERS, 0,
			       "%llu pages were fixed by somebody for a second and stay",
			       (unsigned long long)drop.busy);
}
