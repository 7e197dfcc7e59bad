/* SPDX-License-Identifier: PostgreSQL */
/* lookup_write.c - locks of the lookup table's partitions, and changes of single entries under them. */
#include <assert.h>
#include <errno.h>

#include "rcu/lookup.h"
#include "rcu/lookup_key.h"

/* What the owner died in is settled, and nothing but this is done, before the lock is consistent. */
static void repair(const struct tide_lookup *lookup, struct partition *partition)
{
	uint32_t top;

	chain_repair(lookup, partition);
	top = atomic_load_explicit(&partition->top, memory_order_acquire);
	if (top)
		lookup_settle(lookup, top - 1);
	atomic_store_explicit(&partition->top, 0, memory_order_release);
	atomic_fetch_add_explicit(&lookup->head->repairs, 1, memory_order_relaxed);
}

struct partition *lookup_lock(const struct tide_lookup *lookup, uint64_t hash)
{
	struct partition *partition = lookup_partition(lookup, hash);
	int rc = pthread_mutex_lock(&partition->lock);

	if (rc == EOWNERDEAD) {
		repair(lookup, partition);
		rc = pthread_mutex_consistent(&partition->lock);
	}
	assert(rc == 0);
	return partition;
}

void lookup_unlock(struct partition *partition)
{
	int rc = pthread_mutex_unlock(&partition->lock);

	assert(rc == 0);
	(void)rc;
}

/*
 * The caller may write another key into a descriptor that has just left the table. (G) pairs with (C):
 * a reader that sees the new key sees what made the descriptor leave. ThreadSanitizer knows no fences,
 * and its machine needs none here.
 */
static void before_new_keys(void)
{
#ifndef BUCKET_PLAIN
	atomic_thread_fence(memory_order_release);
#endif
}

static uint32_t bucket_of(const struct tide_lookup *lookup, uint64_t hash)
{
	return (uint32_t)lookup_address(hash, lookup_n_buckets(lookup));
}

/* The buffer in the chain whose key is @key. */
static uint32_t find_key(const struct tide_lookup *lookup, uint32_t bucket, uint64_t hash,
			 const uint32_t *key)
{
	struct chain chain = chain_begin(lookup, bucket);
	uint32_t buffer;

	do
		buffer = line_find(lookup, chain.line, key, hash);
	while (buffer == TIDE_LOOKUP_NONE && chain_next(lookup, &chain));
	return buffer;
}

int tide_lookup_insert(struct tide_lookup *lookup, uint64_t hash, uint32_t buffer,
		       uint32_t *existing, struct tide_reason *why)
{
	struct partition *partition = lookup_lock(lookup, hash);
	uint32_t bucket = bucket_of(lookup, hash);
	uint32_t key[LOOKUP_KEY_WORDS];
	int rc = 0;

	key_copy(lookup, buffer, key);
	*existing = find_key(lookup, bucket, hash, key);
	if (*existing == TIDE_LOOKUP_NONE)
		rc = chain_enter(lookup, bucket, tag_of(hash), buffer);
	lookup_unlock(partition);
	if (rc)
		return tide_reason_set(why, rc, 0, "lookup table: every overflow bucket is in use");
	return 0;
}

int tide_lookup_remove(struct tide_lookup *lookup, uint64_t hash, uint32_t buffer)
{
	struct partition *partition = lookup_lock(lookup, hash);
	uint32_t bucket = bucket_of(lookup, hash);
	struct bucket *line;
	uint32_t slot;
	int found;

	found = chain_find(lookup, bucket, tag_of(hash), buffer, &line, &slot);
	if (found) {
		bucket_set_tag(line, slot, 0);
		chain_tidy(lookup, bucket);
	}
	lookup_unlock(partition);
	before_new_keys();
	return found;
}

int tide_lookup_replace(struct tide_lookup *lookup, uint64_t hash, uint32_t from, uint32_t to)
{
	struct partition *partition = lookup_lock(lookup, hash);
	uint32_t bucket = bucket_of(lookup, hash);
	struct bucket *line;
	uint32_t slot;
	int found;

	found = chain_find(lookup, bucket, tag_of(hash), from, &line, &slot);
	if (found) {
		/* A reader that holds on to @from and finds another key there must look again. */
		bucket_set_buffer(line, slot, to);
		bucket_bump(&lookup->buckets[bucket]);
	}
	lookup_unlock(partition);
	before_new_keys();
	return found;
}
