/* SPDX-License-Identifier: PostgreSQL */
/*
 * bench-pool/source.h - a pool without a disk: pages are made up when they are read, writes are
 * forgotten. So the figures are those of the pool.
 */
#ifndef BENCH_POOL_SOURCE_H
#define BENCH_POOL_SOURCE_H

#include <tidepool/pool.h>

/* The number of a page lies in its first 8 bytes. */
struct tide_storage source_storage(uint32_t page_bytes);

/**
 * source_pool() - a pool on it
 *
 * @huge: 0 = base pages, 1 = huge pages or none at all
 * Return: the pool and a session, or NULL when this machine cannot have it now; ends the program on
 * other errors.
 */
struct tide_pool *source_pool(uint32_t page_bytes, uint64_t start_bytes, uint64_t max_bytes,
			      int huge, struct tide_session **session);

/* Fix and unfix pages 0 to @n_pages - 1, so that they are in the pool. */
void source_fill(struct tide_session *session, uint64_t n_pages);

/* Ends the program when @code is not 0. */
void source_must(int code, const struct tide_reason *why);

#endif /* BENCH_POOL_SOURCE_H */
