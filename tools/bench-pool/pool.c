/* SPDX-License-Identifier: PostgreSQL */
/*
 * bench-pool/pool.c - what a fix and an unfix cost.
 *
 * The floor is what every pool pays that keeps its pins in the descriptor: two locked additions on the
 * descriptor of a buffer whose number is known already.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench-pool/bench.h"
#include "bench-pool/source.h"
#include "bench-pool/trace.h"

#define PAGE_BYTES 4096u
#define ROUNDS_MAX 64u

enum touch {
	TOUCH_NOTHING,
	TOUCH_PAGE,   /* read 8 bytes of the page */
	TOUCH_SERIAL, /* and let the next page depend on them */
};

/* One loop of fixes. */
struct loop {
	struct tide_session *session;
	uint64_t n_pages;
	uint64_t n_fixes;
	enum tide_fix_mode mode;
	enum touch touch;
	uint64_t seed;
	double ns; /* out: of one fix and unfix */
};

static void loop_run(struct loop *loop)
{
	struct tide_reason why = {0};
	uint64_t state = loop->seed, depends = 0;
	const uint64_t start = bench_now_ns();

	for (uint64_t i = 0; i < loop->n_fixes; i++) {
		const uint64_t draw = trace_random(&state) ^ depends;
		const struct tide_page_id id = {
			.file = 1,
			.page = (uint64_t)(((unsigned __int128)draw * loop->n_pages) >> 64)};
		struct tide_fix fix;
		uint64_t word = 0;

		source_must(tide_pool_fix(loop->session, &id, loop->mode, &fix, &why), &why);
		if (loop->touch != TOUCH_NOTHING)
			word = *(const volatile uint64_t *)fix.page;
		if (loop->touch == TOUCH_SERIAL)
			depends =
				word == UINT64_MAX; /* never, but the processor must wait for it */
		tide_pool_unfix(loop->session, &fix);
	}
	loop->ns = (double)(bench_now_ns() - start) / (double)loop->n_fixes;
}

static double median_of(const struct bench_options *options, const struct loop *like)
{
	double ns[ROUNDS_MAX];
	unsigned n = bench_rounds(options, ROUNDS_MAX);

	for (unsigned i = 0; i < n; i++) {
		struct loop loop = *like;

		loop.seed = i + 1;
		loop_run(&loop);
		ns[i] = loop.ns;
	}
	return bench_median(ns, n);
}

/* Pin and unpin of a known buffer, by locked additions; descriptors of 64 bytes. */
static double floor_ns(const struct bench_options *options, uint64_t n_pages, uint64_t n_fixes)
{
	struct line {
		_Alignas(64) _Atomic uint64_t pins;
	} *lines = aligned_alloc(64, n_pages * sizeof(struct line));
	double ns[ROUNDS_MAX];
	unsigned n = bench_rounds(options, ROUNDS_MAX);

	if (lines == NULL)
		return 0;
	for (uint64_t i = 0; i < n_pages; i++)
		atomic_init(&lines[i].pins, 0);
	for (unsigned r = 0; r < n; r++) {
		uint64_t state = r + 1;
		const uint64_t start = bench_now_ns();

		for (uint64_t i = 0; i < n_fixes; i++) {
			const uint64_t page =
				(uint64_t)(((unsigned __int128)trace_random(&state) * n_pages) >>
					   64);

			atomic_fetch_add_explicit(&lines[page].pins, 1, memory_order_acquire);
			atomic_fetch_sub_explicit(&lines[page].pins, 1, memory_order_release);
		}
		ns[r] = (double)(bench_now_ns() - start) / (double)n_fixes;
	}
	free(lines);
	return bench_median(ns, n);
}

static void add(json_t *figures, const char *size, const char *what, double value, const char *unit)
{
	char key[96];

	snprintf(key, sizeof(key), "%s_%s_%s", size, what, unit);
	json_object_set_new(figures, key, json_real(value));
}

struct runner {
	struct loop loop;
	struct tide_pool *pool;
	pthread_barrier_t *barrier;
};

static void *run_thread(void *argument)
{
	struct runner *runner = argument;
	struct tide_reason why = {0};

	source_must(tide_session_open(runner->pool, &runner->loop.session, &why), &why);
	pthread_barrier_wait(runner->barrier);
	loop_run(&runner->loop);
	tide_session_close(runner->loop.session);
	return NULL;
}

/* Throughput of two threads over that of one. */
static double scaling(const struct bench_options *options, struct tide_pool *pool,
		      const struct loop *like, double one_ns)
{
	double ratios[ROUNDS_MAX];
	unsigned n = bench_rounds(options, ROUNDS_MAX);

	for (unsigned r = 0; r < n; r++) {
		struct runner runners[2];
		pthread_t threads[2];
		pthread_barrier_t barrier;

		pthread_barrier_init(&barrier, NULL, 2);
		for (int i = 0; i < 2; i++) {
			runners[i] =
				(struct runner){.loop = *like, .pool = pool, .barrier = &barrier};
			runners[i].loop.seed = r * 2 + (unsigned)i + 1;
			if (pthread_create(&threads[i], NULL, run_thread, &runners[i]) != 0)
				exit(1);
		}
		for (int i = 0; i < 2; i++)
			pthread_join(threads[i], NULL);
		pthread_barrier_destroy(&barrier);
		ratios[r] = one_ns / runners[0].loop.ns + one_ns / runners[1].loop.ns;
	}
	return bench_median(ratios, n);
}

/* The same with two processes: the pages are those of the parent. */
static double scaling_processes(struct tide_pool *pool, const struct loop *like, double one_ns)
{
	double *ns = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double ratio = 0;
	pid_t child[2];

	if (ns == MAP_FAILED)
		return 0;
	for (int i = 0; i < 2; i++) {
		child[i] = fork();
		if (child[i] == 0) {
			struct loop loop = *like;
			struct tide_reason why = {0};

			source_must(tide_session_open(pool, &loop.session, &why), &why);
			loop.seed = (uint64_t)i + 1;
			loop_run(&loop);
			ns[i] = loop.ns;
			tide_session_close(loop.session);
			_exit(0);
		}
	}
	for (int i = 0; i < 2; i++)
		if (child[i] > 0 && waitpid(child[i], NULL, 0) == child[i] && ns[i] > 0)
			ratio += one_ns / ns[i];
	munmap(ns, 4096);
	return ratio;
}

static void other_modes(const struct bench_options *options, json_t *figures, const char *size,
			const struct loop *like)
{
	static const struct {
		const char *what;
		enum tide_fix_mode mode;
		enum touch touch;
	} kinds[] = {{"read", TIDE_FIX_READ, TOUCH_NOTHING},
		     {"write", TIDE_FIX_WRITE, TOUCH_NOTHING},
		     {"pin_touch", TIDE_FIX_PIN, TOUCH_PAGE},
		     {"pin_serial", TIDE_FIX_PIN, TOUCH_SERIAL}};

	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct loop loop = *like;
		char name[96];
		double ns;

		loop.mode = kinds[i].mode;
		loop.touch = kinds[i].touch;
		ns = median_of(options, &loop);
		snprintf(name, sizeof(name), "%s, %s", size, kinds[i].what);
		bench_row(name, ns, "ns", "");
		add(figures, size, kinds[i].what, ns, "ns");
	}
}

static void hits(const struct bench_options *options, json_t *figures, int huge, const char *size,
		 uint64_t n_pages)
{
	const uint64_t n_fixes = options->quick ? 200000 : 4000000;
	struct loop loop = {.n_pages = n_pages, .n_fixes = n_fixes, .mode = TIDE_FIX_PIN};
	struct tide_session *session;
	struct tide_pool *pool =
		source_pool(PAGE_BYTES, n_pages * PAGE_BYTES, n_pages * PAGE_BYTES, huge, &session);
	char name[96], against[64];
	double floor, pin_ns, threads, processes;

	if (pool == NULL)
		return;
	loop.session = session;
	source_fill(session, n_pages);
	floor = floor_ns(options, n_pages, n_fixes);
	snprintf(against, sizeof(against), "known buffer, locked: %.1f", floor);
	add(figures, size, "floor", floor, "ns");
	pin_ns = median_of(options, &loop);
	snprintf(name, sizeof(name), "%s, fix for pinning + unfix", size);
	bench_row(name, pin_ns, "ns", against);
	add(figures, size, "pin", pin_ns, "ns");
	threads = scaling(options, pool, &loop, pin_ns);
	processes = scaling_processes(pool, &loop, pin_ns);
	add(figures, size, "two_threads", threads, "ratio");
	add(figures, size, "two_processes", processes, "ratio");
	snprintf(name, sizeof(name), "%s, two threads against one", size);
	snprintf(against, sizeof(against), "two processes: %.2f", processes);
	bench_row(name, threads, "x", against);
	other_modes(options, figures, size, &loop);
	tide_session_close(session);
	tide_pool_detach(pool);
}

/* Uniform over eight times what fits. The source makes a page up in its time. */
static void misses(const struct bench_options *options, json_t *figures)
{
	const uint64_t n_pages = options->quick ? 8192 : 65536;
	struct loop loop = {.n_pages = n_pages * 8,
			    .n_fixes = options->quick ? 50000 : 1000000,
			    .mode = TIDE_FIX_PIN};
	struct tide_session *session;
	struct tide_pool *pool =
		source_pool(PAGE_BYTES, n_pages * PAGE_BYTES, n_pages * PAGE_BYTES, 0, &session);
	double ns;

	if (pool == NULL)
		return;
	loop.session = session;
	source_fill(session, n_pages);
	ns = median_of(options, &loop);
	bench_row("7 of 8 fixes miss and evict", ns, "ns", "");
	json_object_set_new(figures, "miss_ns", json_real(ns));
	tide_session_close(session);
	tide_pool_detach(pool);
}

json_t *bench_pool(const struct bench_options *options)
{
	const uint64_t many = options->quick ? 65536 : 1048576;
	json_t *figures = json_object();

	hits(options, figures, 0, "base_16k", 16384);
	hits(options, figures, 1, "huge_16k", 16384);
	hits(options, figures, 0, "base_1m", many);
	hits(options, figures, 1, "huge_1m", many);
	misses(options, figures);
	return figures;
}
