/* SPDX-License-Identifier: PostgreSQL */
/*
 * tidepool/lookup.h - lookup table: page id -> buffer number, resized while readers run.
 *
 * Readers take no lock and store nothing that others read. Writers are partitioned. The table holds
 * one-byte fingerprints and buffer numbers; the key is compared where it lies, in the host's
 * descriptor. It grows and shrinks bucket by bucket (linear hashing), so that its memory follows the
 * current size of the pool and not the ceiling.
 *
 * Memory comes from the host, in three places of shared memory: a head of fixed size, an array of
 * buckets and an array of overflow buckets. The host reserves the arrays for the maximum and commits
 * as many bytes from their beginning as the current size needs (tide_lookup_layout()), before it lets
 * the table grow, and takes the end back after the table has shrunk and a grace period has passed.
 *
 * Caveats:
 *  - tide_lookup_find() is called inside a read section (tidepool/grace.h). What it returns was true
 *    at some moment in between: pin the buffer and compare the key again under the pin.
 *  - A descriptor's key is written with relaxed atomic stores, only while the buffer is not in the table:
 *    of 8-byte words when it has 16 bytes that are aligned to 8, of 4-byte words otherwise.
 *  - A process that dies holding a partition's lock leaves it to the next one to repair; nothing of
 *    the table is lost.
 *  - Only one process at a time resizes the table; the host sees to it.
 */
#ifndef TIDEPOOL_LOOKUP_H
#define TIDEPOOL_LOOKUP_H

#include <stddef.h>
#include <stdint.h>

#include <tidepool/reason.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TIDE_LOOKUP_NONE UINT32_MAX	/* no buffer */
#define TIDE_LOOKUP_BUFFERS 0x7fffffffu /* buffer numbers are below */
#define TIDE_LOOKUP_KEY_BYTES 64u	/* longest key; a multiple of 4 */

/**
 * struct tide_lookup_layout - memory that a table needs for a pool of so many buffers
 * @n_buckets:      buckets
 * @bucket_bytes:   bytes of the array of buckets that are in use
 * @overflow_bytes: the same of the overflow buckets
 */
struct tide_lookup_layout {
	uint64_t n_buckets;
	uint64_t bucket_bytes;
	uint64_t overflow_bytes;
};

/** tide_lookup_layout() - for @n_buffers; monotone, so the ceiling's layout is what to reserve */
TIDE_PUBLIC void tide_lookup_layout(uint32_t n_buffers, struct tide_lookup_layout *out);

struct tide_lookup_head; /* in shared memory; aligned to 64 */

/** tide_lookup_head_bytes() - size of the head; a multiple of 64 */
TIDE_PUBLIC size_t tide_lookup_head_bytes(void);

/**
 * struct tide_lookup_memory - where the table and the keys lie in this process
 * @head, @buckets, @overflow: as above; the arrays aligned to 64
 * @keys:   base of the host's descriptors
 * @stride: distance of two descriptors, bytes
 * @offset: of the key in a descriptor, a multiple of 4
 * @length: of a key, a multiple of 4, at most TIDE_LOOKUP_KEY_BYTES
 */
struct tide_lookup_memory {
	struct tide_lookup_head *head;
	void *buckets;
	void *overflow;
	const void *keys;
	size_t stride;
	uint32_t offset;
	uint32_t length;
};

/**
 * tide_lookup_init() - lay out an empty table for @n_buffers in memory that is committed and zeroed
 *
 * @seed: of the hash; any number, better one that nobody can guess
 *
 * Return: 0 or TIDE_BAD_REQUEST, TIDE_SYSTEM_ERROR.
 */
TIDE_PUBLIC TIDE_CHECKED int tide_lookup_init(const struct tide_lookup_memory *memory,
					      uint32_t n_buffers, uint64_t seed,
					      struct tide_reason *why);

struct tide_lookup; /* a process's handle */

/**
 * tide_lookup_open() - a handle on a table that was laid out
 *
 * Return: 0 and *out; TIDE_BAD_REQUEST (no table, other version or key length),
 * TIDE_NOT_ENOUGH_MEMORY.
 */
TIDE_PUBLIC TIDE_CHECKED int tide_lookup_open(const struct tide_lookup_memory *memory,
					      struct tide_lookup **out, struct tide_reason *why);

/** tide_lookup_close() - free the handle; the table stays */
TIDE_PUBLIC void tide_lookup_close(struct tide_lookup *lookup);

/** tide_lookup_hash() - of a key; the same in every process */
TIDE_PUBLIC uint64_t tide_lookup_hash(const struct tide_lookup *lookup, const void *key);

/** tide_lookup_prefetch() - ask for the cache line that a find of @hash will read first */
TIDE_PUBLIC void tide_lookup_prefetch(const struct tide_lookup *lookup, uint64_t hash);

/**
 * tide_lookup_find() - the buffer of a key
 *
 * Context: inside a read section; never blocks, no locked instruction, no store to shared memory.
 * Return: a buffer number, or TIDE_LOOKUP_NONE when the key was in no bucket at some moment of the call.
 */
TIDE_PUBLIC uint32_t tide_lookup_find(const struct tide_lookup *lookup, const void *key,
				      uint64_t hash);

/**
 * tide_lookup_insert() - enter @buffer, whose descriptor holds the key
 *
 * Context: blocks on the lock of a partition; inside a read section or not.
 * Return: 0 and *existing = TIDE_LOOKUP_NONE; 0 and *existing = the buffer that holds the key
 * already, and nothing was entered; TIDE_NOT_ENOUGH_MEMORY when the overflow buckets are used up.
 */
TIDE_PUBLIC TIDE_CHECKED int tide_lookup_insert(struct tide_lookup *lookup, uint64_t hash,
						uint32_t buffer, uint32_t *existing,
						struct tide_reason *why);

/** tide_lookup_remove() - take @buffer out; returns 1, or 0 when it was not there. Blocks as above. */
TIDE_PUBLIC int tide_lookup_remove(struct tide_lookup *lookup, uint64_t hash, uint32_t buffer);

/**
 * tide_lookup_replace() - the page moved from buffer @from to @to, whose descriptor holds the key
 *
 * A reader finds one or the other, never none. Return: 1, or 0 when @from was not there.
 */
TIDE_PUBLIC int tide_lookup_replace(struct tide_lookup *lookup, uint64_t hash, uint32_t from,
				    uint32_t to);

/**
 * tide_lookup_resize() - a bounded step towards the layout for @n_buffers
 *
 * Splits or merges at most @max_steps buckets. Readers and writers go on meanwhile; memory for the
 * larger of the two sizes is committed. After the last step of a shrink the end of the arrays is
 * unused; readers may look at it for one more grace period.
 *
 * Return: 1 = there is more to do, 0 = done; TIDE_BAD_REQUEST; TIDE_NOT_ENOUGH_MEMORY (a merge
 * finds no overflow bucket: the size stays where it is).
 */
TIDE_PUBLIC TIDE_CHECKED int tide_lookup_resize(struct tide_lookup *lookup, uint32_t n_buffers,
						uint32_t max_steps, struct tide_reason *why);

/* A snapshot without a lock. */
struct tide_lookup_stats {
	uint64_t n_buckets;
	uint64_t n_entries;
	uint64_t n_overflow; /* overflow buckets in use */
	uint64_t generation; /* splits and merges since the table was made */
	uint64_t repairs;    /* partitions repaired after a death */
};

/** tide_lookup_stats() - O(n_buckets) */
TIDE_PUBLIC void tide_lookup_stats(const struct tide_lookup *lookup, struct tide_lookup_stats *out);

/**
 * tide_lookup_valid() - does every bucket, chain and counter make sense? For tests; nobody writes.
 *
 * Return: 1, or 0 with the first contradiction in @why.
 */
TIDE_PUBLIC int tide_lookup_valid(const struct tide_lookup *lookup, struct tide_reason *why);

#ifdef __cplusplus
}
#endif

#endif /* TIDEPOOL_LOOKUP_H */
