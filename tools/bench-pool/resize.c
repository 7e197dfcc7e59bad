/* SPDX-License-Identifier: PostgreSQL */
/*
 * bench-pool/resize.c - what resizing costs, and what it leaves: time against the kernel's own, hit ratio
 * against the best choice of pages, gaps of readers meanwhile, memory beside the pages.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench-pool/bench.h"
#include "bench-pool/source.h"
#include "bench-pool/trace.h"

#define PAGE_BYTES 8192u
#define ROUNDS_MAX 16u
#define GIB (UINT64_C(1) << 30)

static uint64_t resize(struct tide_session *session, uint64_t bytes)
{
	const struct tide_request request = {.target_bytes = bytes};
	struct tide_progress progress;
	struct tide_reason why = {0};
	const uint64_t start = bench_now_ns();

	source_must(tide_pool_resize(session, &request, &progress, &why), &why);
	if (progress.state != TIDE_OP_DONE)
		source_must(progress.reason.code ? progress.reason.code : TIDE_HOST_ERROR,
			    &progress.reason);
	return bench_now_ns() - start;
}

/* --- the kernel alone ------------------------------------------------------------------------- */

struct raw {
	double commit_ms, punch_ms;
};

/* 0, or -1 when this machine has not got the memory */
static int raw_once(uint64_t bytes, int huge, struct raw *out)
{
	const int fd = memfd_create("raw", MFD_CLOEXEC | (huge ? MFD_HUGETLB : 0u));
	uint64_t start;
	void *map;
	int rc = -1;

	if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
		return -1;
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (map != MAP_FAILED) {
		start = bench_now_ns();
		rc = madvise(map, bytes, MADV_POPULATE_WRITE);
		out->commit_ms = (double)(bench_now_ns() - start) / 1e6;
		start = bench_now_ns();
		if (rc == 0)
			rc = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
				       (off_t)bytes);
		out->punch_ms = (double)(bench_now_ns() - start) / 1e6;
		munmap(map, bytes);
	}
	close(fd);
	return rc;
}

/* --- a pool full of clean pages ---------------------------------------------------------------- */

static void clean_shrink(const struct bench_options *options, json_t *figures, int huge)
{
	const uint64_t bytes = options->quick ? GIB / 8 : GIB;
	const uint64_t floor = UINT64_C(8) << 20;
	const unsigned n = bench_rounds(options, ROUNDS_MAX);
	const char *pages = huge ? "huge" : "base";
	double shrink[ROUNDS_MAX], grow[ROUNDS_MAX], commit[ROUNDS_MAX], punch[ROUNDS_MAX];
	struct tide_session *session;
	struct tide_pool *pool =
		source_pool(PAGE_BYTES, bytes + floor, bytes + floor, huge, &session);
	char name[96], against[96];

	if (pool == NULL)
		return;
	for (unsigned i = 0; i < n; i++) {
		struct raw raw;

		source_fill(session, (bytes + floor) / PAGE_BYTES);
		shrink[i] = (double)resize(session, floor) / 1e6;
		grow[i] = (double)resize(session, bytes + floor) / 1e6;
		if (raw_once(bytes, huge, &raw) != 0)
			raw = (struct raw){0};
		commit[i] = raw.commit_ms;
		punch[i] = raw.punch_ms;
	}
	snprintf(name, sizeof(name), "%" PRIu64 " MiB of clean pages shrink (%s)", bytes >> 20,
		 pages);
	snprintf(against, sizeof(against), "punch alone: %.1f", bench_median(punch, n));
	bench_row(name, bench_median(shrink, n), "ms", against);
	snprintf(name, sizeof(name), "%" PRIu64 " MiB grow (%s)", bytes >> 20, pages);
	snprintf(against, sizeof(against), "populate alone: %.1f", bench_median(commit, n));
	bench_row(name, bench_median(grow, n), "ms", against);
	json_object_set_new(figures, huge ? "huge" : "base",
			    json_pack("{s:f, s:f, s:f, s:f, s:I}", "shrink_ms",
				      bench_median(shrink, n), "grow_ms", bench_median(grow, n),
				      "raw_punch_ms", bench_median(punch, n), "raw_commit_ms",
				      bench_median(commit, n), "resized_bytes", (json_int_t)bytes));
	tide_session_close(session);
	tide_pool_detach(pool);
}

/* --- what a shrink keeps ----------------------------------------------------------------------- */

static atomic_int reads_fail;

static int failing_transfer(void *self, struct tide_io *ios, uint32_t n, struct tide_reason *why)
{
	(void)self;
	for (uint32_t i = 0; i < n; i++)
		ios[i].code = reads_fail && !ios[i].write ? TIDE_IO_ERROR : TIDE_OK;
	return reads_fail ? tide_reason_set(why, TIDE_IO_ERROR, 0, "not in the pool") : TIDE_OK;
}

static int no_sync(void *self, uint64_t file, struct tide_reason *why)
{
	(void)self;
	(void)file;
	(void)why;
	return TIDE_OK;
}

/* The chance that the next page of the distribution is in the pool. */
static double resident_share(struct tide_session *session, const double *sums, uint32_t n_pages)
{
	double share = 0;

	atomic_store(&reads_fail, 1);
	for (uint32_t page = 0; page < n_pages; page++) {
		const struct tide_page_id id = {.file = 1, .page = page};
		struct tide_fix fix;

		if (tide_pool_fix(session, &id, TIDE_FIX_PIN, &fix, NULL) != TIDE_OK)
			continue;
		share += sums[page] - (page ? sums[page - 1] : 0);
		tide_pool_unfix(session, &fix);
	}
	atomic_store(&reads_fail, 0);
	return share / sums[n_pages - 1];
}

static void draw_pages(struct tide_session *session, const double *sums, uint32_t n_pages,
		       uint64_t n_fixes)
{
	struct tide_reason why = {0};
	uint64_t state = 42;

	for (uint64_t i = 0; i < n_fixes; i++) {
		const struct tide_page_id id = {.file = 1,
						.page = trace_zipf_draw(sums, n_pages, &state)};
		struct tide_fix fix;

		source_must(tide_pool_fix(session, &id, TIDE_FIX_PIN, &fix, &why), &why);
		tide_pool_unfix(session, &fix);
	}
}

static void kept_share(const struct bench_options *options, json_t *figures)
{
	static const struct tide_storage_ops ops = {.transfer = failing_transfer, .sync = no_sync};
	const uint32_t n_pages = options->quick ? 16384 : 131072;
	const uint64_t bytes = (uint64_t)n_pages * 4096;
	const struct tide_pool_config config = {.name = "bench-pool",
						.page_bytes = 4096,
						.max_bytes = bytes,
						.start_bytes = bytes,
						.storage = {.ops = &ops}};
	double *sums = trace_zipf_sums(n_pages, 0.99);
	struct tide_reason why = {0};
	struct tide_session *session;
	struct tide_pool *pool;
	double kept, best = sums[n_pages / 4 - 1] / sums[n_pages - 1];

	source_must(tide_pool_create(&config, &pool, &why), &why);
	source_must(tide_session_open(pool, &session, &why), &why);
	draw_pages(session, sums, n_pages, 10 * (uint64_t)n_pages);
	(void)resize(session, bytes / 4);
	kept = resident_share(session, sums, n_pages);
	bench_row("zipf 0.99, shrink to 25 %: hit ratio lost", (best - kept) * 100, "points",
		  "against the best choice of pages; 2 allowed");
	json_object_set_new(figures, "keep",
			    json_pack("{s:f, s:f, s:f}", "best_ratio", best, "kept_ratio", kept,
				      "lost_points", (best - kept) * 100));
	free(sums);
	tide_session_close(session);
	tide_pool_detach(pool);
}

/* --- gaps of a reader -------------------------------------------------------------------------- */

struct reader {
	struct tide_pool *pool;
	uint64_t n_pages;
	atomic_int stop;
	uint64_t n_fixes, longest_ns, over; /* over 100 us */
};

static void *read_pages(void *argument)
{
	struct reader *reader = argument;
	struct tide_reason why = {0};
	struct tide_session *session;
	uint64_t state = 7, before;

	source_must(tide_session_open(reader->pool, &session, &why), &why);
	before = bench_now_ns();
	while (!atomic_load_explicit(&reader->stop, memory_order_relaxed)) {
		const struct tide_page_id id = {.file = 1,
						.page = trace_random(&state) % reader->n_pages};
		struct tide_fix fix;
		uint64_t now;

		source_must(tide_pool_fix(session, &id, TIDE_FIX_READ, &fix, &why), &why);
		tide_pool_unfix(session, &fix);
		now = bench_now_ns();
		if (now - before > reader->longest_ns)
			reader->longest_ns = now - before;
		reader->over += now - before > 100000;
		reader->n_fixes++;
		before = now;
	}
	tide_session_close(session);
	return NULL;
}

/* One reader for a while; @resizing: the pool swings beside it, otherwise a loop burns as much time. */
static struct reader gaps_once(struct tide_pool *pool, struct tide_session *session, uint64_t bytes,
			       uint64_t hot_pages, int resizing, uint64_t for_ns)
{
	struct reader reader = {.pool = pool, .n_pages = hot_pages};
	const uint64_t start = bench_now_ns();
	pthread_t thread;

	if (pthread_create(&thread, NULL, read_pages, &reader) != 0)
		exit(1);
	while (bench_now_ns() - start < for_ns) {
		if (!resizing)
			continue;
		(void)resize(session, bytes / 4);
		(void)resize(session, bytes);
	}
	atomic_store(&reader.stop, 1);
	pthread_join(thread, NULL);
	return reader;
}

static void gaps(const struct bench_options *options, json_t *figures)
{
	const uint64_t bytes = GIB / 4, hot_pages = bytes / PAGE_BYTES / 8;
	const uint64_t for_ns = options->quick ? 500000000 : 5000000000;
	struct tide_session *session;
	struct tide_pool *pool = source_pool(PAGE_BYTES, bytes, bytes, 0, &session);
	struct reader quiet, swinging;
	char against[96];

	if (pool == NULL)
		return;
	source_fill(session, bytes / PAGE_BYTES);
	for (int i = 0; i < 4; i++)
		source_fill(session, hot_pages);
	quiet = gaps_once(pool, session, bytes, hot_pages, 0, for_ns);
	swinging = gaps_once(pool, session, bytes, hot_pages, 1, for_ns);
	snprintf(against, sizeof(against), "beside a loop: %.0f us, %" PRIu64 " of %" PRIu64,
		 (double)quiet.longest_ns / 1e3, quiet.over, quiet.n_fixes);
	bench_row("longest gap of a reader beside resizes", (double)swinging.longest_ns / 1e3, "us",
		  against);
	bench_row("gaps over 100 us, of a million fixes",
		  (double)swinging.over * 1e6 / (double)swinging.n_fixes, "", "");
	json_object_set_new(figures, "gaps",
			    json_pack("{s:f, s:f, s:I, s:I, s:I, s:I}", "longest_us",
				      (double)swinging.longest_ns / 1e3, "quiet_longest_us",
				      (double)quiet.longest_ns / 1e3, "over_100us_count",
				      (json_int_t)swinging.over, "quiet_over_100us_count",
				      (json_int_t)quiet.over, "fixes_count",
				      (json_int_t)swinging.n_fixes, "quiet_fixes_count",
				      (json_int_t)quiet.n_fixes));
	tide_session_close(session);
	tide_pool_detach(pool);
}

static void beside(const struct bench_options *options, json_t *figures, int huge)
{
	const uint64_t bytes = options->quick ? GIB / 8 : GIB;
	struct tide_pool_status status;
	struct tide_session *session;
	struct tide_reason why = {0};
	struct tide_pool *pool = source_pool(PAGE_BYTES, bytes, 256 * GIB, huge, &session);
	char name[96];

	if (pool == NULL)
		return;
	source_must(tide_pool_status(pool, &status, &why), &why);
	snprintf(name, sizeof(name), "beside the pages, ceiling 256 GiB (%s)",
		 huge ? "huge" : "base");
	bench_row(name, (double)status.beside_bytes / 1048576, "MiB", "12 allowed at 1 GiB");
	json_object_set_new(figures, huge ? "huge_beside_bytes" : "base_beside_bytes",
			    json_integer((json_int_t)status.beside_bytes));
	tide_session_close(session);
	tide_pool_detach(pool);
}

json_t *bench_resize(const struct bench_options *options)
{
	json_t *figures = json_object();

	for (int huge = 0; huge < 2; huge++) {
		clean_shrink(options, figures, huge);
		beside(options, figures, huge);
	}
	kept_share(options, figures);
	gaps(options, figures);
	return figures;
}
