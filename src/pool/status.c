/* SPDX-License-Identifier: PostgreSQL */
/* status.c - what a pool tells about itself: sizes, counts, and who is in the way. */
#include <string.h>

#include "pool/clock.h"
#include "pool/lock.h"
#include "pool/shared.h"

#define SECTIONS 64u /* sections named at a time; more are counted */

static uint64_t total(const struct tide_pool *pool, enum slot_counter counter)
{
	uint64_t sum = atomic_load_explicit(&pool->shared->past[counter], memory_order_relaxed);
	uint32_t n_slots;

	(void)tide_grace_slots(pool->grace, &n_slots);
	for (uint32_t i = 0; i < n_slots; i++)
		sum += atomic_load_explicit(&pool->slots[i].counter[counter], memory_order_relaxed);
	return sum;
}

static void count_work(const struct tide_pool *pool, struct tide_pool_status *out)
{
	const struct tide_grace_slot *slots;
	uint32_t n_slots;

	out->hits = total(pool, SLOT_HIT);
	out->misses = total(pool, SLOT_MISS);
	out->evictions = total(pool, SLOT_EVICTION);
	out->ghost_hits = total(pool, SLOT_GHOST_HIT);
	out->read_pages = total(pool, SLOT_READ);
	out->written_pages = total(pool, SLOT_WRITTEN);
	out->relocated_pages = total(pool, SLOT_RELOCATED);
	slots = tide_grace_slots(pool->grace, &n_slots);
	for (uint32_t i = 0; i < n_slots; i++)
		out->sessions += atomic_load_explicit(&slots[i].owner, memory_order_relaxed) != 0;
}

/*
 * Whoever asks need not have a session, so there is no read section; under the reap lock the resizer
 * gives no descriptors back.
 */
static void count_pages(const struct tide_pool *pool, struct tide_pool_status *out)
{
	const struct layout *layout = &pool->shared->layout;

	lock_take(&pool->shared->reap_lock);
	for (uint32_t chunk = 0; chunk < layout->n_chunks; chunk++) {
		const uint32_t first = chunk << pool->chunk_shift;

		if (!pool_chunk_readable(pool, chunk))
			continue;
		for (uint32_t i = 0; i < layout->chunk_buffers; i++) {
			const uint64_t state = descriptor_state(&pool->descriptors[first + i]);

			out->cached_pages += state_is_resident(state) ? 1 : 0;
			out->dirty_pages += (state & STATE_DIRTY) ? 1 : 0;
		}
	}
	lock_release(&pool->shared->reap_lock);
}

int tide_pool_status(struct tide_pool *pool, struct tide_pool_status *out, struct tide_reason *why)
{
	const struct shared *shared = pool->shared;
	int code;

	memset(out, 0, sizeof(*out));
	code = tide_region_audit(pool->pages, &out->committed_bytes, why);
	if (code == TIDE_OK)
		code = tide_region_audit(pool->beside, &out->beside_bytes, why);
	if (code != TIDE_OK)
		return code;
	tide_chunk_counts(pool->chunks, out->chunks);
	out->chunk_bytes = shared->layout.chunk_bytes;
	out->allocatable_bytes = out->chunks[TIDE_CHUNK_ACTIVE] * out->chunk_bytes;
	out->max_bytes = shared->layout.max_bytes;
	out->min_bytes = shared->min_bytes;
	out->page_bytes = pool->page_bytes;
	out->backing = tide_region_info(pool->pages)->backing;
	out->torn_pages = atomic_load_explicit(&shared->torn_pages, memory_order_relaxed);
	out->dead_sessions = atomic_load_explicit(&shared->dead_sessions, memory_order_relaxed);
	count_work(pool, out);
	count_pages(pool, out);
	return TIDE_OK;
}

static int is_on_its_way_out(const struct tide_pool *pool, uint32_t chunk, uint64_t *since_ns)
{
	const struct tide_chunk *c = &pool->chunks->chunk[chunk];
	const uint32_t state = atomic_load_explicit(&c->state, memory_order_acquire);

	*since_ns = atomic_load_explicit(&c->since_ns, memory_order_relaxed);
	return state == TIDE_CHUNK_FENCED || state == TIDE_CHUNK_DRAINING;
}

/* A buffer that a session has fixed or owns. */
static void count_buffer(const struct tide_pool *pool, uint32_t buffer, struct tide_blocker *out)
{
	const uint64_t now_ns = clock_ns();
	uint64_t since_ns;

	if (!is_on_its_way_out(pool, pool_chunk(pool, buffer), &since_ns))
		return;
	out->fixes++;
	if (now_ns > since_ns && now_ns - since_ns > out->blocked_ns)
		out->blocked_ns = now_ns - since_ns;
}

/* What one session has in chunks on their way out. Return: 1 when it is in the way. */
static int count_fixes(const struct tide_pool *pool, uint32_t index, uint64_t owner, int shrinking,
		       struct tide_blocker *out)
{
	const struct slot *slot = &pool->slots[index];
	const uint32_t used = atomic_load_explicit(&slot->used, memory_order_acquire);

	*out = (struct tide_blocker){.process_id = (uint32_t)(owner >> 32),
				     .thread_id = (uint32_t)owner};
	for (uint32_t k = 0; k < used; k++) {
		const uint64_t entry = atomic_load_explicit(&slot->entry[k], memory_order_relaxed);

		if (entry != 0)
			count_buffer(pool, entry_buffer(entry), out);
	}
	for (uint32_t k = 0; k < SLOT_CLAIMS; k++) {
		const uint32_t claim = atomic_load_explicit(&slot->claim[k], memory_order_relaxed);

		if (claim != 0)
			count_buffer(pool, claim - 1, out);
	}
	out->scanning =
		shrinking && atomic_load_explicit(&slot->scanning, memory_order_relaxed) != 0;
	return out->fixes > 0 || out->scanning;
}

static uint32_t add_sections(struct tide_pool *pool, struct tide_blocker *out, uint32_t n,
			     uint32_t found)
{
	const uint64_t ticket =
		atomic_load_explicit(&pool->shared->quiesce_ticket, memory_order_relaxed);
	struct tide_grace_blocker sections[SECTIONS];
	uint32_t n_sections;

	if (ticket == 0)
		return found;
	n_sections = tide_grace_blockers(pool->grace, ticket, sections, SECTIONS);
	for (uint32_t i = 0; i < n_sections && i < SECTIONS && found + i < n; i++)
		out[found + i] = (struct tide_blocker){.process_id = sections[i].process_id,
						       .thread_id = sections[i].thread_id,
						       .in_section = 1,
						       .blocked_ns = sections[i].blocked_ns};
	return found + n_sections;
}

uint32_t tide_pool_blockers(struct tide_pool *pool, struct tide_blocker *out, uint32_t n)
{
	const struct tide_grace_slot *slots;
	uint32_t counts[TIDE_CHUNK_STATES];
	uint32_t n_slots, found = 0;

	tide_chunk_counts(pool->chunks, counts);
	slots = tide_grace_slots(pool->grace, &n_slots);
	for (uint32_t i = 0; i < n_slots; i++) {
		const uint64_t owner = atomic_load_explicit(&slots[i].owner, memory_order_relaxed);
		struct tide_blocker blocker;

		if (owner == 0 ||
		    !count_fixes(pool, i, owner,
				 counts[TIDE_CHUNK_FENCED] + counts[TIDE_CHUNK_DRAINING] > 0,
				 &blocker))
			continue;
		if (found < n)
			out[found] = blocker;
		found++;
	}
	return add_sections(pool, out, n, found);
}
