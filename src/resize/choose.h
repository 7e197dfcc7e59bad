/* SPDX-License-Identifier: PostgreSQL */
/*
 * resize/choose.h - which chunks to retire and which to activate. Pure functions over arrays.
 */
#ifndef RESIZE_CHOOSE_H
#define RESIZE_CHOOSE_H

#include <tidepool/resize.h>

/* Keys order candidates: lower first. The highest bit says pinned. */
#define CHOOSE_KEYS 256u
#define CHOOSE_PINNED 128u

/**
 * choose_key() - the rank of a chunk from what is known about it
 *
 * Heat is put into coarse buckets (two to an octave), so that chunks of about equal worth are taken
 * in an order that spreads them, and not in the order of noise.
 */
uint8_t choose_key(const struct tide_chunk_fact *fact);

/**
 * choose_coldest() - all chunks in @state, lowest key first, equal keys in bit-reversed order
 *
 * Any prefix of chunks with equal keys is evenly spread over the table. O(n_chunks).
 *
 * Return: number of chunks written to @order.
 */
uint32_t choose_coldest(const uint8_t *states, const uint8_t *keys, uint32_t n_chunks,
			enum tide_chunk_state state, uint32_t *order);

/**
 * choose_spread() - @want of the chunks in @state, so that those left over are evenly spread, and
 * in an order of which any prefix leaves the others evenly spread too. O(n_chunks).
 *
 * @scratch: room for n_chunks
 * Return: number of chunks written to @order: @want, or fewer when there are fewer.
 */
uint32_t choose_spread(const uint8_t *states, uint32_t n_chunks, enum tide_chunk_state state,
		       uint32_t want, uint32_t *order, uint32_t *scratch);

/** choose_highest() - all chunks in @state, lowest key first, equal keys from the highest down */
uint32_t choose_highest(const uint8_t *states, const uint8_t *keys, uint32_t n_chunks,
			enum tide_chunk_state state, uint32_t *order);

/** choose_lowest() - the @want lowest chunks in @state, ascending; fewer when there are fewer */
uint32_t choose_lowest(const uint8_t *states, uint32_t n_chunks, enum tide_chunk_state state,
		       uint32_t want, uint32_t *order);

/** choose_sort() - ascending, in place, without memory of its own */
void choose_sort(uint32_t *chunks, uint32_t n);

#endif /* RESIZE_CHOOSE_H */
