/* SPDX-License-Identifier: PostgreSQL */
/*
 * store.h - the storage under the pool, watched: every page that comes and goes is verified.
 *
 * A page that the pool writes must be whole, under its own id and not older than what is durable;
 * so must a page that storage returns. While a page is written nobody else may write or read it.
 * Memory has no checksums, so its torn pages are recognised here.
 */
#ifndef TIDESTRESS_STORE_H
#define TIDESTRESS_STORE_H

#include <stdatomic.h>

#include <tidepool/pool.h>

#include "board.h"
#include "model.h"
#include "options.h"

struct store {
	const struct options *options;
	struct model *model;
	struct board *board;
	const char *directory;
	uint32_t process, life; /* as of ground_enter(); the supervisor has a number of its own */
	struct tide_storage below; /* files or memory */
	struct tide_storage fault; /* on top of it, or nothing */
	_Atomic uint64_t (*faults)[TIDE_FAULTS];
	_Atomic uint64_t reported[TIDE_FAULTS];
};

/* The supervisor's, without faults: nothing that it reads or writes fails. */
int store_open(struct store *store, struct tide_reason *why);
void store_close(struct store *store);

/*
 * In a child that inherited @store: open files again, since a process has its own, and put faults
 * on top. @process, @life: as of ground_enter(); @io_uring: as in tide_file_config.
 */
int store_reopen(struct store *store, uint32_t process, uint32_t life, uint64_t seed, int io_uring,
		 struct tide_reason *why);
void store_close_again(struct store *store);

/* What the pool is given; valid as long as @store. */
struct tide_storage store_storage(struct store *store);

#endif
