/* SPDX-License-Identifier: PostgreSQL */
/*
 * relocate.c - moving a page from a chunk that goes into a buffer of a chunk that stays.
 *
 * 1. Destination and source are ours before anything is copied (MOVE, EVICT).
 * 2. The copy is complete, with the page's dirtiness, before the lookup table is told; the table goes from
 *    the old buffer to the new one in one store.
 * 3. So at any moment exactly one of the two is the page, by the table; a reaper asks the table.
 */
#include <string.h>

#include "pool/buffer.h"
#include "pool/latch.h"
#include "pool/pause.h"
#include "pool/resizer.h"
#include "pool/write.h"

#define SPAN 32u

static void stock_add(struct stock *stock, uint32_t buffer, uint32_t place)
{
	stock->buffer[stock->n] = buffer;
	stock->place[stock->n] = place;
	stock->n++;
}

void stock_return(struct tide_resizer *resizer)
{
	struct stock *stock = &resizer->stock;

	while (stock->n > 0) {
		stock->n--;
		buffer_give(resizer->session, stock->buffer[stock->n], stock->place[stock->n]);
	}
	stock->n_cold = 0;
	stock->evicted = 0;
	stock->exhausted = 0;
}

static int is_cold(const struct tide_resizer *resizer, const struct descriptor *d, uint64_t state)
{
	const struct replace_page page = descriptor_worth(d);

	return state_is_open(state) && (int)replace_worth(&page) <= resizer->cut;
}

/* One span of the cold hand: claim what is clean, note what is dirty. Inside a read section. */
static uint32_t find_cold(struct tide_resizer *resizer, struct claims *claims, uint32_t room,
			  uint32_t *dirty)
{
	struct tide_session *session = resizer->session;
	struct tide_pool *pool = session->pool;
	struct shared *shared = pool->shared;
	const uint32_t span = pool_step(pool, SPAN);
	const uint32_t reach = atomic_load_explicit(&shared->n_reach, memory_order_relaxed);
	const uint64_t position =
		atomic_fetch_add_explicit(&shared->hand[HAND_COLD], span, memory_order_relaxed);
	const uint32_t first = (uint32_t)(position % reach) / span * span;
	uint32_t n_dirty = 0;

	if (!pool_chunk_active(pool, pool_chunk(pool, first)))
		return 0;
	for (uint32_t i = 0; i < span; i++) {
		const struct descriptor *d = &pool->descriptors[first + i];
		const uint64_t state = descriptor_state(d);

		if (!is_cold(resizer, d, state))
			continue;
		if (state & STATE_DIRTY)
			dirty[n_dirty++] = first + i;
		else if (claims->n < room)
			(void)claim_try(session, claims, first + i, state);
	}
	return n_dirty;
}

/* The pages of settled claims leave; their buffers become destinations. */
static void stock_evicted(struct tide_resizer *resizer, const struct claims *claims)
{
	struct tide_session *session = resizer->session;

	for (uint32_t i = 0; i < claims->n; i++) {
		claim_forget_page(session, claims->buffer[i], claims->hash[i], 1);
		buffer_make_loading(session, claims->buffer[i], STATE_MOVE);
		stock_add(&resizer->stock, claims->buffer[i], claims->place[i]);
	}
	resizer->stock.n_cold += claims->n;
	resizer->stock.evicted += claims->n;
	session_count(session, SLOT_EVICTION, claims->n);
}

/* Write dirty cold pages, and claim those that are clean then. */
static void write_cold(struct tide_resizer *resizer, const uint32_t *dirty, uint32_t n,
		       struct claims *claims, uint32_t room, uint64_t *write_bytes)
{
	struct tide_session *session = resizer->session;
	struct tide_pool *pool = session->pool;
	struct written written;

	if (n > *write_bytes / pool->page_bytes)
		n = (uint32_t)(*write_bytes / pool->page_bytes);
	if (n > room - claims->n)
		n = room - claims->n;
	if (n == 0)
		return;
	(void)write_out(session, dirty, n, &written, NULL);
	*write_bytes -= (uint64_t)__builtin_popcountll(written.done) * pool->page_bytes;
	tide_reader_enter(&session->reader);
	for (uint32_t i = 0; i < n; i++) {
		const struct descriptor *d = &pool->descriptors[dirty[i]];
		uint64_t state;

		if (!(written.done >> i & 1) ||
		    !pool_chunk_active(pool, pool_chunk(pool, dirty[i])))
			continue;
		state = descriptor_state(d);
		if (is_cold(resizer, d, state) && !(state & STATE_DIRTY))
			(void)claim_try(session, claims, dirty[i], state);
	}
	tide_reader_leave(&session->reader);
}

/* Pages worth no more than the cut, in chunks that stay: one turn of the hand at most. */
static void stock_from_cold(struct tide_resizer *resizer, uint32_t room, uint64_t *write_bytes)
{
	struct tide_session *session = resizer->session;
	const uint32_t reach =
		atomic_load_explicit(&session->pool->shared->n_reach, memory_order_relaxed);
	struct claims claims = {0};
	uint32_t dirty[SPAN];

	for (uint64_t examined = 0; examined <= reach && claims.n < room; examined += SPAN) {
		uint32_t n_dirty;

		tide_reader_enter(&session->reader);
		n_dirty = find_cold(resizer, &claims, room, dirty);
		tide_reader_leave(&session->reader);
		write_cold(resizer, dirty, n_dirty, &claims, room, write_bytes);
	}
	if (claims.n == 0)
		resizer->stock.exhausted = 1;
	(void)claim_settle(session, &claims);
	stock_evicted(resizer, &claims);
}

void stock_fill(struct tide_resizer *resizer)
{
	struct stock *stock = &resizer->stock;
	uint32_t buffer, place;

	while (stock->n < STOCK_MAX &&
	       buffer_find_free(resizer->session, STATE_MOVE, &buffer, &place))
		stock_add(stock, buffer, place);
}

void stock_make(struct tide_resizer *resizer, uint32_t n, uint64_t *write_bytes)
{
	const struct stock *stock = &resizer->stock;

	if (n > STOCK_MAX)
		n = STOCK_MAX;
	if (stock->n < n && !stock->exhausted)
		stock_from_cold(resizer, n - stock->n, write_bytes);
}

int relocate_allowed(struct tide_resizer *resizer)
{
	struct tide_pool *pool = resizer->session->pool;
	uint32_t n_slots;

	(void)tide_grace_slots(pool->grace, &n_slots);
	for (uint32_t i = 0; i < n_slots; i++)
		if (atomic_load_explicit(&pool->slots[i].scanning, memory_order_seq_cst))
			return 0;
	return 1;
}

int relocate_page(struct tide_resizer *resizer, struct claims *claims, uint32_t i)
{
	struct tide_session *session = resizer->session;
	struct tide_pool *pool = session->pool;
	struct stock *stock = &resizer->stock;
	const uint32_t from = claims->buffer[i];
	struct descriptor *source = &pool->descriptors[from], *target;
	const struct tide_page_id id = descriptor_id(source);
	const struct replace_page worth = descriptor_worth(source);
	const uint64_t dirty = descriptor_state(source) & STATE_DIRTY;
	uint64_t state;
	uint32_t to;

	if (stock->n == 0)
		return 0;
	to = stock->buffer[--stock->n];
	if (stock->n_cold > 0)
		stock->n_cold--;
	target = &pool->descriptors[to];
	memcpy(pool_page(pool, to), pool_page(pool, from), pool->page_bytes);
	descriptor_set_id(target, &id);
	descriptor_set_worth(target, &worth);
	state = descriptor_state(target);
	while (!descriptor_swap(target, &state,
				(state & ~STATE_MOVE) | STATE_VALID | STATE_EVICT | dirty))
		;
	pool_pause(POOL_PAUSE_COPIED);
	(void)tide_lookup_replace(pool->lookup, claims->hash[i], from, to);
	pool_pause(POOL_PAUSE_REPLACED);
	latch_release(pool, to, 0, STATE_EVICT);
	session_unclaim(session, stock->place[stock->n]);
	latch_release(pool, from, 0, STATE_FLAGS);
	claim_end(session, claims, i);
	session_count(session, SLOT_RELOCATED, 1);
	return 1;
}

int relocate_cut(struct tide_resizer *resizer, uint64_t n_buffers)
{
	struct tide_session *session = resizer->session;
	const struct tide_pool *pool = session->pool;
	const struct layout *layout = &pool->shared->layout;
	uint64_t histogram[REPLACE_WORTHS] = {0};
	uint64_t kept = 0;
	int64_t n_small = 0;
	int cut = (int)REPLACE_WORTHS - 1;

	for (uint32_t chunk = 0; chunk < layout->n_chunks; chunk++) {
		const struct descriptor *d = &pool->descriptors[chunk << pool->chunk_shift];

		tide_reader_enter(&session->reader);
		if (pool_chunk_readable(pool, chunk))
			for (uint32_t i = 0; i < layout->chunk_buffers; i++) {
				const struct replace_page page = descriptor_worth(&d[i]);

				if (!state_is_resident(descriptor_state(&d[i])))
					continue;
				histogram[replace_worth(&page)]++;
				n_small += page.queue == REPLACE_SMALL;
			}
		tide_reader_leave(&session->reader);
	}
	atomic_store_explicit(&pool->shared->n_small, n_small, memory_order_relaxed);
	while (cut >= 0 && kept + histogram[cut] <= n_buffers)
		kept += histogram[cut--];
	return cut;
}
