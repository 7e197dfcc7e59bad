/* SPDX-License-Identifier: PostgreSQL */
/*
 * resize/choose.c - which chunks to retire and which to activate.
 *
 * Spread: where victim searches walk over retired chunks, one long run of them is a stall, the same
 * number spread evenly is a constant factor. So whatever is equal otherwise is taken in bit-reversed
 * order, of which every prefix is spread over the whole table.
 *
 * Compact: where everything that belongs to a pool is as long as its highest chunk in use, a hole
 * costs and a run does not. So the lowest come into use first and the highest go first.
 */
#include "resize/choose.h"

#include <string.h>

/* @bits is 1 to 32. */
static uint32_t reverse_bits(uint32_t value, unsigned bits)
{
	value = (value >> 1 & 0x55555555u) | (value & 0x55555555u) << 1;
	value = (value >> 2 & 0x33333333u) | (value & 0x33333333u) << 2;
	value = (value >> 4 & 0x0f0f0f0fu) | (value & 0x0f0f0f0fu) << 4;
	return __builtin_bswap32(value) >> (32 - bits);
}

/* Bits needed for the numbers below @n, at least one. */
static unsigned bits_below(uint32_t n)
{
	unsigned bits = 1;

	while (bits < 32 && (UINT64_C(1) << bits) < n)
		bits++;
	return bits;
}

uint8_t choose_key(const struct tide_chunk_fact *fact)
{
	uint64_t heat = (uint64_t)fact->heat + 1;
	unsigned octave = 63u - (unsigned)__builtin_clzll(heat);
	unsigned half = octave > 0 ? (unsigned)(heat >> (octave - 1)) & 1u : 0;
	unsigned bucket = 2 * octave + half;

	return (uint8_t)(bucket | (fact->pinned > 0 ? CHOOSE_PINNED : 0));
}

/* Where the chunks of each key begin in the order. Returns their number. */
static uint32_t find_places(const uint8_t *states, const uint8_t *keys, uint32_t n_chunks,
			    enum tide_chunk_state state, uint32_t place[CHOOSE_KEYS + 1])
{
	memset(place, 0, sizeof(place[0]) * (CHOOSE_KEYS + 1));
	for (uint32_t i = 0; i < n_chunks; i++)
		if (states[i] == state)
			place[keys[i] + 1u]++;
	for (uint32_t k = 1; k <= CHOOSE_KEYS; k++)
		place[k] += place[k - 1];
	return place[CHOOSE_KEYS];
}

uint32_t choose_coldest(const uint8_t *states, const uint8_t *keys, uint32_t n_chunks,
			enum tide_chunk_state state, uint32_t *order)
{
	unsigned bits = bits_below(n_chunks);
	uint32_t place[CHOOSE_KEYS + 1];
	uint32_t found = find_places(states, keys, n_chunks, state, place);

	for (uint64_t r = 0; r < UINT64_C(1) << bits; r++) {
		uint32_t i = reverse_bits((uint32_t)r, bits);

		if (i < n_chunks && states[i] == state)
			order[place[keys[i]]++] = i;
	}
	return found;
}

uint32_t choose_highest(const uint8_t *states, const uint8_t *keys, uint32_t n_chunks,
			enum tide_chunk_state state, uint32_t *order)
{
	uint32_t place[CHOOSE_KEYS + 1];
	uint32_t found = find_places(states, keys, n_chunks, state, place);

	for (uint32_t i = n_chunks; i-- > 0;)
		if (states[i] == state)
			order[place[keys[i]]++] = i;
	return found;
}

uint32_t choose_lowest(const uint8_t *states, uint32_t n_chunks, enum tide_chunk_state state,
		       uint32_t want, uint32_t *order)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < n_chunks && n < want; i++)
		if (states[i] == state)
			order[n++] = i;
	return n;
}

/*
 * Divide @pool (ascending chunk numbers) into those that stay and those to take. A place is due to
 * stay every n_chunks/keep chunks; it goes to the first chunk of the pool found from there on, and
 * a place that finds none within its stretch lapses, so that no stretch keeps more than its share.
 * What lapsed is made up evenly from the rest. The chosen are moved to the front of @pool.
 */
static void divide(uint32_t *pool, uint32_t n_pool, uint32_t n_chunks, uint32_t take)
{
	uint32_t keep = n_pool - take;
	uint32_t n_kept = 0, n_rest = 0;
	uint64_t stretch = 0;

	for (uint32_t i = 0; i < n_pool; i++) {
		uint64_t here = (uint64_t)pool[i] * keep / n_chunks + 1;

		if (here > stretch && n_kept < keep) {
			stretch = here;
			n_kept++;
		} else {
			pool[n_rest++] = pool[i];
		}
	}

	uint32_t surplus = n_rest - take;
	uint32_t n_taken = 0;

	for (uint32_t i = 0; i < n_rest; i++) {
		int stays = (uint64_t)(i + 1) * surplus / n_rest > (uint64_t)i * surplus / n_rest;

		if (!stays)
			pool[n_taken++] = pool[i];
	}
}

uint32_t choose_spread(const uint8_t *states, uint32_t n_chunks, enum tide_chunk_state state,
		       uint32_t want, uint32_t *order, uint32_t *scratch)
{
	uint32_t n_pool = 0;

	for (uint32_t i = 0; i < n_chunks; i++)
		if (states[i] == state)
			scratch[n_pool++] = i;
	if (want > n_pool)
		want = n_pool;
	if (want < n_pool)
		divide(scratch, n_pool, n_chunks, want);

	unsigned bits = bits_below(want);
	uint32_t n = 0;

	for (uint64_t r = 0; r < UINT64_C(1) << bits; r++) {
		uint32_t rank = reverse_bits((uint32_t)r, bits);

		if (rank < want)
			order[n++] = scratch[rank];
	}
	return n;
}

static void sift_down(uint32_t *heap, uint32_t root, uint32_t n)
{
	for (;;) {
		uint32_t child = 2 * root + 1;

		if (child >= n)
			return;
		if (child + 1 < n && heap[child + 1] > heap[child])
			child++;
		if (heap[root] >= heap[child])
			return;

		uint32_t moved = heap[root];

		heap[root] = heap[child];
		heap[child] = moved;
		root = child;
	}
}

void choose_sort(uint32_t *chunks, uint32_t n)
{
	/* Heap sort: qsort() may allocate, and resizing has to work when there is no memory left. */
	for (uint32_t root = n / 2; root-- > 0;)
		sift_down(chunks, root, n);
	for (uint32_t last = n; last-- > 1;) {
		uint32_t largest = chunks[0];

		chunks[0] = chunks[last];
		chunks[last] = largest;
		sift_down(chunks, 0, last);
	}
}
