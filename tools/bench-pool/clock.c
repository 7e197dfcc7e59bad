/* SPDX-License-Identifier: PostgreSQL */
/*
 * bench-pool/clock.c - the clock with usage counts of PostgreSQL, without its rings for scans.
 */
#include <stdlib.h>

#include "bench-pool/policy.h"

#define USAGE_MAX 5u
#define NOWHERE UINT32_MAX

uint64_t clock_hits(const struct trace *trace, uint32_t n_buffers)
{
	if (n_buffers == 0)
		return 0;

	uint32_t *buffer_of = trace_alloc(trace->n_pages, sizeof(*buffer_of));
	uint32_t *page_of = trace_alloc(n_buffers, sizeof(*page_of));
	uint8_t *usage = trace_alloc(n_buffers, sizeof(*usage));
	uint32_t n_cached = 0, hand = 0;
	uint64_t hits = 0;

	for (uint32_t page = 0; page < trace->n_pages; page++)
		buffer_of[page] = NOWHERE;
	for (uint32_t i = 0; i < trace->n; i++) {
		uint32_t page = trace->pages[i];
		uint32_t buffer = buffer_of[page];

		if (buffer != NOWHERE) {
			hits += i >= trace->warm;
			if (usage[buffer] < USAGE_MAX)
				usage[buffer]++;
			continue;
		}
		if (n_cached < n_buffers) {
			buffer = n_cached++;
		} else {
			while (usage[hand] > 0) {
				usage[hand]--;
				hand = (hand + 1) % n_buffers;
			}
			buffer = hand;
			hand = (hand + 1) % n_buffers;
			buffer_of[page_of[buffer]] = NOWHERE;
		}
		buffer_of[page] = buffer;
		page_of[buffer] = page;
		usage[buffer] = 1;
	}
	free(buffer_of);
	free(page_of);
	free(usage);
	return hits;
}
