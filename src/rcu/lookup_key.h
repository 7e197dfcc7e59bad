/* SPDX-License-Identifier: PostgreSQL */
/*
 * rcu/lookup_key.h - keys of the lookup table: compared in the descriptor, and hashed.
 *
 * A descriptor's key may change while a reader compares it, so its words are atomic. A comparison of
 * a key that changes says anything; the reader compares again under its pin.
 */
#ifndef RCU_LOOKUP_KEY_H
#define RCU_LOOKUP_KEY_H

#include <string.h>

#include "rcu/lookup.h"

static inline uint32_t key_word(const struct tide_lookup *lookup, uint32_t buffer, uint32_t word)
{
	const unsigned char *key = lookup->keys + (size_t)buffer * lookup->stride;

	return atomic_load_explicit((const _Atomic uint32_t *)(const void *)key + word,
				    memory_order_relaxed);
}

static inline uint32_t key_differs_at(const struct tide_lookup *lookup, const void *key,
				      uint32_t buffer, uint32_t word)
{
	uint32_t wanted;

	memcpy(&wanted, (const unsigned char *)key + 4 * (size_t)word, sizeof(wanted));
	return wanted ^ key_word(lookup, buffer, word);
}

static inline uint64_t key_differs_by_pair(const struct tide_lookup *lookup, const void *key,
					   uint32_t buffer, uint32_t pair)
{
	const unsigned char *found = lookup->keys + (size_t)buffer * lookup->stride;
	uint64_t wanted;

	memcpy(&wanted, (const unsigned char *)key + 8 * (size_t)pair, sizeof(wanted));
	return wanted ^ atomic_load_explicit((const _Atomic uint64_t *)(const void *)found + pair,
					     memory_order_relaxed);
}

static inline int key_equals_by_word(const struct tide_lookup *lookup, const void *key,
				     uint32_t buffer)
{
	uint32_t differs = 0;

	for (uint32_t word = 0; word < lookup->words; word++)
		differs |= key_differs_at(lookup, key, buffer, word);
	return differs == 0;
}

/* A key like a page id, of two aligned 64-bit numbers, has a path of its own: every hit pays for it. */
static inline __attribute__((always_inline)) int key_equals(const struct tide_lookup *lookup,
							    const void *key, uint32_t buffer)
{
	if (__builtin_expect(lookup->is_pair, 1))
		return (key_differs_by_pair(lookup, key, buffer, 0) |
			key_differs_by_pair(lookup, key, buffer, 1)) == 0;
	return key_equals_by_word(lookup, key, buffer);
}

/* The buffer in this line whose key is @key, or TIDE_LOOKUP_NONE. A find calls nothing. */
static inline __attribute__((always_inline)) uint32_t line_find(const struct tide_lookup *lookup,
								const struct bucket *line,
								const void *key, uint64_t hash)
{
	uint64_t match = bucket_match(line, tag_of(hash));

	for (; match; match = match_rest(match)) {
		uint32_t buffer = bucket_buffer(line, match_slot(match));

		lookup_look();
		if (key_equals(lookup, key, buffer))
			return buffer;
	}
	return TIDE_LOOKUP_NONE;
}

static inline void key_copy(const struct tide_lookup *lookup, uint32_t buffer,
			    uint32_t key[LOOKUP_KEY_WORDS])
{
	for (uint32_t i = 0; i < lookup->words; i++)
		key[i] = key_word(lookup, buffer, i);
}

/* The product of two 64-bit numbers, folded: every bit of the result depends on all of both. */
static inline uint64_t key_mix(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t key_load(const unsigned char *key, uint32_t bytes)
{
	uint64_t value = 0;

	memcpy(&value, key, bytes);
	return value;
}

/* Sixteen bytes at a time, then what is left. */
static inline uint64_t key_hash_any(const struct tide_lookup *lookup, const unsigned char *at)
{
	const uint64_t *salt = lookup->salt;
	uint64_t hash = salt[0];
	uint32_t words = lookup->words;

	for (; words >= 4; words -= 4, at += 16)
		hash = key_mix(key_load(at, 8) ^ salt[1], key_load(at + 8, 8) ^ hash);
	if (words >= 2) {
		hash = key_mix(key_load(at, 8) ^ salt[1], hash);
		words -= 2;
		at += 8;
	}
	if (words)
		hash = key_mix(key_load(at, 4) ^ salt[1], hash);
	return hash;
}

/*
 * Mixed once more at the end, so that short keys are mixed as well. The length of a page id has a path of
 * its own because every hit pays for it; the result is the same.
 */
static inline uint64_t key_hash(const struct tide_lookup *lookup, const void *key)
{
	const uint64_t *salt = lookup->salt;
	const unsigned char *at = key;
	uint64_t hash;

	if (__builtin_expect(lookup->words == 4, 1))
		hash = key_mix(key_load(at, 8) ^ salt[1], key_load(at + 8, 8) ^ salt[0]);
	else
		hash = key_hash_any(lookup, at);
	return key_mix(hash ^ salt[2], salt[1]);
}

#endif /* RCU_LOOKUP_KEY_H */
