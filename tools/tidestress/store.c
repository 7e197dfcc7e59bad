/* SPDX-License-Identifier: PostgreSQL */
/* store.c - the storage under the pool, watched. */
#include "store.h"

#include <inttypes.h>
#include <unistd.h>

#include "page.h"

#define FAULT_DELAY_NS 2000000u
#define SYNC_FAULTS 20u /* chance of a sync to fail, for that of a transfer */

static struct tide_storage *top(struct store *store)
{
	return store->fault.ops ? &store->fault : &store->below;
}

/* Of the footprint. */
static uint64_t number(const struct store *store, const struct tide_page_id *id)
{
	return id->file * store->options->pages + id->page;
}

static struct model_page *model_page(const struct store *store, const struct tide_page_id *id)
{
	return &store->model->pages[number(store, id)];
}

static void set_torn(struct store *store, const struct tide_page_id *id, uint32_t torn)
{
	atomic_store_explicit(&model_page(store, id)->torn, torn, memory_order_seq_cst);
}

static uint64_t durable(const struct store *store, const struct tide_page_id *id)
{
	return atomic_load_explicit(&model_page(store, id)->durable, memory_order_seq_cst);
}

static void note(struct store *store, const struct tide_io *io, enum trail_event event,
		 uint64_t version)
{
	trail_add(store->board->trail, event, number(store, &io->id), 1, version);
}

static int in_footprint(const struct store *store, const struct tide_io *io)
{
	if (io->id.file < store->options->files && io->id.page < store->options->pages)
		return 1;
	board_find(store->board,
		   "the pool %s file %" PRIu64 " page %" PRIu64 ", which nobody asked for",
		   io->write ? "writes" : "reads", io->id.file, io->id.page);
	return 0;
}

static void found(struct store *store, const struct tide_io *io, const struct page_seen *seen,
		  uint64_t floor)
{
	char what[400];

	page_describe(seen, what, sizeof(what));
	board_find_about(store->board, number(store, &io->id),
			 "file %" PRIu64 " page %" PRIu64
			 ", %s storage (memory %p): the page %s; durable is version %" PRIu64,
			 io->id.file, io->id.page, io->write ? "on its way to" : "as read from",
			 io->page, what, floor);
}

/* A page that is written was changed once, so zeros are wrong, too. */
static void watch_outgoing(struct store *store, const struct tide_io *io, uint64_t floor)
{
	struct page_seen seen;

	if (page_verify(io->page, store->options->page_bytes, &io->id, 0, NULL, &seen) !=
		    PAGE_GOOD ||
	    seen.version < floor)
		found(store, io, &seen, floor);
	note(store, io, TRAIL_WRITING, seen.version);
}

static void watch_incoming(struct store *store, struct tide_io *io, uint64_t floor)
{
	struct page_seen seen;
	enum page_verdict verdict =
		page_verify(io->page, store->options->page_bytes, &io->id, 0, NULL, &seen);

	if (verdict != PAGE_GOOD && verdict != PAGE_ZERO && store->options->memory_storage) {
		io->code = TIDE_PAGE_CORRUPT; /* whether that may be is for the reader to judge */
		return;
	}
	note(store, io, TRAIL_READ, seen.version);
	if ((verdict != PAGE_GOOD && verdict != PAGE_ZERO) || seen.version < floor)
		found(store, io, &seen, floor);
}

/* By difference, because several threads report at a time and the sums must come out right. */
static void report_faults(struct store *store)
{
	if (!store->fault.ops)
		return;
	for (int kind = 0; kind < TIDE_FAULTS; kind++) {
		uint64_t now = tide_fault_count(&store->fault, (enum tide_fault)kind);
		uint64_t before =
			atomic_exchange_explicit(&store->reported[kind], now, memory_order_relaxed);

		if (now != before)
			atomic_fetch_add_explicit(&(*store->faults)[kind], now - before,
						  memory_order_relaxed);
	}
}

/* --- one at a time ---------------------------------------------------------------------------- */

/* Who writes a page: process number, life and thread. */
static uint64_t mark(const struct store *store)
{
	return (uint64_t)gettid() << 32 | (store->life & 0xffff) << 16 | (store->process + 1);
}

static uint32_t mark_process(uint64_t other)
{
	return (uint32_t)(other & 0xffff) - 1;
}

/* @other wrote the page when it was killed; it writes no more once the pool takes it for dead. */
static int is_of_the_dead(const struct store *store, uint64_t other)
{
	uint32_t process = mark_process(other), life = (uint32_t)(other >> 16 & 0xffff);

	return process <= store->options->processes &&
	       life < atomic_load_explicit(&store->board->killed[process], memory_order_seq_cst);
}

/* @other is who writes the page besides us. 1 = nobody does */
static int expect_nobody(struct store *store, const struct tide_io *io, uint64_t other)
{
	if (other == 0 || is_of_the_dead(store, other))
		return 1;
	board_find_about(store->board, number(store, &io->id),
			 "file %" PRIu64 " page %" PRIu64
			 " is %s storage while process number %" PRIu32 " writes it there",
			 io->id.file, io->id.page, io->write ? "written to" : "read from",
			 mark_process(other));
	return 0;
}

static int begin_alone(struct store *store, const struct tide_io *io)
{
	_Atomic uint64_t *storing = &model_page(store, &io->id)->storing;
	uint64_t other =
		io->write ? atomic_exchange_explicit(storing, mark(store), memory_order_seq_cst)
			  : atomic_load_explicit(storing, memory_order_seq_cst);

	return expect_nobody(store, io, other);
}

/* Whoever began to write meanwhile is looked for, too. */
static int end_alone(struct store *store, const struct tide_io *io)
{
	_Atomic uint64_t *storing = &model_page(store, &io->id)->storing;
	uint64_t ours = mark(store);

	if (!io->write)
		return expect_nobody(store, io,
				     atomic_load_explicit(storing, memory_order_seq_cst));
	return atomic_compare_exchange_strong_explicit(storing, &ours, 0, memory_order_seq_cst,
						       memory_order_seq_cst);
}

/* --- transfers -------------------------------------------------------------------------------- */

struct before {
	uint64_t durable;
	int alone; /* nobody else wrote the page */
};

/* What is known before the pages go to storage or come from there. */
static int begin_transfer(struct store *store, const struct tide_io *ios, uint32_t n,
			  struct before before[TIDE_IO_BATCH])
{
	for (uint32_t i = 0; i < n; i++) {
		if (!in_footprint(store, &ios[i]))
			return 0;
		before[i].alone = begin_alone(store, &ios[i]);
		before[i].durable = durable(store, &ios[i].id);
		if (!ios[i].write)
			continue;
		watch_outgoing(store, &ios[i], before[i].durable);
		/* Now and not afterwards: the process may be killed in the middle. */
		set_torn(store, &ios[i].id, 1);
	}
	return 1;
}

static void end_transfer(struct store *store, struct tide_io *io, const struct before *before)
{
	int alone = end_alone(store, io) && before->alone;

	if (io->write) {
		if (io->code == 0 && alone) /* or else another one's failure may follow */
			set_torn(store, &io->id, 0);
		note(store, io, io->code == 0 ? TRAIL_WRITTEN : TRAIL_WRITE_FAILED,
		     (uint64_t)io->code);
		return;
	}
	if (io->code == 0)
		watch_incoming(store, io, before->durable);
	if (io->code != 0)
		note(store, io, TRAIL_READ_FAILED, (uint64_t)io->code);
}

static int transfer(void *self, struct tide_io *ios, uint32_t n, struct tide_reason *why)
{
	struct store *store = self;
	struct before before[TIDE_IO_BATCH];
	int code;

	if (n == 0 || n > TIDE_IO_BATCH) {
		board_find(store->board, "the pool transfers %" PRIu32 " pages at a time", n);
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0, "not a number of pages");
	}
	if (!begin_transfer(store, ios, n, before))
		return tide_reason_set(why, TIDE_IO_ERROR, 0, "a page that is not there");
	code = top(store)->ops->transfer(top(store)->self, ios, n, why);
	report_faults(store);
	for (uint32_t i = 0; i < n; i++) {
		end_transfer(store, &ios[i], &before[i]);
		if (ios[i].code == TIDE_PAGE_CORRUPT && code == 0)
			code = tide_reason_set(why, TIDE_PAGE_CORRUPT, 0, "the page is torn");
	}
	return code;
}

static int sync_file(void *self, uint64_t file, struct tide_reason *why)
{
	struct store *store = self;
	int code = top(store)->ops->sync(top(store)->self, file, why);

	report_faults(store);
	return code;
}

static int open_files(struct store *store, int io_uring, struct tide_reason *why)
{
	const struct tide_file_config config = {
		.directory = store->directory,
		.page_bytes = store->options->page_bytes,
		.checksum_offset = PAGE_STORAGE_CHECKSUM,
		.io_uring = io_uring,
		.direct = store->options->direct,
	};

	return tide_file_open(&config, &store->below, why);
}

int store_open(struct store *store, struct tide_reason *why)
{
	const struct options *options = store->options;

	if (!options->memory_storage)
		return open_files(store, 1, why);
	return tide_memory_open(options->files, options->pages, options->page_bytes, &store->below,
				why);
}

void store_close(struct store *store)
{
	if (store->options->memory_storage)
		tide_memory_close(&store->below);
	else
		tide_file_close(&store->below);
}

/* There are few syncs for many transfers; at most half of them fail. */
static uint32_t sync_faults(const struct options *options)
{
	uint32_t per_million = SYNC_FAULTS * options->faults_per_million;

	return per_million < 500000 ? per_million : 500000;
}

int store_reopen(struct store *store, uint32_t process, uint32_t life, uint64_t seed, int io_uring,
		 struct tide_reason *why)
{
	const struct options *options = store->options;
	struct tide_fault_config config = {
		.page_bytes = options->page_bytes,
		.delay_ns = FAULT_DELAY_NS,
		.seed = seed,
	};
	int code = options->memory_storage ? 0 : open_files(store, io_uring, why);

	store->process = process;
	store->life = life;
	if (code != 0 || options->faults_per_million == 0)
		return code;
	store->faults = &store->board->faults[process];
	config.below = store->below;
	for (int kind = 0; kind < TIDE_FAULTS; kind++)
		config.per_million[kind] = options->faults_per_million;
	config.per_million[TIDE_FAULT_SYNC] = sync_faults(options);
	return tide_fault_open(&config, &store->fault, why);
}

void store_close_again(struct store *store)
{
	if (store->fault.ops)
		tide_fault_close(&store->fault);
	if (!store->options->memory_storage)
		tide_file_close(&store->below);
}

struct tide_storage store_storage(struct store *store)
{
	static const struct tide_storage_ops ops = {.transfer = transfer, .sync = sync_file};

	return (struct tide_storage){.ops = &ops, .self = store};
}
