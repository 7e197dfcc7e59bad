/* SPDX-License-Identifier: PostgreSQL */
/*
 * pool/ghost.h - ghost entries: which pages were dropped not long ago.
 *
 * A table of buckets, one cache line each, of hash and stamp; its memory follows the current size of
 * the pool, bucket by bucket, as that of the lookup table does. Entries are hints: they are read and
 * written without a lock, and one that is lost costs a page its second chance. A bucket that is full
 * forgets its oldest entry.
 */
#ifndef POOL_GHOST_H
#define POOL_GHOST_H

#include <stdatomic.h>
#include <stdint.h>

/* In shared memory: how many buckets are in use. Zeroed memory is a valid start. */
struct ghost_head {
	_Atomic uint64_t n_buckets;
};

/* Where the ghosts lie in this process. */
struct ghosts {
	struct ghost_head *head;
	_Atomic uint64_t
		*entries; /* 8 to a bucket; committed as far as ghost_bytes() of the size */
};

/** ghost_bytes() - memory for a pool of @n_buffers; monotone, a multiple of 64 */
uint64_t ghost_bytes(uint32_t n_buffers);

/**
 * ghost_resize() - use as many buckets as ghost_bytes(@n_buffers) hold; O(1)
 *
 * Memory for both sizes is committed. Others may look at the old end for one more grace period.
 * Buckets that come into use are empty: their memory is zero.
 */
void ghost_resize(struct ghosts *ghosts, uint32_t n_buffers);

/** ghost_add() - the page with @hash was dropped; @stamp: number of insertions so far (wraps) */
void ghost_add(struct ghosts *ghosts, uint64_t hash, uint32_t stamp);

/** ghost_take() - was it dropped within the last @reach insertions? It is no ghost any more then. */
int ghost_take(struct ghosts *ghosts, uint64_t hash, uint32_t stamp, uint32_t reach);

#endif /* POOL_GHOST_H */
