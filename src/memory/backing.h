/* SPDX-License-Identifier: PostgreSQL */
/* backing.h - which pages a region gets, and the file that holds them. */
#ifndef TIDE_MEMORY_BACKING_H
#define TIDE_MEMORY_BACKING_H

#include "memory/region.h"

/*
 * Decide by policy, preflight and what the kernel offers, and open the file: sets region->fd and,
 * in region->info, backing, page_bytes, fell_back and fallback.
 *
 * Return: 0 or the codes of tide_region_reserve(); on error no file is open.
 */
int tide_backing_open(struct tide_region *region, const struct tide_region_config *config,
		      uint64_t start_bytes, struct tide_reason *why);

#endif /* TIDE_MEMORY_BACKING_H */
