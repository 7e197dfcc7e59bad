/* SPDX-License-Identifier: PostgreSQL */
/* worker.h - one thread of a participant. */
#ifndef TIDESTRESS_WORKER_H
#define TIDESTRESS_WORKER_H

#include "ground.h"
#include "page.h"
#include "resize.h"

/* Pages @first to @first + @n - 1 of one file, or with TIDE_ALL_FILES everything. */
struct extent {
	uint64_t file, first, n;
};

struct worker {
	struct ground *ground;
	const struct options *options;
	struct model *model;
	struct board_place *place;
	struct tide_session *session;
	struct random random;
	struct key_source keys;
	uint32_t slot; /* of the model, and place on the board */
	uint64_t me;   /* written into pages */
	uint64_t next_flush_ns, next_drop_ns, next_resize_ns;
	struct resize resize;
	struct extent flushed; /* last, with success; n = 0: none */
};

/* A page that the worker has fixed. */
struct hold {
	struct tide_fix fix;
	struct tide_page_id id;
	uint64_t page; /* of the footprint */
	enum tide_fix_mode mode;
	uint32_t which;	  /* intent of the model */
	uint64_t version; /* that it has */
};

/*
 * hold.c: fix page @page of the footprint, verify it, and write to it where the mode is for that.
 * Returns 1, or 0 when it is not fixed; what may not be is a finding.
 */
int hold_begin(struct worker *worker, struct hold *hold, uint64_t page, enum tide_fix_mode mode,
	       uint32_t which);

/* Verify again what cannot have changed. */
void hold_check(struct worker *worker, const struct hold *hold);
void hold_end(struct worker *worker, struct hold *hold);

/* A call failed with @why, which is not allowed. */
void worker_find(struct worker *worker, const char *what, uint64_t page,
		 const struct tide_reason *why);

/* chore.c: what a worker does now and then. */
void chore_flush(struct worker *worker);
void chore_drop(struct worker *worker);
void chore_prefetch(struct worker *worker);

#endif
