/* SPDX-License-Identifier: PostgreSQL */
/*
 * trail.h - what happened to pages lately, to be read when one is found wrong.
 *
 * A ring in shared memory; who adds to it takes no lock and waits for nobody. An entry that is
 * overwritten while it is read may be mixed of two.
 */
#ifndef TIDESTRESS_TRAIL_H
#define TIDESTRESS_TRAIL_H

#include <stdint.h>
#include <stdio.h>

enum trail_event {
	TRAIL_WRITING, /* to storage */
	TRAIL_WRITTEN,
	TRAIL_WRITE_FAILED,
	TRAIL_READ, /* from storage */
	TRAIL_READ_FAILED,
	TRAIL_CHANGING, /* in the pool */
	TRAIL_CHANGED,
	TRAIL_BEGUN_AGAIN,
	TRAIL_FELL_BACK,
	TRAIL_FLUSHING,
	TRAIL_FLUSHED,
	TRAIL_DROPPING,
	TRAIL_DROPPED,
	TRAIL_KILLED,
};

struct trail;

/* NULL = no memory */
struct trail *trail_open(void);
void trail_close(struct trail *trail);

/* @event happened to @n pages from @first on. @version: of the page, or a code, or a process */
void trail_add(struct trail *trail, enum trail_event event, uint64_t first, uint64_t n,
	       uint64_t version);

/* The last events of @page, the latest at the end, times in seconds after @start_ns. */
void trail_print(const struct trail *trail, FILE *out, uint64_t page, uint64_t start_ns);

#endif
