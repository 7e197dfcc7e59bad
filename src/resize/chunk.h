/* SPDX-License-Identifier: PostgreSQL */
/*
 * resize/chunk.h - access to the states in a chunk table.
 *
 * Only the engine stores states. What a state promises to a process that reads it, and to an engine
 * that finds it after a crash:
 *
 *   committing            memory may or may not be there, no buffer is usable: may be decommitted
 *   fenced .. quiescing   memory is there, buffers may or may not be usable: may be published
 *   lingering             memory is there, no buffer is usable, nobody looks: may do either
 *   releasing             memory may or may not be there, nobody looks: may be decommitted
 *
 * Therefore a chunk whose memory has been committed and verified is stored as fenced before its
 * publication begins, and so is one that lingered: a crash in the middle of publish then leaves a
 * state from which it is published again, never one from which memory is taken away under buffers
 * that are usable already.
 */
#ifndef RESIZE_CHUNK_H
#define RESIZE_CHUNK_H

#include <tidepool/resize.h>

static inline enum tide_chunk_state chunk_load(const struct tide_chunk_table *table, uint32_t i)
{
	/* (A) pairs with (B): who sees a state sees what was done to the chunk before it. */
	return (enum tide_chunk_state)atomic_load_explicit(&table->chunk[i].state,
							   memory_order_acquire);
}

static inline uint64_t chunk_since(const struct tide_chunk_table *table, uint32_t i)
{
	return atomic_load_explicit(&table->chunk[i].since_ns, memory_order_relaxed);
}

static inline void chunk_store(struct tide_chunk_table *table, uint32_t i,
			       enum tide_chunk_state state, uint64_t now_ns)
{
	atomic_store_explicit(&table->chunk[i].since_ns, now_ns, memory_order_relaxed);
	/* (B) pairs with (A) */
	atomic_store_explicit(&table->chunk[i].state, (uint32_t)state, memory_order_release);
}

/* Memory is there and the buffers may be usable: the states that publish leads out of. */
static inline int chunk_may_publish(enum tide_chunk_state state)
{
	return state == TIDE_CHUNK_FENCED || state == TIDE_CHUNK_DRAINING ||
	       state == TIDE_CHUNK_QUIESCING;
}

/* Memory may be there and nobody may look at it: the states that decommit leads out of. */
static inline int chunk_may_decommit(enum tide_chunk_state state)
{
	return state == TIDE_CHUNK_COMMITTING || state == TIDE_CHUNK_RELEASING;
}

#endif /* RESIZE_CHUNK_H */
