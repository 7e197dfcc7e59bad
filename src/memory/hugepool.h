/* SPDX-License-Identifier: PostgreSQL */
/* hugepool.h - the kernel's pool of explicit huge pages of one size. */
#ifndef TIDE_MEMORY_HUGEPOOL_H
#define TIDE_MEMORY_HUGEPOOL_H

#include <tidepool/region.h>

/* All counts in pages of the pool. */
struct tide_hugepool {
	uint64_t total;
	uint64_t free;
	uint64_t reserved;   /* of the free ones, promised to mappings that reserve */
	uint64_t surplus;    /* of the total, taken from the machine on demand */
	uint64_t overcommit; /* how many may be surplus */
};

/* 0 or -errno: -ENOENT when this kernel has no huge pages of that size. */
int tide_hugepool_read(const struct tide_machine *machine, uint64_t page_bytes,
		       struct tide_hugepool *out);

/* Pages that can be had from the pool itself. */
uint64_t tide_hugepool_unreserved(const struct tide_hugepool *pool);

/* Pages that may still be taken from the machine. */
uint64_t tide_hugepool_surplus_room(const struct tide_hugepool *pool);

/* The file of the pool with that name, as a path. */
int tide_hugepool_path(char *path, const struct tide_machine *machine, uint64_t page_bytes,
		       const char *file);

#endif /* TIDE_MEMORY_HUGEPOOL_H */
