/* SPDX-License-Identifier: PostgreSQL */
/* ground.h - what a run stands on: folder, storage, model, board and pool. */
#ifndef TIDESTRESS_GROUND_H
#define TIDESTRESS_GROUND_H

#include <limits.h>
#include <tidepool/pool.h>

#include "board.h"
#include "model.h"
#include "options.h"
#include "store.h"

struct ground {
	const struct options *options;
	struct board *board;
	struct model model;
	struct store store;
	struct tide_pool *pool;
	char folder[PATH_MAX]; /* temporary; empty = none */
	int supervisor;	       /* its process id */
};

/* -1, or the exit code when there can be no run (which has been printed). */
int ground_open(struct ground *ground, const struct options *options);

/* Everything but the board, which the report still needs. Also after ground_open() failed. */
void ground_clear(struct ground *ground);

/*
 * In a child: storage of its own, and the pool inherited, or with @attach by its descriptors.
 * @process: number of the process; the resizer has the one after the last. @life: how many had it
 * before. 1, or 0 and a finding.
 */
int ground_enter(struct ground *ground, uint32_t process, uint32_t life, uint64_t seed, int attach);
void ground_leave(struct ground *ground);

#endif
