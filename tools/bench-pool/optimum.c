/* SPDX-License-Identifier: PostgreSQL */
/*
 * bench-pool/optimum.c - the offline optimum: drop the page whose next use is furthest away.
 *
 * A heap of next uses with the latest on top. An entry whose page was used since is stale; it lies
 * in the past then, below everything that counts.
 */
#include <stdlib.h>

#include "bench-pool/policy.h"

#define NEVER UINT32_MAX

/* For each reference the next one to the same page. */
static uint32_t *next_uses(const struct trace *trace)
{
	uint32_t *next = trace_alloc(trace->n, sizeof(*next));
	uint32_t *seen = trace_alloc(trace->n_pages, sizeof(*seen));

	for (uint32_t page = 0; page < trace->n_pages; page++)
		seen[page] = NEVER;
	for (uint32_t i = trace->n; i-- > 0;) {
		next[i] = seen[trace->pages[i]];
		seen[trace->pages[i]] = i;
	}
	free(seen);
	return next;
}

struct entry {
	uint32_t next_use, page;
};

struct heap {
	struct entry *entries;
	uint32_t n;
};

static void heap_push(struct heap *heap, struct entry entry)
{
	uint32_t at = heap->n++;

	while (at > 0 && heap->entries[(at - 1) / 2].next_use < entry.next_use) {
		heap->entries[at] = heap->entries[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	heap->entries[at] = entry;
}

static struct entry heap_pop(struct heap *heap)
{
	struct entry top = heap->entries[0];
	struct entry last = heap->entries[--heap->n];
	uint32_t at = 0;

	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child >= heap->n)
			break;
		if (child + 1 < heap->n &&
		    heap->entries[child + 1].next_use > heap->entries[child].next_use)
			child++;
		if (heap->entries[child].next_use <= last.next_use)
			break;
		heap->entries[at] = heap->entries[child];
		at = child;
	}
	heap->entries[at] = last;
	return top;
}

uint64_t optimum_hits(const struct trace *trace, uint32_t n_buffers)
{
	if (n_buffers == 0)
		return 0;

	uint32_t *next = next_uses(trace);
	uint8_t *cached = trace_alloc(trace->n_pages, 1);
	struct heap heap = {.entries = trace_alloc(trace->n, sizeof(struct entry))};
	uint32_t n_cached = 0;
	uint64_t hits = 0;

	for (uint32_t i = 0; i < trace->n; i++) {
		uint32_t page = trace->pages[i];

		if (cached[page]) {
			hits += i >= trace->warm;
		} else if (n_cached < n_buffers) {
			n_cached++;
		} else {
			cached[heap_pop(&heap).page] = 0;
		}
		cached[page] = 1;
		heap_push(&heap, (struct entry){.next_use = next[i], .page = page});
	}
	free(next);
	free(cached);
	free(heap.entries);
	return hits;
}
