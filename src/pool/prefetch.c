/* SPDX-License-Identifier: PostgreSQL */
/* prefetch.c - loading pages before they are wanted, several transfers at a time. */
#include "pool/load.h"

#define BATCH 16u

_Static_assert(BATCH <= TIDE_IO_BATCH, "one transfer takes a batch");

struct batch {
	uint32_t n;
	struct load load[BATCH];
	struct tide_io io[BATCH];
};

static int is_resident(struct tide_session *session, const struct tide_page_id *id, uint64_t hash)
{
	uint32_t buffer;

	tide_reader_enter(&session->reader);
	buffer = tide_lookup_find(session->pool->lookup, id, hash);
	tide_reader_leave(&session->reader);
	return buffer != TIDE_LOOKUP_NONE;
}

/* Return: 0, or a negative code when no buffer is to be had. */
static int add(struct tide_session *session, struct batch *batch, const struct tide_page_id *id)
{
	struct tide_pool *pool = session->pool;
	const uint64_t hash = tide_lookup_hash(pool->lookup, id);
	struct load *load = &batch->load[batch->n];
	int code;

	if (id->file == TIDE_ALL_FILES || id->page == TIDE_ALL_PAGES ||
	    is_resident(session, id, hash))
		return TIDE_OK;
	code = load_begin(session, id, hash, load, NULL);
	if (code <= 0)
		return code;
	batch->io[batch->n] = (struct tide_io){.id = *id, .page = pool_page(pool, load->buffer)};
	batch->n++;
	return TIDE_OK;
}

/* Return: how many could be read. */
static uint32_t transfer(struct tide_session *session, struct batch *batch)
{
	const struct tide_storage *storage = &session->pool->storage;
	uint32_t n = 0;

	if (batch->n == 0)
		return 0;
	(void)storage->ops->transfer(storage->self, batch->io, batch->n, NULL);
	for (uint32_t i = 0; i < batch->n; i++) {
		if (batch->io[i].code == TIDE_OK) {
			load_end(session, &batch->load[i], 0);
			n++;
		} else {
			load_fail(session, &batch->load[i]);
		}
	}
	session_count(session, SLOT_READ, n);
	return n;
}

uint32_t tide_pool_prefetch(struct tide_session *session, const struct tide_page_id *ids,
			    uint32_t n)
{
	struct batch batch;
	uint32_t loaded = 0;
	int code = TIDE_OK;

	for (uint32_t i = 0; i < n && code == TIDE_OK;) {
		batch.n = 0;
		for (; i < n && batch.n < BATCH && code == TIDE_OK; i++)
			code = add(session, &batch, &ids[i]);
		loaded += transfer(session, &batch);
	}
	return loaded;
}
