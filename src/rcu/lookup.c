/* SPDX-License-Identifier: PostgreSQL */
/* lookup.c - lookup table: memory, handles, and what readers do. See lookup.h for what they may rely on. */
#include "rcu/lookup.h"

#include <inttypes.h>
#include <stdlib.h>

#include "rcu/lookup_key.h"

/*
 * Five entries to a bucket of eleven slots when every buffer is in use: in the middle of a doubling
 * buckets not yet split hold 7.5 on average, and one in forty has an overflow line. One line for eight
 * buckets is four times that. Together 14.4 bytes to a buffer.
 */
#define ENTRIES_PER_BUCKET 5u
#define BUCKETS_PER_LINE 8u

void tide_lookup_layout(uint32_t n_buffers, struct tide_lookup_layout *out)
{
	uint64_t n = ((uint64_t)n_buffers + ENTRIES_PER_BUCKET - 1) / ENTRIES_PER_BUCKET;

	out->n_buckets = n < LOOKUP_PARTITIONS ? LOOKUP_PARTITIONS : n;
	out->bucket_bytes = out->n_buckets * sizeof(struct bucket);
	out->overflow_bytes = out->n_buckets / BUCKETS_PER_LINE * sizeof(struct bucket);
}

size_t tide_lookup_head_bytes(void)
{
	return sizeof(struct tide_lookup_head);
}

static int is_aligned(const void *at, uintptr_t alignment)
{
	return (uintptr_t)at % alignment == 0;
}

static int check_memory(const struct tide_lookup_memory *memory, struct tide_reason *why)
{
	const char *fault = NULL;

	if (!memory->head || !memory->buckets || !memory->overflow || !memory->keys)
		fault = "a part of its memory is missing";
	else if (!is_aligned(memory->head, 64) || !is_aligned(memory->buckets, 64) ||
		 !is_aligned(memory->overflow, 64))
		fault = "its memory is not aligned to 64 bytes";
	else if (memory->length == 0 || memory->length > TIDE_LOOKUP_KEY_BYTES ||
		 memory->length % 4 != 0)
		fault = "the length of a key is no multiple of 4 from 4 to 64";
	else if (memory->offset % 4 != 0 || memory->stride % 4 != 0 || !is_aligned(memory->keys, 4))
		fault = "keys are not aligned to 4 bytes";
	else if (memory->stride < memory->length ||
		 memory->offset > memory->stride - memory->length)
		fault = "the key reaches beyond its descriptor";
	if (!fault)
		return 0;
	return tide_reason_set(why, TIDE_BAD_REQUEST, 0, "lookup table: %s", fault);
}

/* The next of a row of numbers that look random (splitmix64). */
static uint64_t next_salt(uint64_t *seed)
{
	uint64_t z = *seed += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static int init_partitions(struct tide_lookup_head *head)
{
	pthread_mutexattr_t attributes;
	int rc = pthread_mutexattr_init(&attributes);

	if (rc)
		return rc;
	rc = pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	if (!rc)
		rc = pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	for (uint32_t i = 0; i < LOOKUP_PARTITIONS && !rc; i++)
		rc = pthread_mutex_init(&head->partitions[i].lock, &attributes);
	(void)pthread_mutexattr_destroy(&attributes);
	return rc;
}

int tide_lookup_init(const struct tide_lookup_memory *memory, uint32_t n_buffers, uint64_t seed,
		     struct tide_reason *why)
{
	struct tide_lookup_head *head = memory->head;
	struct bucket *buckets = memory->buckets;
	struct tide_lookup_layout layout;
	int rc = check_memory(memory, why);

	if (rc)
		return rc;
	if (n_buffers > TIDE_LOOKUP_BUFFERS)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "lookup table: %" PRIu32 " buffers are more than %" PRIu32,
				       n_buffers, TIDE_LOOKUP_BUFFERS);
	rc = init_partitions(head);
	if (rc)
		return tide_reason_set(why, TIDE_SYSTEM_ERROR, rc,
				       "lookup table: locks between processes cannot be had");
	tide_lookup_layout(n_buffers, &layout);
	head->version = LOOKUP_VERSION;
	head->bytes = sizeof(*head);
	head->key_bytes = memory->length;
	for (uint32_t i = 0; i < 3; i++)
		head->salt[i] = next_salt(&seed);
	for (uint64_t i = 0; i < layout.n_buckets; i++)
		bucket_set_level(&buckets[i], lookup_level(i, layout.n_buckets));
	atomic_store_explicit(&head->n_buckets, layout.n_buckets, memory_order_release);
	atomic_store_explicit(&head->n_lines, layout.overflow_bytes / sizeof(struct bucket),
			      memory_order_release);
	atomic_store_explicit(&head->lines_limit, layout.overflow_bytes / sizeof(struct bucket),
			      memory_order_release);
	atomic_store_explicit(&head->magic, LOOKUP_MAGIC, memory_order_release);
	return 0;
}

int tide_lookup_open(const struct tide_lookup_memory *memory, struct tide_lookup **out,
		     struct tide_reason *why)
{
	const struct tide_lookup_head *head = memory->head;
	struct tide_lookup *lookup;
	const char *fault = NULL;
	int rc = check_memory(memory, why);

	if (rc)
		return rc;
	if (atomic_load_explicit(&head->magic, memory_order_acquire) != LOOKUP_MAGIC)
		fault = "there is none";
	else if (head->version != LOOKUP_VERSION || head->bytes != sizeof(*head))
		fault = "it was made by another version";
	else if (head->key_bytes != memory->length)
		fault = "its keys have another length";
	if (fault)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0, "lookup table: %s", fault);
	lookup = malloc(sizeof(*lookup));
	if (!lookup)
		return tide_reason_set(why, TIDE_NOT_ENOUGH_MEMORY, 0,
				       "lookup table: no memory for a handle");
	*lookup = (struct tide_lookup){
		.head = memory->head,
		.buckets = memory->buckets,
		.lines = memory->overflow,
		.keys = (const unsigned char *)memory->keys + memory->offset,
		.stride = memory->stride,
		.words = memory->length / 4,
		.is_pair = memory->length == 16 && memory->stride % 8 == 0 &&
			   is_aligned((const unsigned char *)memory->keys + memory->offset, 8),
		.salt = {head->salt[0], head->salt[1], head->salt[2]},
	};
	*out = lookup;
	return 0;
}

void tide_lookup_close(struct tide_lookup *lookup)
{
	free(lookup);
}

uint64_t tide_lookup_hash(const struct tide_lookup *lookup, const void *key)
{
	return key_hash(lookup, key);
}

void tide_lookup_prefetch(const struct tide_lookup *lookup, uint64_t hash)
{
	__builtin_prefetch(&lookup->buckets[lookup_address(hash, lookup_n_buckets(lookup))]);
}

/*
 * A hit needs no check: the caller compares the key again under its pin. A miss is believed when the
 * bucket answers for the hash and its version has stayed what it was, which is looked at before every
 * step along the chain as well: a line that is not the bucket's any more leads nowhere.
 */
static __attribute__((noinline)) uint32_t search(const struct tide_lookup *lookup, const void *key,
						 uint64_t hash)
{
	for (;;) {
		/* (A) pairs with (H) in lookup_resize.c: the bucket is complete. */
		uint64_t number = lookup_address(hash, lookup_n_buckets(lookup));
		const struct bucket *bucket = &lookup->buckets[number];
		const struct bucket *line = bucket;
		/* (B) pairs with bucket_bump(): copies made before are seen. */
		uint32_t version;

		lookup_look();
		version = bucket_version(bucket);
		for (;;) {
			uint32_t buffer, next;

			lookup_look();
			buffer = line_find(lookup, line, key, hash);
			lookup_look();
			next = bucket_next(line);
			if (buffer != TIDE_LOOKUP_NONE)
				return buffer;
			if (!lookup_answers(number, bucket_level(bucket), hash))
				break;
			/* (C) pairs with bucket_bump(): what was deleted after it changes the version. */
			bucket_fence();
			if (bucket_version(bucket) != version)
				break;
			if (next == 0)
				return TIDE_LOOKUP_NONE;
			line = &lookup->lines[next - 1];
		}
	}
}

/* Nearly every hit lies in the bucket itself; what is not found there is searched for with care. */
uint32_t tide_lookup_find(const struct tide_lookup *lookup, const void *key, uint64_t hash)
{
	uint64_t number = lookup_address(hash, lookup_n_buckets(lookup));
	uint32_t buffer = line_find(lookup, &lookup->buckets[number], key, hash);

	if (__builtin_expect(buffer != TIDE_LOOKUP_NONE, 1))
		return buffer;
	return search(lookup, key, hash);
}
