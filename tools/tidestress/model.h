/* SPDX-License-Identifier: PostgreSQL */
/*
 * model.h - what every page may read as: the model that the pool is compared with.
 *
 * It lies in memory that all processes share, takes no lock and outlives every participant. For
 * each page it knows the version that the pool must show (current) and the one that must survive
 * everything (durable). A page read under a fix must be exactly current, with one exception: after
 * a loss it may have fallen back to any version from durable to current.
 *
 * Losses are: the death of a participant that fixed the page for writing, and a drop. Both announce
 * themselves before they can happen (an intent), so a fall-back nobody announced is a lost write:
 *  - A writer declares its intent before it fixes the page and withdraws it after the unfix. While
 *    its slot is doomed (set before SIGKILL is sent) the intent is an open loss.
 *  - A dropper declares the range before it drops. The intent is an open loss from the beginning.
 *  - When the loss is over it is counted in @losses of every page of the intent, and only then the
 *    intent is withdrawn. So who first looks for open losses and then at @losses misses none.
 *  - Who then reads the page under a fix settles: the version found becomes current.
 */
#ifndef TIDESTRESS_MODEL_H
#define TIDESTRESS_MODEL_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_INTENTS 4u /* of one slot: pages fixed for writing at a time, or one drop */
#define MODEL_PAGES_MAX ((UINT64_C(1) << 22) - 1)

/*
 * @written: highest version that anybody began to put into the pool; no version is used twice
 * @current: version that the pool shows
 * @durable: a flush that was successful covered this version
 * @losses:  how often the copy in the pool may have been lost
 * @settled: up to which of these the page has been read since
 * @renewed: how often the page began again with zeros (TIDE_FIX_NEW)
 * @storing: who writes the page to storage at this moment; 0 = nobody
 * @torn:    a write to storage began and was not successful: what storage holds may be anything
 */
struct model_page {
	_Atomic uint64_t written;
	_Atomic uint64_t current;
	_Atomic uint64_t durable;
	_Atomic uint32_t losses, settled;
	_Atomic uint32_t renewed;
	_Atomic uint32_t torn;
	_Atomic uint64_t storing;
};

/* One for each thread of each participant. */
struct model_slot {
	_Atomic uint64_t intent[MODEL_INTENTS];
	_Atomic uint32_t doomed;
	uint32_t unused[7];
};

struct model {
	uint64_t n_pages;
	uint32_t n_slots;
	struct model_page *pages;
	struct model_slot *slots;
};

enum model_verdict {
	MODEL_GOOD,
	MODEL_FELL_BACK,    /* after a loss */
	MODEL_LOST_DURABLE, /* older than what was durable */
	MODEL_LOST_WRITE,   /* older than current, and nobody died */
	MODEL_FROM_NOWHERE, /* newer than current */
};

/* In shared memory; -ENOMEM when there is none. */
int model_open(struct model *model, uint64_t n_pages, uint32_t n_slots);
void model_close(struct model *model);

/*
 * Compare @version, read from the pool under a fix that excludes writers, which the caller still
 * holds. Settles the page's losses.
 */
enum model_verdict model_read(struct model *model, uint64_t page, uint64_t version);

/* Only while the page is fixed for writing: the next version; then that it is there. */
uint64_t model_begin_write(struct model *model, uint64_t page);
void model_end_write(struct model *model, uint64_t page, uint64_t version);

/* The page was fixed with TIDE_FIX_NEW, still is, and was zeros. */
void model_renew(struct model *model, uint64_t page);

/* Before fix, and after unfix; before and after a drop. @which is below MODEL_INTENTS. */
void model_intend_write(struct model *model, uint32_t slot, uint32_t which, uint64_t page);
void model_withdraw(struct model *model, uint32_t slot, uint32_t which);
void model_intend_drop(struct model *model, uint32_t slot, uint64_t first, uint64_t n);
void model_dropped(struct model *model, uint32_t slot);

/* Before SIGKILL is sent to its process; after that is gone. */
void model_doom(struct model *model, uint32_t slot);
void model_bury(struct model *model, uint32_t slot);

/* The model of a page in words. */
void model_describe(const struct model *model, uint64_t page, char *text, size_t text_bytes);

/* May storage say that the page is corrupt? @renewed: of the page, from before it was asked */
int model_may_be_corrupt(const struct model *model, uint64_t page, uint32_t renewed);

/*
 * A flush of pages @first to @first + @n - 1: begin before, end after it returned 0 (then what was
 * current at the beginning is durable, but for losses in between), abandon otherwise.
 */
struct model_flush;
struct model_flush *model_flush_begin(const struct model *model, uint64_t first, uint64_t n);
void model_flush_end(struct model *model, struct model_flush *flush);
void model_flush_abandon(struct model_flush *flush);

#endif
