/* SPDX-License-Identifier: PostgreSQL */
/* check.c - does everything in the pool make sense? */
#include <inttypes.h>

#include "pool/arrays.h"
#include "pool/session.h"

static int contradiction(const struct tide_pool *pool, uint32_t buffer, const char *what,
			 struct tide_reason *why)
{
	const struct tide_page_id id = descriptor_id(&pool->descriptors[buffer]);

	return tide_reason_set(
		why, TIDE_VERIFY_MISMATCH, 0,
		"buffer %" PRIu32 " (file %" PRIu64 ", page %" PRIu64 ", state %016" PRIx64 "): %s",
		buffer, id.file, id.page, descriptor_state(&pool->descriptors[buffer]), what);
}

static int check_buffer(const struct tide_pool *pool, uint32_t buffer, struct tide_reason *why)
{
	const struct descriptor *d = &pool->descriptors[buffer];
	const uint64_t state = descriptor_state(d);
	const struct tide_page_id id = descriptor_id(d);
	uint32_t found;

	if (!state_is_valid(state))
		return contradiction(pool, buffer, "no possible state", why);
	if (!(state & STATE_USABLE))
		return contradiction(pool, buffer, "retired in a chunk that is in use", why);
	if (state_owner(state) != 0)
		return contradiction(pool, buffer, "owned although nobody is at work", why);
	if (!(state & (STATE_VALID | STATE_TORN)))
		return TIDE_OK;
	found = tide_lookup_find(pool->lookup, &id, tide_lookup_hash(pool->lookup, &id));
	if (found != buffer)
		return contradiction(pool, buffer, "the lookup table does not have it", why);
	return TIDE_OK;
}

static int check_chunk(const struct tide_pool *pool, uint32_t chunk, uint64_t *n_pages,
		       struct tide_reason *why)
{
	const uint32_t first = chunk << pool->chunk_shift;
	int code = TIDE_OK;

	for (uint32_t i = 0; i < pool->shared->layout.chunk_buffers && code == TIDE_OK; i++) {
		const uint64_t state = descriptor_state(&pool->descriptors[first + i]);

		code = check_buffer(pool, first + i, why);
		*n_pages += (state & (STATE_VALID | STATE_TORN)) != 0;
	}
	return code;
}

static int check_memory(const struct tide_pool *pool, struct tide_reason *why)
{
	uint32_t counts[TIDE_CHUNK_STATES];
	uint64_t committed, wanted;
	int code = tide_region_audit(pool->pages, &committed, why);

	if (code != TIDE_OK)
		return code;
	tide_chunk_counts(pool->chunks, counts);
	wanted = (pool->shared->layout.n_chunks - (uint64_t)counts[TIDE_CHUNK_RETIRED]) *
		 pool->shared->layout.chunk_bytes;
	if (committed == wanted)
		return TIDE_OK;
	return tide_reason_set(why, TIDE_VERIFY_MISMATCH, 0,
			       "the kernel holds %" PRIu64 " bytes of pages, the chunks in use "
			       "have %" PRIu64,
			       committed, wanted);
}

static int check_entries(const struct tide_pool *pool, uint64_t n_pages, struct tide_reason *why)
{
	struct tide_lookup_stats stats;

	tide_lookup_stats(pool->lookup, &stats);
	if (stats.n_entries == n_pages)
		return TIDE_OK;
	return tide_reason_set(why, TIDE_VERIFY_MISMATCH, 0,
			       "the lookup table has %" PRIu64 " entries, the buffers %" PRIu64
			       " pages",
			       stats.n_entries, n_pages);
}

static int check_slots(const struct tide_session *session, struct tide_reason *why)
{
	const struct tide_pool *pool = session->pool;
	uint32_t n_slots;

	(void)tide_grace_slots(pool->grace, &n_slots);
	for (uint32_t i = 0; i < n_slots; i++) {
		if (i + 1 == session->me)
			continue;
		for (uint32_t k = 0; k < SLOT_ENTRIES; k++)
			if (atomic_load_explicit(&pool->slots[i].entry[k], memory_order_acquire))
				return tide_reason_set(why, TIDE_VERIFY_MISMATCH, 0,
						       "session %" PRIu32 " has a page fixed", i);
	}
	return TIDE_OK;
}

int tide_pool_check(struct tide_session *session, struct tide_reason *why)
{
	const struct tide_pool *pool = session->pool;
	struct tide_resizer *resizer;
	uint64_t n_pages = 0;
	int code;

	/* What a resizer that died left half done is put right, not complained of. */
	code = tide_resizer_open(session, &resizer, why);
	if (code != TIDE_OK)
		return code;
	tide_resizer_close(resizer);
	tide_reader_enter(&session->reader);
	for (uint32_t chunk = 0; chunk < pool->shared->layout.n_chunks && code == TIDE_OK; chunk++)
		if (pool_chunk_active(pool, chunk))
			code = check_chunk(pool, chunk, &n_pages, why);
	tide_reader_leave(&session->reader);
	if (code == TIDE_OK)
		code = check_entries(pool, n_pages, why);
	if (code == TIDE_OK && !tide_lookup_valid(pool->lookup, why))
		code = TIDE_VERIFY_MISMATCH;
	if (code == TIDE_OK)
		code = check_slots(session, why);
	if (code == TIDE_OK)
		code = check_memory(pool, why);
	return code;
}
