/* SPDX-License-Identifier: PostgreSQL */
/*
 * pool/arrays.h - memory beside the pages: committed as far as the chunks in use need it.
 *
 * Only the resizer calls these, and the creator before anybody else.
 */
#ifndef POOL_ARRAYS_H
#define POOL_ARRAYS_H

#include "pool/shared.h"

/** arrays_backed() - buffers of all chunks that are not retired or about to be */
uint32_t arrays_backed(const struct tide_pool *pool);

/**
 * arrays_commit() - descriptors of these chunks, ascending, and the arrays for @n_buffers
 *
 * All or nothing, as tide_region_commit().
 */
int arrays_commit(struct tide_pool *pool, const uint32_t *chunks, uint32_t n, uint32_t n_buffers,
		  struct tide_reason *why);

/** arrays_release_descriptors() - of these chunks, unless others lie in the same backing page */
int arrays_release_descriptors(struct tide_pool *pool, const uint32_t *chunks, uint32_t n,
			       struct tide_reason *why);

/** arrays_trim() - give back what the arrays do not need for @n_buffers; nobody looks there any more */
int arrays_trim(struct tide_pool *pool, uint32_t n_buffers, struct tide_reason *why);

/** arrays_settle() - make the kernel's state that of the chunk table and of n_arrays, after a death */
int arrays_settle(struct tide_pool *pool, struct tide_reason *why);

#endif /* POOL_ARRAYS_H */
