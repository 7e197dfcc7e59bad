/* SPDX-License-Identifier: PostgreSQL */
/*
 * resize/chunk.c - the chunk table: layout, validity, counts, names, the set active at start.
 */
#include "resize/chunk.h"

#include <string.h>

_Static_assert(sizeof(struct tide_chunk) == 16, "a chunk takes 16 bytes in shared memory");
_Static_assert(offsetof(struct tide_chunk_table, chunk) % 8 == 0, "chunks are aligned");
_Static_assert(TIDE_CHUNK_RETIRED == 0, "a zeroed table is a table of retired chunks");

size_t tide_chunk_table_bytes(uint32_t n_chunks)
{
	return sizeof(struct tide_chunk_table) + (size_t)n_chunks * sizeof(struct tide_chunk);
}

void tide_chunk_table_init(struct tide_chunk_table *table, uint32_t n_chunks, uint64_t chunk_bytes)
{
	memset(table, 0, tide_chunk_table_bytes(n_chunks));
	table->magic = TIDE_CHUNK_TABLE_MAGIC;
	table->version = TIDE_CHUNK_TABLE_VERSION;
	table->table_bytes = tide_chunk_table_bytes(n_chunks);
	table->chunk_bytes = chunk_bytes;
	table->n_chunks = n_chunks;
}

int tide_chunk_table_valid(const struct tide_chunk_table *table)
{
	if (!table || table->magic != TIDE_CHUNK_TABLE_MAGIC ||
	    table->version != TIDE_CHUNK_TABLE_VERSION)
		return 0;
	if (table->n_chunks == 0 || table->chunk_bytes == 0 ||
	    table->chunk_bytes > UINT64_MAX / table->n_chunks ||
	    table->table_bytes != tide_chunk_table_bytes(table->n_chunks))
		return 0;
	for (uint32_t i = 0; i < table->n_chunks; i++)
		if ((uint32_t)chunk_load(table, i) >= TIDE_CHUNK_STATES)
			return 0;
	return 1;
}

void tide_chunk_counts(const struct tide_chunk_table *table, uint32_t counts[TIDE_CHUNK_STATES])
{
	memset(counts, 0, sizeof(counts[0]) * TIDE_CHUNK_STATES);
	for (uint32_t i = 0; i < table->n_chunks; i++) {
		uint32_t state = (uint32_t)chunk_load(table, i);

		if (state < TIDE_CHUNK_STATES)
			counts[state]++;
	}
}

const char *tide_chunk_state_name(enum tide_chunk_state state)
{
	static const char *const names[TIDE_CHUNK_STATES] = {
		[TIDE_CHUNK_RETIRED] = "retired",     [TIDE_CHUNK_COMMITTING] = "committing",
		[TIDE_CHUNK_ACTIVE] = "active",	      [TIDE_CHUNK_FENCED] = "fenced",
		[TIDE_CHUNK_DRAINING] = "draining",   [TIDE_CHUNK_QUIESCING] = "quiescing",
		[TIDE_CHUNK_LINGERING] = "lingering", [TIDE_CHUNK_RELEASING] = "releasing",
	};

	return (unsigned)state < TIDE_CHUNK_STATES ? names[state] : "unknown";
}

void tide_chunk_spread(uint32_t n_chunks, uint32_t n_active, uint8_t *chosen)
{
	/* Chunk i is chosen when a multiple of n/k falls into (i-1, i]: gaps differ by one at most. */
	for (uint32_t i = 0; i < n_chunks; i++)
		chosen[i] = (uint64_t)i * n_active % n_chunks < n_active;
}
