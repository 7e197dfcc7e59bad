/* SPDX-License-Identifier: PostgreSQL */
/*
 * resize/ring.c - the candidates of a shrink: best first, those tried in vain at the end.
 */
#include "resize/machine.h"

#include <assert.h>

void ring_clear(struct plan_ring *ring)
{
	ring->head = 0;
	ring->n = 0;
	ring->untried = 0;
}

uint32_t ring_pop(struct plan_ring *ring)
{
	assert(ring->n > 0);

	uint32_t chunk = ring->chunks[ring->head];

	ring->head = ring->head + 1 == ring->capacity ? 0 : ring->head + 1;
	ring->n--;
	if (ring->untried > 0)
		ring->untried--;
	return chunk;
}

void ring_return(struct plan_ring *ring, uint32_t chunk)
{
	assert(ring->n < ring->capacity);
	ring->chunks[((uint64_t)ring->head + ring->n) % ring->capacity] = chunk;
	ring->n++;
}
