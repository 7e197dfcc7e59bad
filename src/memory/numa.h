/* SPDX-License-Identifier: PostgreSQL */
/* numa.h - placement of committed pages on NUMA nodes. */
#ifndef TIDE_MEMORY_NUMA_H
#define TIDE_MEMORY_NUMA_H

#include <tidepool/region.h>

/* 0 or TIDE_BAD_REQUEST: unknown mode, a list that does not parse, a node that is not there. */
int tide_numa_check(const struct tide_numa *numa, struct tide_reason *why);

/*
 * Apply the placement to a whole mapping, before anything in it is committed.
 *
 * The policy of a hugetlb mapping belongs to the mapping: it is copied by fork, holds for every
 * thread, and splits the mapping where it differs. That of shmem belongs to the file. Set once on
 * the whole mapping before any other process exists, both come to the same and there is one
 * mapping.
 *
 * Return: 0, TIDE_BAD_REQUEST or TIDE_SYSTEM_ERROR.
 */
int tide_numa_apply(const struct tide_numa *numa, void *address, uint64_t bytes,
		    struct tide_reason *why);

/*
 * fallocate on the file of a mapping with this placement: like any call that names a file and no
 * address it follows the policy of the thread where the file has none, so that is set meanwhile.
 *
 * Return: 0 or -errno.
 */
int tide_numa_fallocate(const struct tide_numa *numa, int fd, uint64_t offset, uint64_t bytes);

/*
 * What the nodes that pages are bound to can still give, in bytes; UINT64_MAX when pages may come
 * from any node. Huge pages: free in the pools of these nodes. Others: free memory, and half of the
 * page cache.
 */
uint64_t tide_numa_left(const struct tide_numa *numa, const struct tide_machine *machine,
			enum tide_backing backing, uint64_t page_bytes);

#endif /* TIDE_MEMORY_NUMA_H */
