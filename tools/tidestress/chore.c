/* SPDX-License-Identifier: PostgreSQL */
/* chore.c - what a worker does now and then: flush, drop, prefetch. */
#include "worker.h"

#include <inttypes.h>

#define PREFETCH_PAGES 16u
#define LOOK_PAGES 16u

/* Few pages mostly: with storage faults on, a large flush hardly ever succeeds as a whole. */
static struct extent pick_extent(struct worker *worker, uint64_t whole_one_in)
{
	const struct options *options = worker->options;
	struct extent extent = {.file = random_below(&worker->random, options->files)};

	if (random_one_in(&worker->random, whole_one_in)) {
		extent.n = TIDE_ALL_PAGES;
		if (random_one_in(&worker->random, 4))
			extent.file = TIDE_ALL_FILES;
		return extent;
	}
	extent.first = random_below(&worker->random, options->pages);
	extent.n =
		1 + random_below(&worker->random, UINT64_C(1) << random_below(&worker->random, 9));
	return extent;
}

/* The same as pages of the footprint. */
static void extent_pages(const struct worker *worker, const struct extent *extent, uint64_t *first,
			 uint64_t *n)
{
	uint64_t pages = worker->options->pages;

	if (extent->file == TIDE_ALL_FILES) {
		*first = 0;
		*n = options_footprint(worker->options);
		return;
	}
	*first = extent->file * pages + extent->first;
	*n = extent->n < pages - extent->first ? extent->n : pages - extent->first;
}

static void note(struct worker *worker, enum trail_event event, uint64_t first, uint64_t n,
		 int code)
{
	trail_add(worker->ground->board->trail, event, first, n, (uint64_t)code);
}

void chore_flush(struct worker *worker)
{
	struct extent extent = pick_extent(worker, 16);
	struct tide_reason why = {0};
	struct model_flush *flush;
	uint64_t first, n;

	extent_pages(worker, &extent, &first, &n);
	board_do(worker->place, BOARD_FLUSHING, first);
	note(worker, TRAIL_FLUSHING, first, n, 0);
	flush = model_flush_begin(worker->model, first, n);
	if (!flush)
		return;
	if (tide_pool_flush(worker->session, extent.file, extent.first, extent.n, &why) == 0) {
		model_flush_end(worker->model, flush);
		note(worker, TRAIL_FLUSHED, first, n, 0);
		worker->flushed = extent;
		board_add(worker->place, BOARD_FLUSHES, 1);
		return;
	}
	model_flush_abandon(flush);
	board_add(worker->place, BOARD_FLUSHES_FAILED, 1);
	if (why.code != TIDE_IO_ERROR || worker->options->faults_per_million == 0)
		worker_find(worker, "flush", first, &why);
}

/* What is left of pages @first to @first + @n - 1 after their drop. */
static void look(struct worker *worker, uint64_t first, uint64_t n)
{
	uint64_t page = first + random_below(&worker->random, n);
	struct hold hold;

	for (uint32_t i = 0; i < LOOK_PAGES && page < first + n; i++, page++)
		if (hold_begin(worker, &hold, page, TIDE_FIX_READ, 0))
			hold_end(worker, &hold);
}

/* Pages that were flushed before, in every second case: those must be there after the drop. */
static struct extent pick_drop(struct worker *worker)
{
	struct extent flushed = worker->flushed;

	worker->flushed.n = 0;
	if (flushed.n > 0 && flushed.n != TIDE_ALL_PAGES && random_one_in(&worker->random, 2))
		return flushed;
	return pick_extent(worker, 64);
}

void chore_drop(struct worker *worker)
{
	struct extent extent = pick_drop(worker);
	struct tide_reason why = {0};
	uint64_t first, n;
	int code;

	extent_pages(worker, &extent, &first, &n);
	board_do(worker->place, BOARD_DROPPING, first);
	note(worker, TRAIL_DROPPING, first, n, 0);
	model_intend_drop(worker->model, worker->slot, first, n);
	code = tide_pool_drop(worker->session, extent.file, extent.first, extent.n, &why);
	model_dropped(worker->model, worker->slot);
	note(worker, TRAIL_DROPPED, first, n, code);
	board_add(worker->place, BOARD_DROPS, 1);
	if (code == TIDE_PINNED_BUFFERS)
		board_add(worker->place, BOARD_DROPS_PARTIAL, 1);
	else if (code != 0)
		worker_find(worker, "drop", first, &why);
	look(worker, first, n);
}

void chore_prefetch(struct worker *worker)
{
	struct tide_page_id ids[PREFETCH_PAGES];
	uint64_t page = key_next(&worker->keys, &worker->random);
	uint64_t footprint = options_footprint(worker->options);
	uint32_t n = 1 + (uint32_t)random_below(&worker->random, PREFETCH_PAGES);
	uint32_t loaded;

	if (n > footprint)
		n = (uint32_t)footprint;
	for (uint32_t i = 0; i < n; i++)
		ids[i] = options_page_id(worker->options, (page + i) % footprint);
	board_do(worker->place, BOARD_PREFETCHING, page);
	loaded = tide_pool_prefetch(worker->session, ids, n);
	board_add(worker->place, BOARD_PREFETCHED, loaded);
	if (loaded > n)
		board_find(worker->ground->board, "prefetch of %u pages loaded %u", n, loaded);
}
