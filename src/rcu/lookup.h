/* SPDX-License-Identifier: PostgreSQL */
/*
 * rcu/lookup.h - the lookup table inside.
 *
 * Linear hashing over buckets of one cache line. With n buckets, 2^L <= n < 2^(L+1), a hash belongs to
 * the bucket of its lower L+1 bits if there is one, otherwise to that of its lower L bits. Growing by
 * one splits bucket n - 2^L; shrinking by one merges bucket n - 1 back. What does not fit into a bucket
 * lies in overflow lines chained to it.
 *
 * Guarantees to readers:
 *  1. A key that is in the table throughout a find is found.
 *  2. Entries move by copies: the copy is there before the original goes, and between the two the
 *     version of the bucket that loses the original changes. So while a version stays the same, every
 *     key that stays in the table has a slot that stays where it is. A reader that looked through a bucket
 *     and its chain in vain believes it when the version is what it was before.
 *  3. A bucket says by its level which hashes it answers for, so a reader that came with a number of
 *     buckets that has changed since is told so. The level is raised before the entries that go are
 *     deleted, lowered after those that come were copied, and a change of version lies between.
 *  4. An insertion, a removal and a replacement are one store each; readers see all or nothing of it.
 *  5. A reader repeats itself only when a writer has changed the version or the level under it in
 *     the meantime. No state that a writer stops or dies in makes a reader wait: finds are lock-free.
 *  6. An overflow line that is given to another bucket was unlinked, and the version changed, before.
 * Not guaranteed: which of two orders a reader sees that looks for two keys; nothing at all when
 * 2^32 changes of one bucket fit into one find.
 *
 * Guarantees to writers:
 *  7. Bucket, chain and partner in a split belong to one partition: its lock orders all writers.
 *  8. Whoever gets the lock of an owner that died finishes or undoes what the partition's record
 *     says, before anything else. Repairing may die and be repaired.
 */
#ifndef RCU_LOOKUP_H
#define RCU_LOOKUP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include <tidepool/lookup.h>

#include "rcu/bucket.h"

#define LOOKUP_MAGIC 0x6c6f6f6b75703031ull
#define LOOKUP_VERSION 1u
#define LOOKUP_PARTITIONS 64u
#define LOOKUP_KEY_WORDS (TIDE_LOOKUP_KEY_BYTES / 4)

/*
 * A partition: all buckets whose number has the same lower bits.
 * @top:     a split or merge of this bucket - 1 is under way; 0 = none
 * @changed: entries move within the chain of this bucket - 1; 0 = none
 * @lines:   overflow lines + 1 that may be owned and in no chain: one just taken, one just let go
 */
struct partition {
	pthread_mutex_t lock;
	_Atomic uint32_t top;
	_Atomic uint32_t changed;
	_Atomic uint32_t lines[2];
} __attribute__((aligned(64)));

_Static_assert(sizeof(struct partition) == 64, "a partition is a cache line");

/*
 * @n_buckets:   stored by the resizer under the lock of the partition concerned. Seen from another
 *               partition its change is without effect.
 * @n_lines:     overflow lines at and beyond it are free
 * @lines_limit: nobody takes a line at or beyond it; below n_lines only while a shrink empties the end
 */
struct tide_lookup_head {
	_Atomic uint64_t magic;
	uint32_t version;
	uint32_t bytes;
	uint32_t key_bytes;
	uint32_t unused;
	uint64_t salt[3];
	/* Read by everybody, stored by the resizer only. */
	_Atomic uint64_t n_buckets __attribute__((aligned(64)));
	_Atomic uint64_t n_lines;
	_Atomic uint64_t lines_limit;
	_Atomic uint64_t generation __attribute__((aligned(64)));
	_Atomic uint64_t repairs;
	struct partition partitions[LOOKUP_PARTITIONS];
};

struct tide_lookup {
	struct tide_lookup_head *head;
	struct bucket *buckets;
	struct bucket *lines;
	const unsigned char *keys; /* of buffer 0 */
	size_t stride;
	uint32_t words;	  /* of a key */
	uint32_t is_pair; /* a key is two aligned numbers of 64 bits */
	uint64_t salt[3];
};

/* Number of bits of the largest bucket number; @n_buckets >= 2. */
static inline uint32_t lookup_bits(uint64_t n_buckets)
{
	return 64u - (uint32_t)__builtin_clzll(n_buckets - 1);
}

/* How many bits address a bucket while there are so many. */
static inline uint32_t lookup_level(uint64_t bucket, uint64_t n_buckets)
{
	uint32_t bits = lookup_bits(n_buckets);
	uint64_t half = 1ull << (bits - 1);

	return bucket >= half || bucket + half < n_buckets ? bits : bits - 1;
}

static inline uint64_t lookup_address(uint64_t hash, uint64_t n_buckets)
{
	uint64_t mask = UINT64_MAX >> __builtin_clzll(n_buckets - 1);
	uint64_t bucket = hash & mask;

	return bucket < n_buckets ? bucket : bucket & (mask >> 1);
}

/* Does a bucket of this level answer for @hash? Level 0: bucket 0 only, which always has a level. */
static inline int lookup_answers(uint64_t bucket, uint32_t level, uint64_t hash)
{
	return (hash & ((1ull << level) - 1)) == bucket;
}

/* The bucket that @top is split from and merged into. */
static inline uint32_t lookup_partner(uint32_t top)
{
	return top & (UINT32_MAX >> 1 >> __builtin_clz(top));
}

static inline uint64_t lookup_n_buckets(const struct tide_lookup *lookup)
{
	return atomic_load_explicit(&lookup->head->n_buckets, memory_order_acquire);
}

static inline struct partition *lookup_partition(const struct tide_lookup *lookup, uint64_t hash)
{
	return &lookup->head->partitions[hash % LOOKUP_PARTITIONS];
}

/* --- keys (lookup_key.h has what readers inline) ---------------------------------------------- */

/* Hash of the key that lies in the descriptor of @buffer. */
uint64_t lookup_hash_of(const struct tide_lookup *lookup, uint32_t buffer);

/* --- chains: the caller holds the partition's lock -------------------------------------------- */

/* One line of a chain and where it hangs. */
struct chain {
	struct bucket *line;
	struct bucket *before; /* NULL: @line is the bucket itself */
};

struct chain chain_begin(const struct tide_lookup *lookup, uint32_t bucket);
int chain_next(const struct tide_lookup *lookup, struct chain *chain);

/* Where @buffer is entered in the chain of @bucket: 1, *line and *slot, or 0. */
int chain_find(const struct tide_lookup *lookup, uint32_t bucket, uint8_t tag, uint32_t buffer,
	       struct bucket **line, uint32_t *slot);

/* Enter it in a free slot or in a new line; 0, or TIDE_NOT_ENOUGH_MEMORY. */
int chain_enter(const struct tide_lookup *lookup, uint32_t bucket, uint8_t tag, uint32_t buffer);

/* Move entries forward into free slots and let go of lines that become empty. */
void chain_tidy(const struct tide_lookup *lookup, uint32_t bucket);

/* Let go of every line. */
void chain_drop(const struct tide_lookup *lookup, uint32_t bucket);

/* Move what lies in line @number to one below the limit; 0, or TIDE_NOT_ENOUGH_MEMORY. */
int chain_relocate(const struct tide_lookup *lookup, uint32_t bucket, uint32_t number);

/* After a death: the partition's records of lines and of a chain, see struct partition. */
void chain_repair(const struct tide_lookup *lookup, struct partition *partition);

/* --- locks and resizing ----------------------------------------------------------------------- */

/* Lock the partition of @hash, or of a bucket; repairs what a dead owner left. Never fails. */
struct partition *lookup_lock(const struct tide_lookup *lookup, uint64_t hash);
void lookup_unlock(struct partition *partition);

/*
 * Make bucket @top and its partner what the number of buckets says they are: split or merged. The
 * second half of either, the undoing of a first half that failed, and the repair after a death.
 */
void lookup_settle(const struct tide_lookup *lookup, uint32_t top);

#endif /* RCU_LOOKUP_H */
