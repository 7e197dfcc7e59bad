/* SPDX-License-Identifier: PostgreSQL */
/* lookup_valid.c - the lookup table looked at as a whole: figures, and whether it makes sense. */
#include <inttypes.h>

#include "rcu/lookup.h"
#include "rcu/lookup_key.h"

static uint64_t entries_of(const struct bucket *line)
{
	uint64_t n = 0;

	for (uint32_t slot = 0; slot < BUCKET_SLOTS; slot++)
		n += bucket_tag(line, slot) != 0;
	return n;
}

static uint32_t owner_of(const struct bucket *line)
{
	return atomic_load_explicit(&line->owner, memory_order_acquire);
}

void tide_lookup_stats(const struct tide_lookup *lookup, struct tide_lookup_stats *out)
{
	const struct tide_lookup_head *head = lookup->head;
	uint64_t n_lines = atomic_load_explicit(&head->n_lines, memory_order_acquire);

	*out = (struct tide_lookup_stats){
		.n_buckets = lookup_n_buckets(lookup),
		.generation = atomic_load_explicit(&head->generation, memory_order_relaxed),
		.repairs = atomic_load_explicit(&head->repairs, memory_order_relaxed),
	};
	for (uint64_t i = 0; i < out->n_buckets; i++)
		out->n_entries += entries_of(&lookup->buckets[i]);
	for (uint64_t i = 0; i < n_lines; i++) {
		if (owner_of(&lookup->lines[i]) == 0)
			continue;
		out->n_overflow++;
		out->n_entries += entries_of(&lookup->lines[i]);
	}
}

static int entry_valid(const struct tide_lookup *lookup, uint32_t bucket, const struct bucket *line,
		       uint32_t slot, struct tide_reason *why)
{
	uint8_t tag = bucket_tag(line, slot);
	uint32_t buffer = bucket_buffer(line, slot);
	struct bucket *first;
	uint32_t first_slot;
	uint64_t hash;

	if (tag == 0)
		return 1;
	if (buffer >= TIDE_LOOKUP_BUFFERS)
		return tide_reason_set(why, 0, 0, "bucket %" PRIu32 " holds %" PRIu32, bucket,
				       buffer);
	hash = lookup_hash_of(lookup, buffer);
	if (tag_of(hash) != tag || lookup_address(hash, lookup_n_buckets(lookup)) != bucket)
		return tide_reason_set(why, 0, 0,
				       "buffer %" PRIu32 " is in bucket %" PRIu32
				       " and does not belong there",
				       buffer, bucket);
	if (!chain_find(lookup, bucket, tag, buffer, &first, &first_slot) || first != line ||
	    first_slot != slot)
		return tide_reason_set(why, 0, 0,
				       "buffer %" PRIu32 " is in bucket %" PRIu32 " twice", buffer,
				       bucket);
	return 1;
}

/* One key in two buffers: a chain is short, so every pair is compared. */
static int keys_differ(const struct tide_lookup *lookup, uint32_t bucket, uint32_t buffer,
		       struct tide_reason *why)
{
	struct chain chain = chain_begin(lookup, bucket);
	uint32_t key[LOOKUP_KEY_WORDS];

	key_copy(lookup, buffer, key);
	do {
		for (uint32_t slot = 0; slot < BUCKET_SLOTS; slot++) {
			uint32_t other = bucket_buffer(chain.line, slot);

			if (bucket_tag(chain.line, slot) && other != buffer &&
			    key_equals(lookup, key, other))
				return tide_reason_set(why, 0, 0,
						       "buffers %" PRIu32 " and %" PRIu32
						       " hold the same key",
						       buffer, other);
		}
	} while (chain_next(lookup, &chain));
	return 1;
}

static int line_valid(const struct tide_lookup *lookup, uint32_t bucket, const struct bucket *line,
		      struct tide_reason *why)
{
	for (uint32_t slot = 0; slot < BUCKET_SLOTS; slot++) {
		if (bucket_tag(line, slot) == 0)
			continue;
		if (!entry_valid(lookup, bucket, line, slot, why) ||
		    !keys_differ(lookup, bucket, bucket_buffer(line, slot), why))
			return 0;
	}
	return 1;
}

/* Adds the overflow lines of the chain to *n_linked. */
static int chain_valid(const struct tide_lookup *lookup, uint32_t bucket, uint64_t *n_linked,
		       struct tide_reason *why)
{
	uint64_t n_lines = atomic_load_explicit(&lookup->head->n_lines, memory_order_acquire);
	const struct bucket *line = &lookup->buckets[bucket];
	uint32_t next;

	if (bucket_level(line) != lookup_level(bucket, lookup_n_buckets(lookup)))
		return tide_reason_set(why, 0, 0, "bucket %" PRIu32 " has level %" PRIu32, bucket,
				       bucket_level(line));
	for (next = bucket_next(line); next; next = bucket_next(line)) {
		if (next > n_lines || owner_of(&lookup->lines[next - 1]) != bucket + 1)
			return tide_reason_set(why, 0, 0,
					       "bucket %" PRIu32
					       " leads to overflow bucket %" PRIu32
					       ", which is not its own",
					       bucket, next - 1);
		if (++*n_linked > n_lines)
			return tide_reason_set(why, 0, 0, "bucket %" PRIu32 " leads in a circle",
					       bucket);
		line = &lookup->lines[next - 1];
	}
	for (struct chain chain = chain_begin(lookup, bucket);;) {
		if (!line_valid(lookup, bucket, chain.line, why))
			return 0;
		if (!chain_next(lookup, &chain))
			return 1;
	}
}

static int partition_valid(const struct partition *partition, struct tide_reason *why)
{
	if (atomic_load_explicit(&partition->top, memory_order_acquire) ||
	    atomic_load_explicit(&partition->changed, memory_order_acquire) ||
	    atomic_load_explicit(&partition->lines[0], memory_order_acquire) ||
	    atomic_load_explicit(&partition->lines[1], memory_order_acquire))
		return tide_reason_set(why, 0, 0, "a partition has work left and its lock is free");
	return 1;
}

static int lines_valid(const struct tide_lookup *lookup, uint64_t n_linked, struct tide_reason *why)
{
	struct tide_lookup_head *head = lookup->head;
	uint64_t n_lines = atomic_load_explicit(&head->n_lines, memory_order_acquire);
	uint64_t n_owned = 0;

	if (atomic_load_explicit(&head->lines_limit, memory_order_acquire) > n_lines)
		return tide_reason_set(why, 0, 0, "overflow buckets are taken beyond the last");
	for (uint64_t i = 0; i < n_lines; i++)
		n_owned += owner_of(&lookup->lines[i]) != 0;
	if (n_owned != n_linked)
		return tide_reason_set(why, 0, 0,
				       "%" PRIu64 " overflow buckets have an owner, %" PRIu64
				       " are in a chain",
				       n_owned, n_linked);
	return 1;
}

int tide_lookup_valid(const struct tide_lookup *lookup, struct tide_reason *why)
{
	uint64_t n = lookup_n_buckets(lookup);
	uint64_t n_linked = 0;

	/* Whoever takes the lock of a dead owner repairs; what is left then has to be in order. */
	for (uint32_t i = 0; i < LOOKUP_PARTITIONS; i++) {
		struct partition *partition = lookup_lock(lookup, i);
		int valid = partition_valid(partition, why);

		lookup_unlock(partition);
		if (!valid)
			return 0;
	}
	if (n < LOOKUP_PARTITIONS || n > TIDE_LOOKUP_BUFFERS)
		return tide_reason_set(why, 0, 0, "there are %" PRIu64 " buckets", n);
	for (uint64_t i = 0; i < n; i++)
		if (!chain_valid(lookup, (uint32_t)i, &n_linked, why))
			return 0;
	return lines_valid(lookup, n_linked, why);
}
