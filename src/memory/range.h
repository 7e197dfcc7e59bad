/* SPDX-License-Identifier: PostgreSQL */
/* range.h - lists of byte ranges, walked in pieces without memory of their own. */
#ifndef TIDE_MEMORY_RANGE_H
#define TIDE_MEMORY_RANGE_H

#include <tidepool/region.h>

/*
 * A walk over a list. Ranges that follow one another without a gap are taken as one, so that a list
 * of single pages costs no more system calls than one range.
 */
struct tide_range_walk {
	const struct tide_range *ranges;
	size_t n_ranges;
	size_t next;
	struct tide_range rest;
};

struct tide_range_walk tide_range_walk(const struct tide_range *ranges, size_t n_ranges);

/* The next piece, at most @piece_bytes long; 0 at the end. */
int tide_range_next(struct tide_range_walk *walk, uint64_t piece_bytes, struct tide_range *piece);

/* Sum of the lengths. */
uint64_t tide_range_total(const struct tide_range *ranges, size_t n_ranges);

/* 0, or TIDE_BAD_REQUEST: empty, unaligned, outside of @max_bytes, or over its predecessor. */
int tide_range_check(const struct tide_range *ranges, size_t n_ranges, uint64_t page_bytes,
		     uint64_t max_bytes, struct tide_reason *why);

#endif /* TIDE_MEMORY_RANGE_H */
