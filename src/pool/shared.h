/* SPDX-License-Identifier: PostgreSQL */
/*
 * pool/shared.h - the shared state of a pool, and a process's handle on it.
 */
#ifndef POOL_SHARED_H
#define POOL_SHARED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include <tidepool/grace.h>
#include <tidepool/lookup.h>
#include <tidepool/pool.h>

#include "pool/descriptor.h"
#include "pool/ghost.h"
#include "pool/layout.h"
#include "pool/slot.h"
#include "pool/unsynced.h"

#define SHARED_MAGIC 0x4c4f4f5045444954u /* "TIDEPOOL" */
#define SHARED_VERSION 1u

enum shared_hand {
	HAND_SMALL, /* replace.h */
	HAND_MAIN,
	HAND_COLD, /* looks for pages worth less than one that has to move */
	HANDS
};

/* At the beginning of the control part. Begins with magic, layout version and size. */
struct shared {
	uint64_t magic;
	uint32_t version;
	uint32_t unused;
	uint64_t bytes;			   /* of the region beside the pages */
	uint64_t pages_device, pages_file; /* which memfd holds the pages */
	struct layout layout;
	uint64_t min_bytes;
	struct ghost_head ghosts;

	_Alignas(64) _Atomic uint64_t hand[HANDS]; /* positions, counted up for ever */
	_Alignas(64) _Atomic uint32_t stamp;	   /* insertions; wraps */
	_Atomic int64_t n_small; /* small pages; an estimate, put right by the resizer */
	_Alignas(64) _Atomic int64_t n_free;   /* free buffers without a hint */
	_Alignas(64) _Atomic uint32_t n_reach; /* buffers of chunks up to the last in use */
	_Atomic uint32_t n_usable;	       /* buffers of chunks in use */
	_Atomic uint32_t n_arrays; /* the arrays are committed for a pool of so many buffers */
	_Alignas(64) _Atomic uint64_t torn_pages;
	_Atomic uint64_t dead_sessions;
	_Atomic uint64_t past[SLOT_COUNTERS]; /* counters of sessions that ended */

	_Alignas(64) pthread_mutex_t reap_lock;
	/* The resizer: whoever holds the lock. */
	_Alignas(64) pthread_mutex_t resize_lock;
	_Atomic uint32_t unsettled; /* a resizer is at work, or died at it */
	_Atomic uint32_t cancel;
	_Atomic uint64_t quiesce_ticket; /* grace period that memory waits for; 0 = none */

	_Alignas(64) struct unsynced unsynced;
};

/* A process's handle. Only set up and torn down; everything that changes is in shared memory. */
struct tide_pool {
	struct tide_region *beside, *pages;
	struct shared *shared;
	struct tide_grace *grace;
	struct tide_lookup *lookup;
	struct slot *slots;
	struct tide_chunk_table *chunks;
	_Atomic uint32_t *free_counts; /* free buffers without a hint, by chunk */
	struct descriptor *descriptors;
	struct ghosts ghosts;
	char *base; /* of the pages */
	struct tide_storage storage;
	uint32_t page_bytes;
	uint32_t page_shift;
	uint32_t chunk_shift; /* buffer >> chunk_shift = chunk */
	struct tide_machine machine;
};

static inline void *pool_page(const struct tide_pool *pool, uint32_t buffer)
{
	return pool->base + ((uint64_t)buffer << pool->page_shift);
}

static inline uint32_t pool_chunk(const struct tide_pool *pool, uint32_t buffer)
{
	return buffer >> pool->chunk_shift;
}

/* How many buffers a walk looks at in one step: @most, or those of a chunk. Steps lie within a chunk. */
static inline uint32_t pool_step(const struct tide_pool *pool, uint32_t most)
{
	const uint32_t n = pool->shared->layout.chunk_buffers;

	return n < most ? n : most;
}

/*
 * May buffers of the chunk be taken for pages? Acquire pairs with the engine's release of the state:
 * memory before use.
 */
static inline int pool_chunk_active(const struct tide_pool *pool, uint32_t chunk)
{
	return atomic_load_explicit(&pool->chunks->chunk[chunk].state, memory_order_acquire) ==
	       TIDE_CHUNK_ACTIVE;
}

/* Not retired, nor on the way from or to it. Stays so as long as the reap lock is held (reap.c). */
static inline int pool_chunk_has_memory(const struct tide_pool *pool, uint32_t chunk)
{
	const uint32_t state =
		atomic_load_explicit(&pool->chunks->chunk[chunk].state, memory_order_acquire);

	return state >= TIDE_CHUNK_ACTIVE && state <= TIDE_CHUNK_LINGERING;
}

/*
 * May its descriptors be read? Asked inside a read section, the answer holds until its end: the grace
 * period that memory waits for begins when the chunk is seen in a later state (host.c).
 */
static inline int pool_chunk_readable(const struct tide_pool *pool, uint32_t chunk)
{
	const uint32_t state =
		atomic_load_explicit(&pool->chunks->chunk[chunk].state, memory_order_acquire);

	return state >= TIDE_CHUNK_ACTIVE && state <= TIDE_CHUNK_DRAINING;
}

#endif /* POOL_SHARED_H */
