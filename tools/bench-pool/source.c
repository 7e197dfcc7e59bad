/* SPDX-License-Identifier: PostgreSQL */
/*
 * bench-pool/source.c - a pool without a disk.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench-pool/source.h"

static uint32_t source_page_bytes;

/* Every line of the page is stored to, as a read would. */
static int transfer(void *self, struct tide_io *ios, uint32_t n, struct tide_reason *why)
{
	const uint32_t bytes = *(const uint32_t *)self;

	(void)why;
	for (uint32_t i = 0; i < n; i++) {
		if (!ios[i].write) {
			memset(ios[i].page, 0, bytes);
			memcpy(ios[i].page, &ios[i].id.page, sizeof(ios[i].id.page));
		}
		ios[i].code = TIDE_OK;
	}
	return TIDE_OK;
}

static int sync_nothing(void *self, uint64_t file, struct tide_reason *why)
{
	(void)self;
	(void)file;
	(void)why;
	return TIDE_OK;
}

struct tide_storage source_storage(uint32_t page_bytes)
{
	static const struct tide_storage_ops ops = {.transfer = transfer, .sync = sync_nothing};

	source_page_bytes = page_bytes;
	return (struct tide_storage){.ops = &ops, .self = &source_page_bytes};
}

void source_must(int code, const struct tide_reason *why)
{
	if (code == TIDE_OK)
		return;
	fprintf(stderr, "bench-pool: %s: %s %s\n", tide_code_name(code), why->message, why->hint);
	exit(1);
}

struct tide_pool *source_pool(uint32_t page_bytes, uint64_t start_bytes, uint64_t max_bytes,
			      int huge, struct tide_session **session)
{
	const struct tide_pool_config config = {.name = "bench-pool",
						.page_bytes = page_bytes,
						.max_bytes = max_bytes,
						.start_bytes = start_bytes,
						.huge = huge ? TIDE_HUGE_ON : TIDE_HUGE_OFF,
						.storage = source_storage(page_bytes)};
	struct tide_reason why = {0};
	struct tide_pool *pool;
	int code = tide_pool_create(&config, &pool, &why);

	if (code == TIDE_NOT_ENOUGH_MEMORY || code == TIDE_HUGEPAGES_SHORT ||
	    code == TIDE_HUGEPAGES_UNAVAILABLE) {
		fprintf(stderr, "bench-pool: no pool of %" PRIu64 " MiB %s: %s\n",
			start_bytes >> 20, huge ? "on huge pages" : "", why.message);
		return NULL;
	}
	source_must(code, &why);
	source_must(tide_session_open(pool, session, &why), &why);
	return pool;
}

void source_fill(struct tide_session *session, uint64_t n_pages)
{
	struct tide_reason why = {0};
	struct tide_fix fix;

	for (uint64_t page = 0; page < n_pages; page++) {
		const struct tide_page_id id = {.file = 1, .page = page};

		source_must(tide_pool_fix(session, &id, TIDE_FIX_PIN, &fix, &why), &why);
		tide_pool_unfix(session, &fix);
	}
}
