/* SPDX-License-Identifier: PostgreSQL */
/*
 * bench-pool/lru.c - least recently used.
 */
#include <stdlib.h>

#include "bench-pool/policy.h"

/* A ring through @head: @next of it is the page used last. */
struct ring {
	uint32_t *next, *previous;
	uint32_t head;
};

static void unlink_page(struct ring *ring, uint32_t page)
{
	ring->next[ring->previous[page]] = ring->next[page];
	ring->previous[ring->next[page]] = ring->previous[page];
}

static void link_first(struct ring *ring, uint32_t page)
{
	uint32_t second = ring->next[ring->head];

	ring->next[page] = second;
	ring->previous[page] = ring->head;
	ring->previous[second] = page;
	ring->next[ring->head] = page;
}

uint64_t lru_hits(const struct trace *trace, uint32_t n_buffers)
{
	if (n_buffers == 0)
		return 0;

	struct ring ring = {.next = trace_alloc(trace->n_pages + 1, sizeof(uint32_t)),
			    .previous = trace_alloc(trace->n_pages + 1, sizeof(uint32_t)),
			    .head = trace->n_pages};
	uint8_t *cached = trace_alloc(trace->n_pages, 1);
	uint32_t n_cached = 0;
	uint64_t hits = 0;

	ring.next[ring.head] = ring.previous[ring.head] = ring.head;
	for (uint32_t i = 0; i < trace->n; i++) {
		uint32_t page = trace->pages[i];

		if (cached[page]) {
			hits += i >= trace->warm;
			unlink_page(&ring, page);
		} else if (n_cached < n_buffers) {
			n_cached++;
		} else {
			uint32_t victim = ring.previous[ring.head];

			cached[victim] = 0;
			unlink_page(&ring, victim);
		}
		cached[page] = 1;
		link_first(&ring, page);
	}
	free(ring.next);
	free(ring.previous);
	free(cached);
	return hits;
}
