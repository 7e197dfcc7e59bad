/* SPDX-License-Identifier: PostgreSQL */
/*
 * bench-pool/lookup.c - what a hit costs: find the buffer of a page, pin it, look at its key again, unpin it.
 *
 * Page i lies in buffer i; which page comes next is random. "Overlapped": the processor may begin with
 * the next page before the last one has arrived. "Serialised": the next page depends on the last.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tidepool/grace.h>

#include "bench-pool/bench.h"
#include "bench-pool/lookup_rivals.h"

#define MAX_ROUNDS 31u
#define WORKERS 2u

enum rival {
	FLOOR,
	LOOKUP,
	FIXED,
	PARTITION,
	LFHT,
	RIVALS
};

static const char *const rival_keys[RIVALS] = {"floor_ns", "lookup_ns", "fixed_ns", "partition_ns",
					       "rculfhash_ns"};

/* Everything that is measured, in memory that processes share (but for rculfhash). */
struct arena {
	unsigned char *memory;
	size_t bytes, used;
	uint32_t n_pages;
	struct descriptor *descriptors;
	struct tide_grace_table *grace;
	struct tide_lookup_memory lookup;
	struct partition_table partition;
	struct cds_lfht *lfht;
	struct lfht_page *lfht_pages;
	_Atomic uint32_t *ready; /* workers that wait for each other */
	_Atomic uint64_t *took_ns;
};

/* One worker's share of a round. */
struct work {
	const struct arena *arena;
	enum rival rival;
	uint32_t worker, workers;
	uint64_t ops;
	int serialised;
};

/* --- the loop --------------------------------------------------------------------------------- */

struct reach {
	const struct arena *arena;
	struct tide_lookup *lookup;
	struct tide_reader reader;
	uint64_t n_buckets;
};

static inline __attribute__((always_inline)) uint32_t
find(struct reach *reach, enum rival rival, const struct page_key *key, uint64_t hash)
{
	switch (rival) {
	case FLOOR:
		return (uint32_t)key->page;
	case LOOKUP:
		return tide_lookup_find(reach->lookup, key, hash);
	case FIXED:
		return fixed_find(reach->lookup, reach->n_buckets, key, hash);
	case PARTITION:
		return partition_find(&reach->arena->partition, key, hash);
	default:
		return lfht_find(reach->arena->lfht, key, hash);
	}
}

/* Returns 0 but for a page that was not found, and the compiler does not know. */
static inline __attribute__((always_inline)) uint64_t hit(struct reach *reach, enum rival rival,
							  uint32_t page)
{
	const struct page_key key = {7, page};
	uint64_t hash = rival == FLOOR ? 0 : tide_lookup_hash(reach->lookup, &key);
	struct partition_lock *lock = NULL;
	struct descriptor *descriptor;
	uint32_t buffer, pins;
	uint64_t differs;

	if (rival == LOOKUP || rival == FIXED)
		tide_reader_enter(&reach->reader);
	else if (rival == LFHT)
		urcu_memb_read_lock();
	else if (rival == PARTITION)
		lock = partition_enter(&reach->arena->partition, hash);
	buffer = find(reach, rival, &key, hash);
	if (buffer == TIDE_LOOKUP_NONE)
		return 1;
	descriptor = &reach->arena->descriptors[buffer];
	pins = atomic_fetch_add_explicit(&descriptor->pins, 1, memory_order_acquire);
	if (lock)
		partition_leave(lock);
	/* Under a partition's lock the page cannot have gone; the others look again. */
	differs = pins >> 30;
	if (rival != FLOOR && rival != PARTITION)
		differs |= (descriptor->key.page ^ page) | (descriptor->key.file ^ 7);
	(void)atomic_fetch_sub_explicit(&descriptor->pins, 1, memory_order_release);
	if (rival == LOOKUP || rival == FIXED)
		tide_reader_leave(&reach->reader);
	else if (rival == LFHT)
		urcu_memb_read_unlock();
	return differs;
}

/* @serialised is known where this is compiled: a dependency on 0 would be one as well. */
static inline __attribute__((always_inline)) uint64_t loop(struct reach *reach, enum rival rival,
							   int serialised, const struct work *work)
{
	uint32_t n = reach->arena->n_pages / work->workers, from = work->worker * n;
	uint64_t state = 0x9e3779b97f4a7c15u * (work->worker + 1), wrong = 0;

	for (uint64_t i = 0; i < work->ops; i++) {
		uint64_t differs;

		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		differs = hit(reach, rival, from + (uint32_t)((state >> 32) * n >> 32));
		if (serialised)
			state += differs;
		wrong |= differs;
	}
	return wrong;
}

#define LOOP(rival) \
	case rival: \
		return work->serialised ? loop(reach, rival, 1, work) : loop(reach, rival, 0, work)

static uint64_t run_rival(struct reach *reach, const struct work *work)
{
	switch (work->rival) {
		LOOP(FLOOR);
		LOOP(LOOKUP);
		LOOP(FIXED);
		LOOP(PARTITION);
		LOOP(LFHT);
	default:
		return 1;
	}
}

static void meet(const struct work *work)
{
	(void)atomic_fetch_add_explicit(work->arena->ready, 1, memory_order_acq_rel);
	while (atomic_load_explicit(work->arena->ready, memory_order_acquire) < work->workers)
		;
}

/* 0, or 1 after saying what went wrong. */
static int work_off(const struct work *work)
{
	const struct arena *arena = work->arena;
	struct reach reach = {.arena = arena};
	struct work warm = *work;
	struct tide_lookup_stats stats;
	struct tide_grace *grace;
	struct tide_reason why;
	uint64_t began, wrong;

	if (tide_grace_open(TIDE_GRACE_SHARED, arena->grace, &grace, &why) ||
	    tide_reader_register(grace, &reach.reader, &why) ||
	    tide_lookup_open(&arena->lookup, &reach.lookup, &why)) {
		fprintf(stderr, "bench-pool: %s\n", why.message);
		return 1;
	}
	tide_lookup_stats(reach.lookup, &stats);
	reach.n_buckets = stats.n_buckets;
	urcu_memb_register_thread();
	warm.ops /= 4;
	wrong = run_rival(&reach, &warm);
	meet(work);
	began = bench_now_ns();
	wrong |= run_rival(&reach, work);
	atomic_store_explicit(&arena->took_ns[work->worker], bench_now_ns() - began,
			      memory_order_release);
	urcu_memb_unregister_thread();
	tide_lookup_close(reach.lookup);
	tide_reader_unregister(&reach.reader);
	tide_grace_close(grace);
	if (wrong)
		fprintf(stderr, "bench-pool: a page was not found\n");
	return wrong != 0;
}

static void *thread_main(void *argument)
{
	return work_off(argument) ? argument : NULL;
}

/* Nanoseconds of one hit, average of the workers; below 0 when it failed. */
static double run_workers(struct work work, int processes)
{
	struct work works[WORKERS];
	pthread_t threads[WORKERS];
	pid_t children[WORKERS];
	void *failed = NULL;
	int status, bad = 0;
	double sum = 0;

	atomic_store(work.arena->ready, 0);
	for (uint32_t i = 0; i < work.workers; i++) {
		works[i] = work;
		works[i].worker = i;
		if (processes) {
			children[i] = fork();
			if (children[i] == 0)
				_exit(work_off(&works[i]));
			bad |= children[i] < 0;
		} else {
			bad |= pthread_create(&threads[i], NULL, thread_main, &works[i]);
		}
		if (bad)
			return -1;
	}
	for (uint32_t i = 0; i < work.workers; i++) {
		if (processes)
			bad |= waitpid(children[i], &status, 0) < 0 || status != 0;
		else
			bad |= pthread_join(threads[i], &failed) || failed;
		sum += (double)atomic_load(&work.arena->took_ns[i]);
	}
	return bad ? -1 : sum / work.workers / (double)work.ops;
}

/* --- making ----------------------------------------------------------------------------------- */

static void *carve(struct arena *arena, size_t bytes)
{
	void *at = arena->memory + arena->used;

	arena->used += (bytes + 127) & ~(size_t)127;
	return at;
}

static size_t arena_bytes(uint32_t n_pages)
{
	struct tide_lookup_layout layout;

	tide_lookup_layout(n_pages, &layout);
	return (1u << 20) + layout.bucket_bytes + layout.overflow_bytes +
	       n_pages * (sizeof(struct descriptor) + sizeof(struct element) + 2 * sizeof(void *));
}

static void make_partitions(struct arena *arena)
{
	struct partition_table *table = &arena->partition;
	uint64_t n = 1;

	while (n < arena->n_pages)
		n *= 2;
	table->mask = n - 1;
	table->locks = carve(arena, PARTITIONS * sizeof(struct partition_lock));
	table->directory = carve(arena, n / SEGMENT * sizeof(struct element **));
	for (uint64_t i = 0; i < n / SEGMENT; i++)
		table->directory[i] = carve(arena, SEGMENT * sizeof(struct element *));
}

static int fill(struct arena *arena, struct tide_lookup *lookup)
{
	struct element *elements = carve(arena, arena->n_pages * sizeof(*elements));
	uint32_t existing = 0;

	for (uint32_t i = 0; i < arena->n_pages; i++) {
		struct page_key key = {7, i};
		uint64_t hash = tide_lookup_hash(lookup, &key);
		struct element **chain = partition_chain(&arena->partition, hash);

		arena->descriptors[i].key = key;
		elements[i] = (struct element){*chain, hash, key, i};
		*chain = &elements[i];
		arena->lfht_pages[i].key = key;
		arena->lfht_pages[i].buffer = i;
		urcu_memb_read_lock();
		cds_lfht_add(arena->lfht, (unsigned long)hash, &arena->lfht_pages[i].node);
		urcu_memb_read_unlock();
		if (tide_lookup_insert(lookup, hash, i, &existing, NULL))
			return -1;
	}
	return 0;
}

static void free_arena(struct arena *arena)
{
	struct cds_lfht_iter iter;
	struct lfht_page *page;

	if (arena->lfht) {
		urcu_memb_register_thread();
		urcu_memb_read_lock();
		cds_lfht_for_each_entry(arena->lfht, &iter, page, node)(void)
			cds_lfht_del(arena->lfht, &page->node);
		urcu_memb_read_unlock();
		(void)cds_lfht_destroy(arena->lfht, NULL);
		urcu_memb_unregister_thread();
	}
	free(arena->lfht_pages);
	(void)munmap(arena->memory, arena->bytes);
}

/* 0; 1 = no such memory; -1 after saying why. */
static int make_arena(struct arena *arena, uint32_t n_pages, int flags)
{
	struct tide_lookup_layout layout;
	struct tide_lookup *lookup;
	int rc;

	*arena = (struct arena){.n_pages = n_pages};
	arena->bytes = (arena_bytes(n_pages) + (2u << 20) - 1) & ~(size_t)((2u << 20) - 1);
	arena->memory = mmap(NULL, arena->bytes, PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE | flags, -1, 0);
	if (arena->memory == MAP_FAILED)
		return 1;
	tide_lookup_layout(n_pages, &layout);
	arena->ready = carve(arena, sizeof(*arena->ready));
	arena->took_ns = carve(arena, WORKERS * sizeof(*arena->took_ns));
	arena->grace = carve(arena, tide_grace_table_bytes(16));
	arena->descriptors = carve(arena, n_pages * sizeof(struct descriptor));
	arena->lookup = (struct tide_lookup_memory){
		.head = carve(arena, tide_lookup_head_bytes()),
		.buckets = carve(arena, layout.bucket_bytes),
		.overflow = carve(arena, layout.overflow_bytes),
		.keys = arena->descriptors,
		.stride = sizeof(struct descriptor),
		.length = sizeof(struct page_key),
	};
	make_partitions(arena);
	arena->lfht_pages = calloc(n_pages, sizeof(*arena->lfht_pages));
	arena->lfht = cds_lfht_new_flavor(n_pages, 1, 0, 0, &urcu_memb_flavor, NULL);
	if (!arena->lfht_pages || !arena->lfht || tide_grace_table_init(arena->grace, 16, NULL) ||
	    tide_lookup_init(&arena->lookup, n_pages, 1, NULL) ||
	    tide_lookup_open(&arena->lookup, &lookup, NULL)) {
		fprintf(stderr, "bench-pool: the tables for %u pages cannot be made\n", n_pages);
		free_arena(arena);
		return -1;
	}
	urcu_memb_register_thread();
	rc = fill(arena, lookup);
	urcu_memb_unregister_thread();
	tide_lookup_close(lookup);
	return rc;
}

/* --- figures ---------------------------------------------------------------------------------- */

/* One way to run, every rival in turn in each round; NULL when a worker failed. */
static json_t *measure(const struct arena *arena, const struct bench_options *options,
		       struct work work, int processes, const char *what)
{
	unsigned rounds = bench_rounds(options, MAX_ROUNDS);
	double values[RIVALS][MAX_ROUNDS], median[RIVALS];
	json_t *out = json_object();
	char against[160];

	work.arena = arena;
	work.ops = options->quick ? 50000 : 500000;
	/* In turn, so that what disturbs the machine disturbs all of them. */
	for (unsigned round = 0; round < rounds;
	     round++) /* cppcheck-suppress knownConditionTrueFalse */
		for (int rival = 0; rival < RIVALS; rival++) {
			/* rculfhash lives in one process. */
			if (rival == LFHT && processes)
				continue;
			work.rival = (enum rival)rival;
			values[rival][round] = run_workers(work, processes);
			if (values[rival][round] < 0) {
				json_decref(out);
				return NULL;
			}
		}
	for (int rival = 0; rival < RIVALS; rival++) {
		if (rival == LFHT && processes)
			continue;
		median[rival] = bench_median(values[rival], rounds);
		json_object_set_new(out, rival_keys[rival], json_real(median[rival]));
	}
	snprintf(against, sizeof(against), "floor %.1f, fixed size %.1f, partition lock %.1f",
		 median[FLOOR], median[FIXED], median[PARTITION]);
	if (!processes)
		snprintf(against + strlen(against), sizeof(against) - strlen(against),
			 ", rculfhash %.1f", median[LFHT]);
	bench_row(what, median[LOOKUP], "ns", against);
	return out;
}

static int measure_arena(const struct arena *arena, const struct bench_options *options,
			 const char *name, json_t *out)
{
	static const struct {
		const char *key, *words;
		struct work work;
		int processes;
	} ways[] = {
		{"overlapped", "", {.workers = 1}, 0},
		{"serialised", ", serialised", {.workers = 1, .serialised = 1}, 0},
		{"threads_2", ", 2 threads", {.workers = 2}, 0},
		{"processes_2", ", 2 processes", {.workers = 2}, 1},
	};

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		char what[120];
		json_t *figures;

		snprintf(what, sizeof(what), "hit, %s%s", name, ways[i].words);
		figures = measure(arena, options, ways[i].work, ways[i].processes, what);
		if (!figures)
			return -1;
		json_object_set_new(out, ways[i].key, figures);
	}
	return 0;
}

/* Allow so many huge pages more (or fewer), relative to what is found; without the right to, nothing. */
static void change_overcommit(long pages)
{
	static const char path[] = "/proc/sys/vm/nr_overcommit_hugepages";
	FILE *file = fopen(path, "r+e");
	long found;

	if (!file)
		return;
	if (fscanf(file, "%ld", &found) == 1) {
		rewind(file);
		fprintf(file, "%ld\n", found + pages > 0 ? found + pages : 0);
	}
	(void)fclose(file);
}

static int measure_size(const struct bench_options *options, uint32_t n_pages, int huge,
			const char *key, json_t *out)
{
	long huge_pages = huge ? (long)(arena_bytes(n_pages) >> 21) + 1 : 0;
	json_t *figures = json_object();
	struct arena arena;
	char name[80];
	int rc;

	snprintf(name, sizeof(name), "%u K pages in %s", n_pages / 1024,
		 huge ? "huge pages" : "4 kB pages");
	change_overcommit(huge_pages);
	rc = make_arena(&arena, n_pages, huge ? MAP_HUGETLB : 0);
	change_overcommit(-huge_pages);
	if (rc == 0) {
		rc = measure_arena(&arena, options, name, figures);
		free_arena(&arena);
	} else if (rc == 1) {
		fprintf(stderr, "bench-pool: %s: no such memory, left out\n", name);
		rc = 0;
	}
	json_object_set_new(out, key, figures);
	return rc;
}

json_t *bench_lookup(const struct bench_options *options)
{
	json_t *out = json_object();

	if (measure_size(options, 16 << 10, 0, "pages_16k", out) ||
	    measure_size(options, 16 << 10, 1, "pages_16k_huge", out) ||
	    measure_size(options, 1 << 20, 0, "pages_1m", out) ||
	    measure_size(options, 1 << 20, 1, "pages_1m_huge", out)) {
		json_decref(out);
		return NULL;
	}
	return out;
}
