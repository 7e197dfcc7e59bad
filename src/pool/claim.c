/* SPDX-License-Identifier: PostgreSQL */
/* claim.c - buffers claimed together, so that one barrier and one look at the pins serve all. */
#include "pool/claim.h"

#include <assert.h>

#include "pool/latch.h"
#include "pool/pause.h"

int claim_try(struct tide_session *session, struct claims *claims, uint32_t buffer, uint64_t state)
{
	struct descriptor *d = &session->pool->descriptors[buffer];
	uint32_t place;

	assert(claims->n < CLAIM_BATCH);
	/* Noted first: if we die now the reaper finds an owner that is not us and does nothing. */
	place = session_claim(session, buffer);
	if (!descriptor_swap(d, &state, state | STATE_EVICT | session->me)) {
		session_unclaim(session, place);
		return 0;
	}
	claims->buffer[claims->n] = buffer;
	claims->place[claims->n] = place;
	claims->n++;
	return 1;
}

void claim_end(struct tide_session *session, const struct claims *claims, uint32_t i)
{
	session_unclaim(session, claims->place[i]);
}

uint32_t claim_settle(struct tide_session *session, struct claims *claims)
{
	struct tide_pool *pool = session->pool;
	uint64_t pinned;
	uint32_t kept = 0;

	if (claims->n == 0)
		return 0;
	pool_pause(POOL_PAUSE_CLAIMED);
	/* (F) pairs with (E): an entry whose session did not see the claim is visible now. */
	tide_grace_barrier(pool->grace);
	pinned = session_pinned(session, claims->buffer, claims->n);
	for (uint32_t i = 0; i < claims->n; i++) {
		const uint32_t buffer = claims->buffer[i];
		struct tide_page_id id;

		if (pinned >> i & 1) {
			latch_release(pool, buffer, 0, STATE_EVICT);
			session_unclaim(session, claims->place[i]);
			continue;
		}
		id = descriptor_id(&pool->descriptors[buffer]);
		claims->buffer[kept] = buffer;
		claims->place[kept] = claims->place[i];
		claims->hash[kept] = tide_lookup_hash(pool->lookup, &id);
		tide_lookup_prefetch(pool->lookup, claims->hash[kept]);
		kept++;
	}
	pinned = claims->n - kept;
	claims->n = kept;
	return (uint32_t)pinned;
}

void claim_forget_page(struct tide_session *session, uint32_t buffer, uint64_t hash, int ghost)
{
	struct tide_pool *pool = session->pool;
	const struct replace_page page = descriptor_worth(&pool->descriptors[buffer]);

	(void)tide_lookup_remove(pool->lookup, hash, buffer);
	pool_pause(POOL_PAUSE_REMOVED);
	if (page.queue == REPLACE_SMALL)
		atomic_fetch_sub_explicit(&pool->shared->n_small, 1, memory_order_relaxed);
	if (ghost && replace_leaves_ghost(&page))
		ghost_add(&pool->ghosts, hash,
			  atomic_load_explicit(&pool->shared->stamp, memory_order_relaxed));
}
