/* SPDX-License-Identifier: PostgreSQL */
/*
 * bench-pool/policy.h - replacement policies, each replaying a trace in a pool of so many buffers.
 *
 * Each returns how many references after trace.warm were hits: none in a pool of no buffers.
 */
#ifndef BENCH_POOL_POLICY_H
#define BENCH_POOL_POLICY_H

#include <stdint.h>

#include "bench-pool/trace.h"

uint64_t lru_hits(const struct trace *trace, uint32_t n_buffers);

/* As PostgreSQL: a usage count up to 5, 1 when loaded. */
uint64_t clock_hits(const struct trace *trace, uint32_t n_buffers);

/* As published: queues, a tenth of the pool small, as many ghosts as the main queue is long. */
uint64_t s3fifo_hits(const struct trace *trace, uint32_t n_buffers);

/* Drops what is used again last; nobody can do better who has to load every page. */
uint64_t optimum_hits(const struct trace *trace, uint32_t n_buffers);

/**
 * struct sweep_cost - what our policy does beside hits and misses
 * @evictions: pages dropped
 * @steps:     buffers that the hands came by
 * @hits:      all, also before trace.warm
 * @stores:    hits that changed the heat
 */
struct sweep_cost {
	uint64_t evictions, steps, hits, stores;
};

/* Ours (src/pool/replace.h, src/pool/ghost.h). @cost may be NULL. */
uint64_t sweep_hits(const struct trace *trace, uint32_t n_buffers, struct sweep_cost *cost);

#endif /* BENCH_POOL_POLICY_H */
