/* SPDX-License-Identifier: PostgreSQL */
/*
 * bench-pool/s3fifo.c - S3-FIFO as it was published, with queues.
 *
 * A tenth of the buffers is for new pages. One that was used twice there goes to the main queue,
 * another leaves a ghost; a page with a ghost enters the main queue. A main page goes round once more
 * for every use since, at most three.
 */
#include <stdlib.h>

#include "bench-pool/policy.h"

#define USES_MAX 3u
#define PROMOTE 2u

struct queue {
	uint32_t *pages;
	uint32_t size, first, n;
};

enum place {
	OUT,
	IN
};

struct s3fifo {
	struct queue small, main;
	uint8_t *place, *uses;
	uint64_t *ghost; /* when the page became one; 0 = it is none */
	uint64_t n_ghosts;
};

static void push(struct queue *queue, uint32_t page)
{
	queue->pages[(queue->first + queue->n++) % queue->size] = page;
}

static uint32_t pop(struct queue *queue)
{
	uint32_t page = queue->pages[queue->first];

	queue->first = (queue->first + 1) % queue->size;
	queue->n--;
	return page;
}

static int evict_small(struct s3fifo *s)
{
	while (s->small.n > 0) {
		uint32_t page = pop(&s->small);

		if (s->uses[page] < PROMOTE) {
			s->place[page] = OUT;
			s->ghost[page] = ++s->n_ghosts;
			return 1;
		}
		s->uses[page] = 0;
		push(&s->main, page);
	}
	return 0;
}

static void evict_main(struct s3fifo *s)
{
	for (;;) {
		uint32_t page = pop(&s->main);

		if (s->uses[page] == 0) {
			s->place[page] = OUT;
			return;
		}
		s->uses[page]--;
		push(&s->main, page);
	}
}

static void load(struct s3fifo *s, uint32_t page, uint32_t n_buffers)
{
	uint32_t small_share = n_buffers / 10 > 0 ? n_buffers / 10 : 1;
	uint32_t main_share = n_buffers - small_share;
	int known = s->ghost[page] != 0 && s->n_ghosts - s->ghost[page] < main_share;

	if (s->small.n + s->main.n == n_buffers)
		if (s->main.n > main_share || !evict_small(s))
			evict_main(s);
	s->ghost[page] = 0;
	s->uses[page] = 0;
	s->place[page] = IN;
	push(known ? &s->main : &s->small, page);
}

uint64_t s3fifo_hits(const struct trace *trace, uint32_t n_buffers)
{
	if (n_buffers == 0)
		return 0;

	struct s3fifo s = {.small = {.size = n_buffers}, .main = {.size = n_buffers}};
	uint64_t hits = 0;

	s.small.pages = trace_alloc(n_buffers, sizeof(uint32_t));
	s.main.pages = trace_alloc(n_buffers, sizeof(uint32_t));
	s.place = trace_alloc(trace->n_pages, 1);
	s.uses = trace_alloc(trace->n_pages, 1);
	s.ghost = trace_alloc(trace->n_pages, sizeof(*s.ghost));
	for (uint32_t i = 0; i < trace->n; i++) {
		uint32_t page = trace->pages[i];

		if (s.place[page] == OUT) {
			load(&s, page, n_buffers);
			continue;
		}
		hits += i >= trace->warm;
		if (s.uses[page] < USES_MAX)
			s.uses[page]++;
	}
	free(s.small.pages);
	free(s.main.pages);
	free(s.place);
	free(s.uses);
	free(s.ghost);
	return hits;
}
