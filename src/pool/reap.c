/* SPDX-License-Identifier: PostgreSQL */
/*
 * reap.c - what a participant that died still held.
 *
 * 1. Every buffer that it owned is noted in its slot, in a claim or in an entry (slot.h). A buffer
 *    noted there of which it is not the owner is nobody's concern.
 * 2. Each repair looks at the state, does one thing, and then lets go of the buffer, so that it can be
 *    done again by another reaper when this one dies in the middle.
 * 3. A descriptor that has an owner belongs to a chunk that has memory. One that is noted but not owned
 *    may have none. The resizer takes the reap lock to give descriptors back, after it stored that
 *    the chunk is being released: a chunk that is seen with memory under the lock keeps it.
 *
 * What is left by a claimer:
 *    loading     the page was not there yet: out of the table, free
 *    moving in   the copy is not complete, and the table knows the old place: free
 *    claimed     the page is complete. When the table has it here it is resident again. Otherwise it
 *                was evicted, or the table has it elsewhere, where it was moved to: free
 *    torn        stays torn
 * and by whoever had it fixed for writing: the page is torn.
 */
#include "pool/reap.h"

#include "pool/buffer.h"
#include "pool/latch.h"
#include "pool/lock.h"

static int has_memory(const struct tide_pool *pool, uint32_t buffer)
{
	return buffer < pool->shared->layout.n_buffers &&
	       pool_chunk_has_memory(pool, pool_chunk(pool, buffer));
}

static uint64_t page_hash(const struct tide_pool *pool, uint32_t buffer)
{
	const struct tide_page_id id = descriptor_id(&pool->descriptors[buffer]);

	return tide_lookup_hash(pool->lookup, &id);
}

static void release_free(struct tide_pool *pool, uint32_t buffer)
{
	latch_release(pool, buffer, 0, STATE_FLAGS & ~STATE_USABLE);
	buffer_count_free(pool, buffer);
}

/*
 * A page that is in no table was on its way out: between then and now it may have been read, changed and
 * evicted again, so it must not come back. Replaced by itself = is it there?
 */
static void repair_claimed(struct tide_pool *pool, uint32_t buffer)
{
	if (tide_lookup_replace(pool->lookup, page_hash(pool, buffer), buffer, buffer))
		latch_release(pool, buffer, 0, STATE_EVICT);
	else
		release_free(pool, buffer);
}

static void repair_claim(struct tide_pool *pool, uint32_t buffer, uint32_t index)
{
	uint64_t state;

	if (!has_memory(pool, buffer))
		return;
	state = descriptor_state(&pool->descriptors[buffer]);
	/* Free, and perhaps not counted any more: a count that is too high does no harm. */
	if (state_is_free(state) && !(state & STATE_HINT))
		buffer_count_free(pool, buffer);
	if (state_owner(state) != index + 1 || (state & STATE_X))
		return;
	if (state & STATE_LOAD) {
		(void)tide_lookup_remove(pool->lookup, page_hash(pool, buffer), buffer);
		release_free(pool, buffer);
	} else if (state & STATE_TORN) {
		latch_release(pool, buffer, 0, STATE_EVICT);
	} else if (state & STATE_EVICT) {
		repair_claimed(pool, buffer);
	} else {
		release_free(pool, buffer);
	}
}

/* It was writing the page to storage, which may be torn there now: it stays dirty. */
static void repair_writer(struct tide_pool *pool, uint32_t buffer, uint32_t index)
{
	struct descriptor *d = &pool->descriptors[buffer];
	uint64_t state = descriptor_state(d);

	while (state_writer(state) == index + 1)
		if (descriptor_swap(d, &state, (state & ~STATE_WRITER) | STATE_DIRTY))
			return;
}

static void repair_entry(struct tide_pool *pool, uint64_t entry, uint32_t index)
{
	const uint32_t buffer = entry_buffer(entry);
	uint64_t state;

	if (!has_memory(pool, buffer))
		return;
	if (entry_mode(entry) == TIDE_FIX_READ)
		repair_writer(pool, buffer, index);
	state = descriptor_state(&pool->descriptors[buffer]);
	if (entry_mode(entry) != TIDE_FIX_WRITE || state_owner(state) != index + 1 ||
	    !(state & STATE_X))
		return;
	/* BIAS goes when the last reader has gone: it never came to change anything. */
	if (state & STATE_BIAS) {
		latch_release(pool, buffer, 0, STATE_X);
		return;
	}
	latch_release(pool, buffer, STATE_TORN, STATE_X | STATE_VALID | STATE_DIRTY);
	atomic_fetch_add_explicit(&pool->shared->torn_pages, 1, memory_order_relaxed);
}

static void repair_hint(struct tide_pool *pool, uint32_t buffer)
{
	uint64_t state;

	if (!has_memory(pool, buffer))
		return;
	state = descriptor_state(&pool->descriptors[buffer]);
	if (state_is_free(state) && (state & STATE_HINT))
		buffer_publish_hint(pool, buffer, state);
}

static void reap_slot(void *context, uint32_t index)
{
	struct tide_pool *pool = context;
	struct slot *slot = &pool->slots[index];

	for (uint32_t i = 0; i < SLOT_CLAIMS; i++) {
		const uint32_t claim = atomic_load_explicit(&slot->claim[i], memory_order_acquire);

		if (claim != 0)
			repair_claim(pool, claim - 1, index);
		atomic_store_explicit(&slot->claim[i], 0, memory_order_release);
	}
	for (uint32_t i = 0; i < SLOT_ENTRIES; i++) {
		const uint64_t entry = atomic_load_explicit(&slot->entry[i], memory_order_acquire);

		if (entry != 0)
			repair_entry(pool, entry, index);
		atomic_store_explicit(&slot->entry[i], 0, memory_order_release);
	}
	for (uint32_t i = 0; i < SLOT_HINTS; i++) {
		const uint32_t hint = atomic_load_explicit(&slot->hint[i], memory_order_acquire);

		if (hint != 0)
			repair_hint(pool, hint - 1);
		atomic_store_explicit(&slot->hint[i], 0, memory_order_release);
	}
	for (int i = 0; i < SLOT_COUNTERS; i++)
		atomic_fetch_add_explicit(
			&pool->shared->past[i],
			atomic_exchange_explicit(&slot->counter[i], 0, memory_order_relaxed),
			memory_order_relaxed);
	atomic_store_explicit(&slot->scanning, 0, memory_order_release);
	atomic_fetch_add_explicit(&pool->shared->dead_sessions, 1, memory_order_relaxed);
}

uint32_t pool_reap(struct tide_pool *pool)
{
	uint32_t n;

	lock_take(&pool->shared->reap_lock);
	n = tide_grace_reap(pool->grace, reap_slot, pool);
	lock_release(&pool->shared->reap_lock);
	return n;
}
