/* SPDX-License-Identifier: PostgreSQL */
/*
 * bench-pool/lookup_rivals.h - what the lookup table is held against, on the same descriptors.
 *
 *   partition lock   as PostgreSQL does it: 128 locks with one atomic to get in shared and one to get
 *                    out, a directory of segments of chains, key and hash in the element
 *   rculfhash        liburcu's resizable hash table
 *   fixed            the lookup table's own buckets, read as if the table never changed its size
 */
#ifndef BENCH_POOL_LOOKUP_RIVALS_H
#define BENCH_POOL_LOOKUP_RIVALS_H

#define URCU_INLINE_SMALL_FUNCTIONS
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <urcu/urcu-memb.h>

#include <urcu/rculfhash.h>

#include "rcu/lookup_key.h"

struct page_key {
	uint64_t file, page;
};

struct descriptor {
	struct page_key key;
	_Atomic uint32_t pins;
	uint32_t unused[3];
};

/* --- partition lock --------------------------------------------------------------------------- */

#define PARTITIONS 128u
#define SEGMENT 256u
#define LOCK_EXCLUSIVE (1u << 24)

struct partition_lock {
	_Atomic uint32_t state;
	uint32_t unused[31];
};

struct element {
	struct element *link;
	uint64_t hash;
	struct page_key key;
	uint32_t buffer;
};

struct partition_table {
	struct partition_lock *locks;
	struct element ***directory;
	uint64_t mask;
};

static inline struct element **partition_chain(const struct partition_table *table, uint64_t hash)
{
	uint64_t bucket = hash & table->mask;

	return &table->directory[bucket / SEGMENT][bucket % SEGMENT];
}

static inline struct partition_lock *partition_enter(const struct partition_table *table,
						     uint64_t hash)
{
	struct partition_lock *lock = &table->locks[hash % PARTITIONS];
	uint32_t state = atomic_load_explicit(&lock->state, memory_order_relaxed);

	while ((state & LOCK_EXCLUSIVE) ||
	       !atomic_compare_exchange_weak_explicit(&lock->state, &state, state + 1,
						      memory_order_acquire, memory_order_relaxed))
		state = atomic_load_explicit(&lock->state, memory_order_relaxed);
	return lock;
}

static inline void partition_leave(struct partition_lock *lock)
{
	(void)atomic_fetch_sub_explicit(&lock->state, 1, memory_order_release);
}

/* The caller is in the partition. */
static inline uint32_t partition_find(const struct partition_table *table,
				      const struct page_key *key, uint64_t hash)
{
	const struct element *element = *partition_chain(table, hash);

	while (element && (element->hash != hash || element->key.page != key->page ||
			   element->key.file != key->file))
		element = element->link;
	return element ? element->buffer : TIDE_LOOKUP_NONE;
}

/* --- rculfhash -------------------------------------------------------------------------------- */

struct lfht_page {
	struct cds_lfht_node node;
	struct page_key key;
	uint32_t buffer;
};

static inline int lfht_match(struct cds_lfht_node *node, const void *key)
{
	const struct lfht_page *page = caa_container_of(node, struct lfht_page, node);

	return memcmp(&page->key, key, sizeof(page->key)) == 0;
}

/* Inside a read section of liburcu. */
static inline uint32_t lfht_find(struct cds_lfht *table, const struct page_key *key, uint64_t hash)
{
	struct cds_lfht_iter iter;
	struct cds_lfht_node *node;

	cds_lfht_lookup(table, (unsigned long)hash, lfht_match, key, &iter);
	node = cds_lfht_iter_get_node(&iter);
	return node ? caa_container_of(node, struct lfht_page, node)->buffer : TIDE_LOOKUP_NONE;
}

/* --- fixed ------------------------------------------------------------------------------------ */

/* tide_lookup_find() for a table whose size nobody changes: no version, no level, no count to look up. */
static __attribute__((noinline)) uint32_t
fixed_find(const struct tide_lookup *lookup, uint64_t n_buckets, const void *key, uint64_t hash)
{
	const struct bucket *line = &lookup->buckets[lookup_address(hash, n_buckets)];
	uint32_t buffer = line_find(lookup, line, key, hash);

	while (buffer == TIDE_LOOKUP_NONE && bucket_next(line)) {
		line = &lookup->lines[bucket_next(line) - 1];
		buffer = line_find(lookup, line, key, hash);
	}
	return buffer;
}

#endif /* BENCH_POOL_LOOKUP_RIVALS_H */
