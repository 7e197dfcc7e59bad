/* SPDX-License-Identifier: PostgreSQL */
/*
 * pool/ghost.c - which pages were dropped not long ago.
 *
 * An entry is the upper half of the hash, never 0, above the stamp; 0 is an empty one. The lower half
 * of the hash says which bucket, by linear hashing: a bucket that comes into being when the pool
 * grows is split off from its parent, whose number is the same without the highest bit. Entries are
 * not moved; who looks into a bucket looks into its parent, too. Ghosts of grandparents are lost when
 * the pool grows to more than twice its size: it has free buffers then, and drops nothing for a while.
 *
 * Every access is relaxed: an entry is one word and stands for itself. Of two writers that choose
 * the same place one loses its ghost.
 */
#include "pool/ghost.h"

#define BUCKET_ENTRIES 8u

uint64_t ghost_bytes(uint32_t n_buffers)
{
	uint64_t n_buckets = ((uint64_t)n_buffers + BUCKET_ENTRIES - 1) / BUCKET_ENTRIES;

	return n_buckets * BUCKET_ENTRIES * sizeof(uint64_t);
}

void ghost_resize(struct ghosts *ghosts, uint32_t n_buffers)
{
	uint64_t n_buckets = ghost_bytes(n_buffers) / (BUCKET_ENTRIES * sizeof(uint64_t));

	atomic_store_explicit(&ghosts->head->n_buckets, n_buckets, memory_order_relaxed);
}

static uint64_t highest_bit(uint64_t value)
{
	return UINT64_C(1) << (63 - __builtin_clzll(value));
}

/* @n_buckets > 0 */
static uint64_t bucket_of(uint64_t hash, uint64_t n_buckets)
{
	uint64_t half = highest_bit(n_buckets);
	uint64_t bucket = (hash & UINT32_MAX) & (2 * half - 1);

	return bucket < n_buckets ? bucket : bucket & (half - 1);
}

static uint32_t tag_of(uint64_t hash)
{
	uint32_t tag = (uint32_t)(hash >> 32);

	return tag != 0 ? tag : 1;
}

static uint64_t load(const _Atomic uint64_t *entry)
{
	return atomic_load_explicit(entry, memory_order_relaxed);
}

/* Stamps of others may be ahead of the caller's by a few. */
static uint32_t age_of(uint64_t entry, uint32_t stamp)
{
	uint32_t age = stamp - (uint32_t)entry;

	return age <= INT32_MAX ? age : 0;
}

void ghost_add(struct ghosts *ghosts, uint64_t hash, uint32_t stamp)
{
	uint64_t n_buckets = load(&ghosts->head->n_buckets);
	uint32_t tag = tag_of(hash);
	uint32_t greatest_age = 0;
	_Atomic uint64_t *bucket, *place;

	if (n_buckets == 0)
		return;
	bucket = place = &ghosts->entries[bucket_of(hash, n_buckets) * BUCKET_ENTRIES];
	for (unsigned i = 0; i < BUCKET_ENTRIES; i++) {
		uint64_t entry = load(&bucket[i]);
		uint32_t age = entry != 0 ? age_of(entry, stamp) : UINT32_MAX;

		if (entry >> 32 == tag) {
			place = &bucket[i];
			break;
		}
		if (age > greatest_age) {
			greatest_age = age;
			place = &bucket[i];
		}
	}
	atomic_store_explicit(place, (uint64_t)tag << 32 | stamp, memory_order_relaxed);
}

static int take_from(_Atomic uint64_t *bucket, uint32_t tag, uint32_t stamp, uint32_t reach)
{
	for (unsigned i = 0; i < BUCKET_ENTRIES; i++) {
		uint64_t entry = load(&bucket[i]);

		if (entry >> 32 == tag) {
			atomic_store_explicit(&bucket[i], 0, memory_order_relaxed);
			return age_of(entry, stamp) <= reach;
		}
	}
	return 0;
}

int ghost_take(struct ghosts *ghosts, uint64_t hash, uint32_t stamp, uint32_t reach)
{
	uint64_t n_buckets = load(&ghosts->head->n_buckets);
	uint32_t tag = tag_of(hash);
	uint64_t bucket;

	if (n_buckets == 0)
		return 0;
	bucket = bucket_of(hash, n_buckets);
	if (take_from(&ghosts->entries[bucket * BUCKET_ENTRIES], tag, stamp, reach))
		return 1;
	if (bucket == 0)
		return 0;
	bucket &= highest_bit(bucket) - 1;
	return take_from(&ghosts->entries[bucket * BUCKET_ENTRIES], tag, stamp, reach);
}
