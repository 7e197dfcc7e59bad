/* SPDX-License-Identifier: PostgreSQL */
/*
 * host.c - the pool's operations for the resize engine.
 *
 * The memory of a chunk waits for a grace period that begins when the chunk is quiescing: whoever saw it
 * in an earlier state, in a section that began before, may still look at its descriptors. Pages need
 * no grace period: nobody looks at one without a pin, and a claim was settled against all pins.
 */
#include <string.h>

#include "pool/arrays.h"
#include "pool/buffer.h"
#include "pool/clock.h"
#include "pool/latch.h"
#include "pool/pause.h"
#include "pool/resizer.h"

#define RANGES 64u

static struct tide_pool *pool_of(const void *host)
{
	return ((const struct tide_resizer *)host)->session->pool;
}

static uint64_t host_clock_ns(void *host)
{
	(void)host;
	return clock_ns();
}

static void host_survey(void *host, uint32_t first, uint32_t n, struct tide_chunk_fact *facts)
{
	const struct tide_pool *pool = pool_of(host);
	uint32_t n_slots;

	memset(facts, 0, n * sizeof(*facts));
	(void)tide_grace_slots(pool->grace, &n_slots);
	for (uint32_t i = 0; i < n_slots; i++)
		for (uint32_t k = 0; k < SLOT_ENTRIES; k++) {
			const uint64_t entry = atomic_load_explicit(&pool->slots[i].entry[k],
								    memory_order_relaxed);
			uint32_t chunk;

			if (entry == 0)
				continue;
			chunk = pool_chunk(pool, entry_buffer(entry));
			if (chunk >= first && chunk - first < n)
				facts[chunk - first].pinned++;
		}
}

static int host_preflight(void *host, uint64_t bytes, struct tide_reason *why)
{
	const struct tide_pool *pool = pool_of(host);
	const struct tide_region_info *info = tide_region_info(pool->pages);
	struct tide_verdict verdict;
	int code = tide_preflight(&pool->machine, info->backing, info->page_bytes, bytes, &verdict);

	if (code != TIDE_OK && why)
		*why = verdict.reason;
	return code;
}

/* Calls the kernel for chunks, neighbours as one range. */
static int for_ranges(struct tide_pool *pool, const uint32_t *chunks, uint32_t n,
		      int (*call)(struct tide_region *, const struct tide_range *, size_t,
				  struct tide_reason *),
		      uint32_t *done, struct tide_reason *why)
{
	const uint64_t bytes = pool->shared->layout.chunk_bytes;
	struct tide_range ranges[RANGES];
	uint32_t n_ranges = 0;
	int code = TIDE_OK;

	*done = 0;
	for (uint32_t i = 0; i < n && code == TIDE_OK; i++) {
		if (n_ranges > 0 && chunks[i] == chunks[i - 1] + 1)
			ranges[n_ranges - 1].bytes += bytes;
		else
			ranges[n_ranges++] =
				(struct tide_range){.offset = chunks[i] * bytes, .bytes = bytes};
		if (i + 1 < n && (n_ranges < RANGES || chunks[i + 1] == chunks[i] + 1))
			continue;
		code = call(pool->pages, ranges, n_ranges, why);
		n_ranges = 0;
		if (code == TIDE_OK)
			*done = i + 1;
	}
	return code;
}

static int host_commit(void *host, const uint32_t *chunks, uint32_t n, struct tide_reason *why)
{
	struct tide_resizer *resizer = host;
	struct tide_pool *pool = pool_of(host);
	uint32_t done, again;
	int code;

	/* What the arrays were about to lose they need again. */
	resizer->trim_ticket = 0;
	resizer->tidy = 0;
	code = arrays_commit(pool, chunks, n, arrays_backed(pool), why);
	if (code != TIDE_OK)
		return code;
	pool_pause(POOL_PAUSE_ARRAYS);
	code = for_ranges(pool, chunks, n, tide_region_commit, &done, why);
	if (code == TIDE_OK)
		return TIDE_OK;
	(void)for_ranges(pool, chunks, done, tide_region_decommit, &again, NULL);
	(void)arrays_release_descriptors(pool, chunks, n, NULL);
	return code;
}

static uint32_t active_buffers(const struct tide_pool *pool)
{
	uint32_t counts[TIDE_CHUNK_STATES];

	tide_chunk_counts(pool->chunks, counts);
	return counts[TIDE_CHUNK_ACTIVE] << pool->chunk_shift;
}

static int host_publish(void *host, const uint32_t *chunks, uint32_t n, struct tide_reason *why)
{
	struct tide_resizer *resizer = host;
	struct tide_pool *pool = pool_of(host);
	struct shared *shared = pool->shared;
	const uint32_t end = (chunks[n - 1] + 1) << pool->chunk_shift;
	int code = arrays_commit(pool, chunks, 0, arrays_backed(pool), why);

	if (code == TIDE_OK)
		code = resizer_fit_tables(resizer, arrays_backed(pool), why);
	if (code != TIDE_OK)
		return code;
	for (uint32_t i = 0; i < n; i++) {
		const uint32_t first = chunks[i] << pool->chunk_shift;

		resizer->ticket[chunks[i]] = 0;
		for (uint32_t k = 0; k < shared->layout.chunk_buffers; k++) {
			struct descriptor *d = &pool->descriptors[first + k];
			uint64_t state = descriptor_state(d);

			/* One that is usable came back with its page before it was drained. */
			if (state & STATE_USABLE)
				continue;
			while (!descriptor_swap(d, &state, state | STATE_USABLE))
				;
			buffer_count_free(pool, first + k);
		}
	}
	if (end > atomic_load_explicit(&shared->n_reach, memory_order_relaxed))
		atomic_store_explicit(&shared->n_reach, end, memory_order_release);
	atomic_store_explicit(&shared->n_usable, active_buffers(pool) + (n << pool->chunk_shift),
			      memory_order_relaxed);
	return TIDE_OK;
}

static int host_fence(void *host, const uint32_t *chunks, uint32_t n, struct tide_reason *why)
{
	struct tide_resizer *resizer = host;
	struct tide_pool *pool = pool_of(host);
	struct tide_progress progress;

	(void)why;
	for (uint32_t i = 0; i < n; i++)
		resizer->ticket[chunks[i]] = 0;
	atomic_store_explicit(&pool->shared->n_usable, active_buffers(pool), memory_order_relaxed);
	tide_engine_progress(resizer->engine, &progress);
	if (progress.op != resizer->cut_op) {
		resizer->cut = relocate_cut(resizer, progress.requested_bytes / pool->page_bytes);
		resizer->cut_op = progress.op;
	}
	return TIDE_OK;
}

static int host_drain(void *host, const uint32_t *chunks, uint32_t n,
		      const struct tide_drain_budget *budget, struct tide_drain_report *reports,
		      struct tide_drain_work *work, struct tide_reason *why)
{
	struct tide_resizer *resizer = host;
	const uint64_t began_ns = clock_ns();
	const uint64_t before = work->evicted_pages + work->written_pages;
	uint64_t write_bytes = budget->write_bytes;
	uint32_t stuck = 0;
	int code = TIDE_OK;

	for (uint32_t i = 0; i < n; i++) {
		struct drained drained;

		if (i > 0 && clock_ns() - began_ns > budget->work_ns)
			break;
		drain_chunk(resizer, chunks[i], &write_bytes, &drained, why);
		reports[i] = drained.report;
		work->evicted_pages += drained.work.evicted_pages;
		if (drained.code != TIDE_OK)
			code = drained.code;
		stuck += drained.report.pinned;
	}
	/* Also what was written and evicted to make room for pages that moved. */
	work->written_pages += (budget->write_bytes - write_bytes) / pool_of(host)->page_bytes;
	work->evicted_pages += resizer->stock.evicted;
	stock_return(resizer);
	/* A write that failed is tried again in the next step, as long as something gets anywhere. */
	if (work->evicted_pages + work->written_pages > before)
		code = TIDE_OK;
	/* Some of those in the way may have died. */
	if (stuck > 0)
		(void)session_reap(resizer->session);
	return code;
}

static int host_quiesce(void *host, const uint32_t *chunks, uint32_t n)
{
	struct tide_resizer *resizer = host;
	struct tide_pool *pool = pool_of(host);
	_Atomic uint64_t *shown = &pool->shared->quiesce_ticket;
	uint64_t ticket = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (resizer->ticket[chunks[i]] != 0)
			continue;
		if (ticket == 0)
			ticket = tide_grace_start(pool->grace);
		resizer->ticket[chunks[i]] = ticket;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (tide_grace_poll(pool->grace, resizer->ticket[chunks[i]]))
			continue;
		atomic_store_explicit(shown, resizer->ticket[chunks[i]], memory_order_relaxed);
		return 1;
	}
	atomic_store_explicit(shown, 0, memory_order_relaxed);
	return 0;
}

/* The last chunk in use bounds the walks. */
static void lower_reach(struct tide_pool *pool)
{
	uint32_t chunk = pool->shared->layout.n_chunks;

	while (chunk > 1) {
		const uint32_t state = atomic_load_explicit(&pool->chunks->chunk[chunk - 1].state,
							    memory_order_relaxed);

		if (state != TIDE_CHUNK_RETIRED && state != TIDE_CHUNK_RELEASING)
			break;
		chunk--;
	}
	atomic_store_explicit(&pool->shared->n_reach, chunk << pool->chunk_shift,
			      memory_order_release);
}

static int host_decommit(void *host, const uint32_t *chunks, uint32_t n, struct tide_reason *why)
{
	struct tide_resizer *resizer = host;
	struct tide_pool *pool = pool_of(host);
	const uint32_t n_buffers = arrays_backed(pool);
	uint32_t done;
	int code = for_ranges(pool, chunks, n, tide_region_decommit, &done, why);

	if (code != TIDE_OK)
		return code;
	pool_pause(POOL_PAUSE_RELEASED);
	lower_reach(pool);
	code = arrays_release_descriptors(pool, chunks, n, why);
	if (code != TIDE_OK)
		return code;
	/* A table that could not shrink stays as large as it is. */
	if (resizer_fit_tables(resizer, n_buffers, NULL) == TIDE_OK) {
		resizer->trim_ticket = tide_grace_start(pool->grace);
		resizer->trim_to = n_buffers;
	}
	return TIDE_OK;
}

static int host_audit(void *host, uint64_t *committed_bytes, struct tide_reason *why)
{
	return tide_region_audit(pool_of(host)->pages, committed_bytes, why);
}

const struct tide_host_ops resizer_ops = {
	.clock_ns = host_clock_ns,
	.survey = host_survey,
	.preflight = host_preflight,
	.commit = host_commit,
	.publish = host_publish,
	.fence = host_fence,
	.drain = host_drain,
	.quiesce = host_quiesce,
	.decommit = host_decommit,
	.audit = host_audit,
};
