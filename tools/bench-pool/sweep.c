/* SPDX-License-Identifier: PostgreSQL */
/*
 * bench-pool/sweep.c - our policy, with the rules and ghosts of the pool: two hands that sweep over the
 * buffers. One session, which looks for one victim at a time; the pool takes several.
 */
#include <stdlib.h>

#include "bench-pool/policy.h"
#include "pool/ghost.h"
#include "pool/replace.h"

#define NOWHERE UINT32_MAX

struct sweep {
	struct replace_page *buffers;
	uint32_t *page_of;   /* by buffer */
	uint32_t *buffer_of; /* by page */
	uint32_t n_buffers, n_used, n_small;
	uint32_t hands[2]; /* by enum replace_queue */
	uint32_t insertions, tick;
	struct replace_recent recent; /* one session */
	struct ghost_head ghost_head;
	struct ghosts ghosts;
	struct sweep_cost cost;
};

static uint64_t hash_of(uint32_t page)
{
	uint64_t state = page;

	return trace_random(&state);
}

static enum replace_verdict judge(struct sweep *s, struct replace_page *page)
{
	enum replace_verdict verdict;

	if (page->queue == REPLACE_MAIN)
		return replace_main(page);
	verdict = replace_small(page, s->insertions, s->n_buffers);
	s->n_small -= page->queue == REPLACE_MAIN;
	return verdict;
}

/* A victim of one queue, or NOWHERE after a full turn. */
static uint32_t turn(struct sweep *s, enum replace_queue queue)
{
	for (uint32_t left = s->n_buffers; left > 0; left--) {
		uint32_t buffer = s->hands[queue];

		s->hands[queue] = (buffer + 1) % s->n_buffers;
		s->cost.steps++;
		if (s->buffers[buffer].queue == queue &&
		    judge(s, &s->buffers[buffer]) == REPLACE_EVICT)
			return buffer;
	}
	return NOWHERE;
}

/* The main hand may have to come by several times before a page is cold. */
static uint32_t find_victim(struct sweep *s, int ghost)
{
	int small_first = replace_takes_small(s->n_small, s->n_buffers, ghost);
	uint32_t buffer = turn(s, small_first ? REPLACE_SMALL : REPLACE_MAIN);

	while (buffer == NOWHERE) {
		small_first = !small_first;
		buffer = turn(s, small_first ? REPLACE_SMALL : REPLACE_MAIN);
	}
	return buffer;
}

static uint32_t evict(struct sweep *s, int ghost)
{
	uint32_t buffer = find_victim(s, ghost);
	uint32_t page = s->page_of[buffer];

	s->n_small -= s->buffers[buffer].queue == REPLACE_SMALL;
	s->buffer_of[page] = NOWHERE;
	s->cost.evictions++;
	if (replace_leaves_ghost(&s->buffers[buffer]))
		ghost_add(&s->ghosts, hash_of(page), s->insertions);
	return buffer;
}

static void load(struct sweep *s, uint32_t page)
{
	int ghost =
		ghost_take(&s->ghosts, hash_of(page), s->insertions, replace_reach(s->n_buffers));
	uint32_t buffer = s->n_used < s->n_buffers ? s->n_used++ : evict(s, ghost);

	replace_recent(&s->recent, buffer);
	s->buffers[buffer] = replace_new(ghost, s->insertions++);
	s->n_small += s->buffers[buffer].queue == REPLACE_SMALL;
	s->page_of[buffer] = page;
	s->buffer_of[page] = buffer;
}

static void hit(struct sweep *s, uint32_t buffer)
{
	struct replace_page *page = &s->buffers[buffer];
	uint8_t heat;

	s->cost.hits++;
	if (replace_recent(&s->recent, buffer))
		return;
	heat = replace_hit(page->heat, s->tick++);
	s->cost.stores += heat != page->heat;
	page->heat = heat;
}

uint64_t sweep_hits(const struct trace *trace, uint32_t n_buffers, struct sweep_cost *cost)
{
	if (n_buffers == 0)
		return 0;

	struct sweep s = {.n_buffers = n_buffers};
	uint64_t hits = 0;

	s.buffers = trace_alloc(n_buffers, sizeof(*s.buffers));
	s.page_of = trace_alloc(n_buffers, sizeof(*s.page_of));
	s.buffer_of = trace_alloc(trace->n_pages, sizeof(*s.buffer_of));
	s.recent = REPLACE_RECENT_NONE;
	s.ghosts.head = &s.ghost_head;
	s.ghosts.entries = trace_alloc(ghost_bytes(n_buffers), 1);
	ghost_resize(&s.ghosts, n_buffers);
	for (uint32_t page = 0; page < trace->n_pages; page++)
		s.buffer_of[page] = NOWHERE;
	for (uint32_t i = 0; i < trace->n; i++) {
		uint32_t buffer = s.buffer_of[trace->pages[i]];

		if (buffer == NOWHERE) {
			load(&s, trace->pages[i]);
			continue;
		}
		hits += i >= trace->warm;
		hit(&s, buffer);
	}
	if (cost != NULL)
		*cost = s.cost;
	free(s.buffers);
	free(s.page_of);
	free(s.buffer_of);
	free(s.ghosts.entries);
	return hits;
}
