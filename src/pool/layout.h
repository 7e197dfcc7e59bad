/* SPDX-License-Identifier: PostgreSQL */
/*
 * pool/layout.h - what lies where in the memory beside the pages.
 *
 *   control   header, participants, slots, head of the lookup table, chunk table, free counts:
 *             always committed
 *   descriptors, buckets, overflow buckets, ghosts: arrays that are committed as far as needed
 *
 * The parts are aligned to the backing page, so that each is committed on its own.
 */
#ifndef POOL_LAYOUT_H
#define POOL_LAYOUT_H

#include <stdint.h>

#include <tidepool/pool.h>

#define POOL_MAX_CHUNKS 32768u
#define LAYOUT_MAX_BUFFERS UINT64_C(0x7fffffff)
#define POOL_MIN_CHUNK_BYTES (UINT64_C(2) << 20)

enum layout_part {
	LAYOUT_DESCRIPTORS,
	LAYOUT_BUCKETS,
	LAYOUT_OVERFLOW,
	LAYOUT_GHOSTS,
	LAYOUT_PARTS
};

/* In the header; computed by the creator, read by everybody. Offsets and sizes in bytes. */
struct layout {
	uint64_t chunk_bytes;
	uint64_t max_bytes; /* of pages */
	uint32_t page_bytes;
	uint32_t n_chunks;
	uint32_t chunk_buffers; /* buffers of one chunk: a power of two */
	uint32_t n_buffers;	/* of address space */
	uint32_t max_sessions;
	uint32_t unused;
	uint64_t unit; /* alignment of the parts: backing page of the memory beside the pages */
	uint64_t grace, slots, lookup, chunks, free_counts; /* in the control part */
	uint64_t control_bytes;
	uint64_t part[LAYOUT_PARTS];	   /* where the arrays begin */
	uint64_t part_bytes[LAYOUT_PARTS]; /* for the ceiling */
	uint64_t beside_bytes;		   /* all of it */
};

/**
 * layout_plan() - for a configuration whose numbers are in range
 *
 * @page_unit, @unit: backing pages of the pages and of the memory beside them
 */
void layout_plan(const struct tide_pool_config *config, uint64_t page_unit, uint64_t unit,
		 struct layout *out);

/** layout_array_bytes() - bytes of an array for a pool of @n_buffers; not of the descriptors */
uint64_t layout_array_bytes(enum layout_part part, uint32_t n_buffers);

#endif /* POOL_LAYOUT_H */
