/* SPDX-License-Identifier: PostgreSQL */
/*
 * bench-pool/keep.h - how well heat orders pages for a shrink.
 */
#ifndef BENCH_POOL_KEEP_H
#define BENCH_POOL_KEEP_H

#include <stdint.h>

/**
 * struct keep_result - hit ratios in percent, from the chances of the pages kept
 * @best:   the most frequent quarter of the pages, known beforehand
 * @counts: the quarter with the most hits; what an exact counter would give
 * @kept:   the quarter worth most by replace_worth()
 * @hot_hits, @hot_stores: of pages with more than 1,000 hits, and of these those that changed the heat
 */
struct keep_result {
	double best, counts, kept;
	uint64_t hot_hits, hot_stores;
};

/*
 * A pool that holds all of @n_pages, used @accesses times for each under zipf 0.99. Every
 * access is a hit, so no hand moves.
 */
struct keep_result keep_quarter(uint32_t n_pages, uint32_t accesses);

#endif /* BENCH_POOL_KEEP_H */
