/* SPDX-License-Identifier: PostgreSQL */
/*
 * bench-pool/keep.c - what a shrink to a quarter keeps of a pool that held everything.
 */
#include "bench-pool/keep.h"

#include <stdlib.h>

#include "bench-pool/trace.h"
#include "pool/replace.h"

#define SKEW 0.99
#define HOT 1000u

/* Chance in percent that an access goes to one of the first @n pages. */
static double hit_percent(const double *sums, uint32_t n_pages, uint32_t n)
{
	return n > 0 ? 100 * sums[n - 1] / sums[n_pages - 1] : 0;
}

/*
 * The @n pages with the highest @worths, all below @n_worths. Of equal ones any: they are taken
 * in an order that has nothing to do with their chances.
 */
static double worth_most(const double *sums, uint32_t n_pages, uint32_t n, const uint32_t *worths,
			 uint32_t n_worths)
{
	uint32_t *counts = trace_alloc(n_worths, sizeof(*counts));
	uint32_t lowest = n_worths, above = 0;
	uint64_t state = 3;
	double sum = 0;

	for (uint32_t i = 0; i < n_pages; i++)
		counts[worths[i]]++;
	while (above + counts[lowest - 1] < n)
		above += counts[--lowest];
	lowest--;

	uint32_t left = counts[lowest], wanted = n - above;

	for (uint32_t i = 0; i < n_pages; i++) {
		int keep = worths[i] > lowest;

		if (worths[i] == lowest) {
			keep = trace_random(&state) % left-- < wanted;
			wanted -= (uint32_t)keep;
		}
		if (keep)
			sum += hit_percent(sums, n_pages, i + 1) - hit_percent(sums, n_pages, i);
	}
	free(counts);
	return sum;
}

struct keep_result keep_quarter(uint32_t n_pages, uint32_t accesses)
{
	double *sums = trace_zipf_sums(n_pages, SKEW);
	uint32_t *hits = trace_alloc(n_pages, sizeof(*hits));
	uint32_t *stores = trace_alloc(n_pages, sizeof(*stores));
	struct replace_page *pages = trace_alloc(n_pages, sizeof(*pages));
	struct keep_result result = {.best = hit_percent(sums, n_pages, n_pages / 4)};
	uint32_t most = 0, tick = 0;
	uint64_t state = 4;

	for (uint32_t i = 0; i < n_pages; i++)
		pages[i] = replace_new(0, i);
	for (uint64_t i = 0; i < (uint64_t)n_pages * accesses; i++) {
		uint32_t page = trace_zipf_draw(sums, n_pages, &state);
		uint8_t heat = replace_hit(pages[page].heat, tick++);

		hits[page]++;
		stores[page] += heat != pages[page].heat;
		pages[page].heat = heat;
	}
	for (uint32_t i = 0; i < n_pages; i++) {
		most = hits[i] > most ? hits[i] : most;
		if (hits[i] > HOT) {
			result.hot_hits += hits[i];
			result.hot_stores += stores[i];
		}
		stores[i] = replace_worth(&pages[i]);
	}
	result.kept = worth_most(sums, n_pages, n_pages / 4, stores, REPLACE_WORTHS);
	result.counts = worth_most(sums, n_pages, n_pages / 4, hits, most + 1);
	free(sums);
	free(hits);
	free(stores);
	free(pages);
	return result;
}
