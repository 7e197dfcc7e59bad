/* SPDX-License-Identifier: PostgreSQL */
/* region.h - what a region is made of. */
#ifndef TIDE_MEMORY_REGION_H
#define TIDE_MEMORY_REGION_H

#include <tidepool/region.h>

/*
 * Process-local and inherited by fork as a copy: nothing in it changes once the region is reserved.
 * How much is committed is known to the kernel alone.
 */
struct tide_region {
	struct tide_region_info info;
	uint64_t map_bytes; /* info.max_bytes rounded up to 1 GiB: length of mapping and file */
	int fd;
	unsigned commit_threads;
	struct tide_numa numa;
	struct tide_machine machine; /* own copies of the strings */
};

/*
 * What the file system of a region's file still has room for: a hugetlbfs or tmpfs mount may have a
 * size. UINT64_MAX = no limit.
 */
uint64_t tide_region_room(const struct tide_region *region);

#endif /* TIDE_MEMORY_REGION_H */
