/* SPDX-License-Identifier: PostgreSQL */
/* evict.c - making buffers free: the hands sweep, what they pick goes. */
#include "pool/evict.h"

#include "pool/buffer.h"
#include "pool/latch.h"
#include "pool/write.h"

#define SPAN 64u
#define TARGET 16u		 /* pages evicted at a time, in a pool that is large enough */
#define ENOUGH_EXAMINED 512u	 /* one victim will do after so many descriptors */
#define FORCE_EXAMINED 4096u	 /* take the coldest page seen after so many */
#define FAILED_HEAT REPLACE_USES /* for pages that could not be written: others are tried first */

_Static_assert(2 * TARGET <= CLAIM_BATCH, "dirty victims fit into a batch");
_Static_assert(CLAIM_BATCH <= SLOT_HOLDS, "dirty victims are written in one go");

/* One search for victims. */
struct sweep {
	struct claims claims;
	uint32_t dirty[CLAIM_BATCH];
	uint32_t n_dirty;
	uint32_t target;
	int ghost; /* of the page that needs a buffer */
	uint64_t examined;
	uint32_t coldest; /* clean page worth least; TIDE_LOOKUP_NONE = none seen */
	uint32_t coldest_worth;
	uint64_t coldest_state;
};

static void pick(struct tide_session *session, struct sweep *sweep, uint32_t buffer, uint64_t state)
{
	if (!(state & STATE_DIRTY)) {
		if (sweep->claims.n < CLAIM_BATCH)
			(void)claim_try(session, &sweep->claims, buffer, state);
	} else if (sweep->n_dirty < 2 * sweep->target) {
		sweep->dirty[sweep->n_dirty++] = buffer;
	}
}

static void consider(struct sweep *sweep, uint32_t buffer, uint64_t state,
		     const struct replace_page *page)
{
	const uint32_t worth = replace_worth(page);

	if ((state & STATE_DIRTY) || worth >= sweep->coldest_worth)
		return;
	sweep->coldest = buffer;
	sweep->coldest_worth = worth;
	sweep->coldest_state = state;
}

static int sweep_has_enough(const struct sweep *sweep)
{
	return sweep->claims.n >= sweep->target || sweep->n_dirty == 2 * sweep->target;
}

/* A hand meets a page of its queue. */
static void judge(struct tide_session *session, struct sweep *sweep, enum shared_hand hand,
		  uint32_t buffer, uint64_t state)
{
	struct shared *shared = session->pool->shared;
	struct descriptor *d = &session->pool->descriptors[buffer];
	const struct replace_page before = descriptor_worth(d);
	struct replace_page page = before;
	enum replace_verdict verdict;

	if (hand == HAND_SMALL)
		verdict = replace_small(
			&page, atomic_load_explicit(&shared->stamp, memory_order_relaxed),
			atomic_load_explicit(&shared->n_usable, memory_order_relaxed));
	else
		verdict = replace_main(&page);
	if (verdict == REPLACE_EVICT) {
		pick(session, sweep, buffer, state);
		return;
	}
	if (page.heat != before.heat || page.queue != before.queue)
		descriptor_set_worth(d, &page);
	if (page.queue != before.queue)
		atomic_fetch_sub_explicit(&shared->n_small, 1, memory_order_relaxed);
	consider(sweep, buffer, state, &page);
}

static void meet(struct tide_session *session, struct sweep *sweep, enum shared_hand hand,
		 uint32_t buffer)
{
	struct descriptor *d = &session->pool->descriptors[buffer];
	const uint64_t state = descriptor_state(d);
	const uint8_t queue = hand == HAND_SMALL ? REPLACE_SMALL : REPLACE_MAIN;

	if (state_owner(state) != 0)
		return;
	if (state & STATE_TORN)
		pick(session, sweep, buffer, state);
	else if (state_is_resident(state) &&
		 atomic_load_explicit(&d->queue, memory_order_relaxed) == queue)
		judge(session, sweep, hand, buffer, state);
}

/* Free buffers without a finder: hints of sessions that sit on them, or one that nobody counted. */
static int steal(struct tide_session *session, uint32_t buffer)
{
	struct descriptor *d = &session->pool->descriptors[buffer];
	uint64_t state = descriptor_state(d);

	if (!state_is_free(state) || session->n_hints == SLOT_HINTS)
		return 0;
	if (!(state & STATE_HINT) && !descriptor_swap(d, &state, state | STATE_HINT))
		return 0;
	atomic_store_explicit(&session->slot->hint[session->n_hints++], buffer + 1,
			      memory_order_release);
	return 1;
}

/* One span of the hand's way. Return: free buffers that were found. */
static int sweep_span(struct tide_session *session, struct sweep *sweep, enum shared_hand hand)
{
	struct tide_pool *pool = session->pool;
	struct shared *shared = pool->shared;
	const uint32_t reach = atomic_load_explicit(&shared->n_reach, memory_order_relaxed);
	const uint32_t span = pool_step(pool, SPAN);
	const uint64_t position =
		atomic_fetch_add_explicit(&shared->hand[hand], span, memory_order_relaxed);
	const uint32_t first = (uint32_t)(position % reach) / span * span;
	/* Pinned pages fill a batch: each turn begins elsewhere, and by an odd step everywhere in the end. */
	const uint32_t turn = (uint32_t)(position / reach) * (CLAIM_BATCH / 2 + 1);
	int stolen = 0;

	sweep->examined += span;
	tide_reader_enter(&session->reader);
	if (pool_chunk_active(pool, pool_chunk(pool, first)))
		for (uint32_t i = 0; i < span && !sweep_has_enough(sweep); i++) {
			const uint32_t buffer = first + (i + turn) % span;

			meet(session, sweep, hand, buffer);
			/* Only when nothing else is left: else they would be taken from who made them. */
			if (sweep->examined > reach)
				stolen += steal(session, buffer);
		}
	tide_reader_leave(&session->reader);
	return stolen;
}

static enum shared_hand choose_hand(const struct shared *shared, const struct sweep *sweep,
				    uint32_t reach)
{
	const int64_t small = atomic_load_explicit(&shared->n_small, memory_order_relaxed);
	const uint32_t usable = atomic_load_explicit(&shared->n_usable, memory_order_relaxed);
	const int first =
		replace_takes_small(small > 0 ? (uint64_t)small : 0, usable, sweep->ghost);
	const int other = (int)(sweep->examined / reach & 1); /* a full turn brought nothing */

	return first != other ? HAND_SMALL : HAND_MAIN;
}

static int sweep_is_over(const struct sweep *sweep, uint32_t reach)
{
	const uint64_t limit = 2 * ((uint64_t)reach + SPAN);

	if (sweep_has_enough(sweep))
		return 1;
	if (sweep->claims.n > 0 && sweep->examined >= ENOUGH_EXAMINED)
		return 1;
	if (sweep->coldest != TIDE_LOOKUP_NONE && sweep->examined >= FORCE_EXAMINED)
		return 1;
	return sweep->examined >= limit;
}

/* Return: free buffers found on the way. */
static int sweep_run(struct tide_session *session, struct sweep *sweep)
{
	const struct shared *shared = session->pool->shared;
	const uint32_t reach = atomic_load_explicit(&shared->n_reach, memory_order_relaxed);
	int stolen = 0;

	sweep->coldest = TIDE_LOOKUP_NONE;
	sweep->coldest_worth = UINT32_MAX;
	sweep->target = session_batch(session, TARGET);
	while (stolen == 0 && !sweep_is_over(sweep, reach))
		stolen += sweep_span(session, sweep, choose_hand(shared, sweep, reach));
	if (sweep->claims.n == 0 && sweep->coldest != TIDE_LOOKUP_NONE) {
		tide_reader_enter(&session->reader);
		if (pool_chunk_active(session->pool, pool_chunk(session->pool, sweep->coldest)))
			(void)claim_try(session, &sweep->claims, sweep->coldest,
					sweep->coldest_state);
		tide_reader_leave(&session->reader);
	}
	return stolen;
}

/* Write the dirty victims, and claim those that are clean then. Return: 0 or the code of a failure. */
static int clean(struct tide_session *session, struct sweep *sweep, struct tide_reason *why)
{
	struct tide_pool *pool = session->pool;
	struct written written;
	int code = write_out(session, sweep->dirty, sweep->n_dirty, &written, why);

	tide_reader_enter(&session->reader);
	for (uint32_t i = 0; i < sweep->n_dirty; i++) {
		struct descriptor *d = &pool->descriptors[sweep->dirty[i]];
		uint64_t state;

		if (!pool_chunk_active(pool, pool_chunk(pool, sweep->dirty[i])))
			continue;
		state = descriptor_state(d);
		if (written.failed >> i & 1)
			atomic_store_explicit(&d->heat, FAILED_HEAT, memory_order_relaxed);
		if (!(written.done >> i & 1))
			continue;
		if (state_is_open(state) && !(state & STATE_DIRTY) && sweep->claims.n < CLAIM_BATCH)
			(void)claim_try(session, &sweep->claims, sweep->dirty[i], state);
	}
	tide_reader_leave(&session->reader);
	return code;
}

/* Return: how many of the claimed pages could go. */
static int evict_claimed(struct tide_session *session, struct claims *claims)
{
	int n;

	(void)claim_settle(session, claims);
	n = (int)claims->n;
	for (uint32_t i = 0; i < claims->n; i++) {
		claim_forget_page(session, claims->buffer[i], claims->hash[i], 1);
		buffer_give(session, claims->buffer[i], claims->place[i]);
	}
	session_count(session, SLOT_EVICTION, claims->n);
	claims->n = 0;
	return n;
}

int evict_batch(struct tide_session *session, int ghost, struct tide_reason *why)
{
	struct sweep sweep = {.ghost = ghost};
	int freed = sweep_run(session, &sweep);
	int code = TIDE_OK;

	freed += evict_claimed(session, &sweep.claims);
	if (sweep.n_dirty > 0 && (freed == 0 || sweep.n_dirty == 2 * sweep.target)) {
		code = clean(session, &sweep, why);
		freed += evict_claimed(session, &sweep.claims);
	}
	return freed > 0 ? freed : code;
}
