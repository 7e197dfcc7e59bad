/* SPDX-License-Identifier: PostgreSQL */
/* board.c - what participants tell the supervisor, in shared memory. */
#include "board.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static size_t board_bytes(uint32_t n_processes, uint32_t n_places)
{
	return sizeof(struct board) + 64 + (n_places + 1u) * sizeof(struct board_place) +
	       (n_processes + 1u) * (sizeof(uint64_t[TIDE_FAULTS]) + sizeof(uint32_t));
}

struct board *board_open(uint32_t n_processes, uint32_t n_threads)
{
	uint32_t n_places = n_processes * n_threads;
	char *memory = mmap(NULL, board_bytes(n_processes, n_places), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct board *board = (struct board *)memory;

	if (memory == MAP_FAILED)
		return NULL;
	board->trail = trail_open();
	if (!board->trail) {
		(void)munmap(memory, board_bytes(n_processes, n_places));
		return NULL;
	}
	board->n_places = n_places;
	board->n_processes = n_processes;
	board->start_ns = board_clock_ns();
	board->place = (struct board_place *)(memory + (sizeof(struct board) + 63) / 64 * 64);
	board->faults = (_Atomic uint64_t(*)[TIDE_FAULTS])(board->place + n_places + 1);
	board->killed = (_Atomic uint32_t *)(board->faults + n_processes + 1);
	return board;
}

void board_close(struct board *board)
{
	trail_close(board->trail);
	(void)munmap(board, board_bytes(board->n_processes, board->n_places));
}

uint64_t board_clock_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void find(struct board *board, uint64_t page, const char *format, va_list arguments)
{
	uint32_t n = atomic_fetch_add_explicit(&board->n_findings, 1, memory_order_relaxed);
	double seconds = (double)(board_clock_ns() - board->start_ns) / 1e9;
	struct board_finding *finding = &board->finding[n];
	int used;

	atomic_store_explicit(&board->stop, 1, memory_order_relaxed);
	if (n >= BOARD_FINDINGS)
		return;
	used = snprintf(finding->text, sizeof(finding->text), "after %.6f s, process %d: ", seconds,
			(int)getpid());
	(void)vsnprintf(finding->text + used, sizeof(finding->text) - (size_t)used, format,
			arguments);
	finding->page = page;
	/* (A) pairs with (B) in the report: who sees it complete sees the text. */
	atomic_store_explicit(&finding->complete, 1, memory_order_release);
}

void board_find(struct board *board, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	find(board, BOARD_NO_PAGE, format, arguments);
	va_end(arguments);
}

void board_find_about(struct board *board, uint64_t page, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	find(board, page, format, arguments);
	va_end(arguments);
}

const char *board_doing_name(enum board_doing doing)
{
	static const char *const names[] = {
		[BOARD_NOTHING] = "nothing",
		[BOARD_OPENING] = "opening a session",
		[BOARD_FIXING_PIN] = "pinning a page",
		[BOARD_FIXING_READ] = "fixing a page for reading",
		[BOARD_FIXING_WRITE] = "fixing a page for writing",
		[BOARD_FIXING_NEW] = "fixing a page as new",
		[BOARD_VERIFYING] = "verifying a page",
		[BOARD_WRITING] = "writing to a page",
		[BOARD_HOLDING] = "holding pages fixed",
		[BOARD_UNFIXING] = "unfixing a page",
		[BOARD_FLUSHING] = "flushing pages",
		[BOARD_DROPPING] = "dropping pages",
		[BOARD_PREFETCHING] = "prefetching pages",
		[BOARD_RESIZING] = "resizing",
		[BOARD_PARKED] = "parked",
	};

	return names[doing];
}

void board_park(struct board *board, struct board_place *place)
{
	const struct timespec nap = {.tv_nsec = 200000};

	if (!atomic_load_explicit(&board->pause, memory_order_acquire))
		return;
	board_do(place, BOARD_PARKED, 0);
	/* (C) pairs with (D) in validate: what was done to the pool before is done. */
	atomic_store_explicit(&place->parked, 1, memory_order_release);
	while (atomic_load_explicit(&board->pause, memory_order_acquire) && !board_stopped(board)) {
		(void)nanosleep(&nap, NULL);
		board_do(place, BOARD_PARKED, 0);
	}
	atomic_store_explicit(&place->parked, 0, memory_order_relaxed);
	board_do(place, BOARD_NOTHING, 0);
}

uint64_t board_resizes(const struct board *board)
{
	uint64_t n = 0;

	for (int state = 0; state < TIDE_OP_STATES; state++)
		n += atomic_load_explicit(&board->resizer.outcome[state], memory_order_relaxed);
	return n;
}

/* --- latencies -------------------------------------------------------------------------------- */

/* Four buckets for each power of two. */
static uint32_t bucket_of(uint64_t ns)
{
	uint64_t value = ns < 4 ? 4 : ns;
	unsigned octave = 63u - (unsigned)__builtin_clzll(value);
	uint32_t bucket = 4 * (octave - 2) + (uint32_t)(value >> (octave - 2) & 3);

	return bucket < BOARD_LATENCIES ? bucket : BOARD_LATENCIES - 1;
}

/* The largest latency that falls into @bucket. */
static uint64_t bucket_top_ns(uint32_t bucket)
{
	return ((UINT64_C(5) + bucket % 4) << (bucket / 4)) - 1;
}

void board_latency(struct board_place *place, uint64_t ns)
{
	atomic_fetch_add_explicit(&place->latency[bucket_of(ns)], 1, memory_order_relaxed);
	if (ns > atomic_load_explicit(&place->latency_max_ns, memory_order_relaxed))
		atomic_store_explicit(&place->latency_max_ns, ns, memory_order_relaxed);
}

static void sum_place(const struct board_place *place, struct board_sum *sum)
{
	uint64_t max = atomic_load_explicit(&place->latency_max_ns, memory_order_relaxed);

	for (uint32_t i = 0; i < BOARD_COUNTS; i++)
		sum->count[i] += atomic_load_explicit(&place->count[i], memory_order_relaxed);
	for (uint32_t i = 0; i < BOARD_LATENCIES; i++)
		sum->latency[i] += atomic_load_explicit(&place->latency[i], memory_order_relaxed);
	if (max > sum->latency_max_ns)
		sum->latency_max_ns = max;
}

void board_sum(const struct board *board, struct board_sum *sum)
{
	*sum = (struct board_sum){0};
	for (uint32_t i = 0; i < board->n_places; i++)
		sum_place(&board->place[i], sum);
	sum->fixes = sum->count[BOARD_PINS] + sum->count[BOARD_READS] + sum->count[BOARD_WRITES] +
		     sum->count[BOARD_NEWS];
	for (uint32_t p = 0; p <= board->n_processes; p++)
		for (uint32_t kind = 0; kind < TIDE_FAULTS; kind++)
			sum->faults[kind] +=
				atomic_load_explicit(&board->faults[p][kind], memory_order_relaxed);
}

uint64_t board_percentile_ns(const struct board_sum *now, const struct board_sum *before,
			     double share)
{
	uint64_t total = 0, below = 0;

	for (uint32_t i = 0; i < BOARD_LATENCIES; i++)
		total += now->latency[i] - before->latency[i];
	for (uint32_t i = 0; i < BOARD_LATENCIES; i++) {
		below += now->latency[i] - before->latency[i];
		if (total > 0 && (double)below >= share * (double)total)
			return bucket_top_ns(i);
	}
	return 0;
}
