/* SPDX-License-Identifier: PostgreSQL */
/*
 * board.h - what participants tell the supervisor, in shared memory.
 *
 * A place has one writer: the thread that has it, and after that died the one that takes it over.
 * Numbers go on, so that nothing is lost with a process that was killed.
 */
#ifndef TIDESTRESS_BOARD_H
#define TIDESTRESS_BOARD_H

#include <stdatomic.h>
#include <stdint.h>

#include <tidepool/pool.h>

#include "trail.h"

#define BOARD_FINDINGS 32u
#define BOARD_LATENCIES 256u /* buckets */

/* What a thread is doing at this moment. */
enum board_doing {
	BOARD_NOTHING,
	BOARD_OPENING,
	BOARD_FIXING_PIN, /* in the order of enum tide_fix_mode */
	BOARD_FIXING_READ,
	BOARD_FIXING_WRITE,
	BOARD_FIXING_NEW,
	BOARD_VERIFYING,
	BOARD_WRITING,
	BOARD_HOLDING,
	BOARD_UNFIXING,
	BOARD_FLUSHING,
	BOARD_DROPPING,
	BOARD_PREFETCHING,
	BOARD_RESIZING,
	BOARD_PARKED,
};

enum board_count {
	BOARD_PINS, /* in the order of enum tide_fix_mode */
	BOARD_READS,
	BOARD_WRITES,
	BOARD_NEWS,
	BOARD_VERIFIED,
	BOARD_FELL_BACK,
	BOARD_REPAIRED, /* pages that storage held torn, begun again */
	BOARD_FLUSHES,
	BOARD_FLUSHES_FAILED,
	BOARD_DROPS,
	BOARD_DROPS_PARTIAL,
	BOARD_PREFETCHED,
	BOARD_IO_ERRORS,
	BOARD_CORRUPT,
	BOARD_EXHAUSTED,
	BOARD_TORN_PINNED, /* a page whose writer died, and others kept it fixed */
	BOARD_COUNTS
};

struct board_place {
	_Alignas(64) _Atomic uint64_t beats; /* grows as long as it gets on */
	_Atomic uint64_t page;		     /* that it is at */
	_Atomic uint32_t doing;
	_Atomic uint32_t parked;
	_Atomic uint64_t count[BOARD_COUNTS];
	_Atomic uint64_t latency[BOARD_LATENCIES]; /* of fixes */
	_Atomic uint64_t latency_max_ns;
};

/* Resizes. @outcome: by enum tide_op_state; @resizing: the resizer does it at this moment */
struct board_resizer {
	_Atomic uint64_t outcome[TIDE_OP_STATES];
	_Atomic uint64_t refused;
	_Atomic uint32_t resizing;
	_Atomic uint64_t longest_ns;
};

/* @page: of the footprint, that it is about; BOARD_NO_PAGE = about none */
#define BOARD_NO_PAGE UINT64_MAX
struct board_finding {
	_Atomic uint32_t complete;
	uint64_t page;
	char text[1000];
};

struct board {
	_Atomic uint32_t stop;	/* everybody ends */
	_Atomic uint32_t pause; /* everybody parks */
	_Atomic uint32_t n_findings;
	uint32_t n_places, n_processes;
	uint64_t start_ns;
	struct board_finding finding[BOARD_FINDINGS];
	struct board_resizer resizer;
	/* n_places of threads and the resizer; the last of the others is the resizer, too */
	struct board_place *place;
	struct trail *trail;
	_Atomic uint64_t (*faults)[TIDE_FAULTS]; /* of each process number, by kind */
	_Atomic uint32_t *killed; /* of each process number, how many lives are over or ending */
};

/* NULL = no memory */
struct board *board_open(uint32_t n_processes, uint32_t n_threads);
void board_close(struct board *board);

uint64_t board_clock_ns(void);

/* A fault was found: everybody ends. */
__attribute__((format(printf, 2, 3))) void board_find(struct board *board, const char *format, ...);
__attribute__((format(printf, 3, 4))) void board_find_about(struct board *board, uint64_t page,
							    const char *format, ...);

static inline void board_add(struct board_place *place, enum board_count what, uint64_t n)
{
	atomic_fetch_add_explicit(&place->count[what], n, memory_order_relaxed);
}

static inline void board_do(struct board_place *place, enum board_doing doing, uint64_t page)
{
	atomic_store_explicit(&place->page, page, memory_order_relaxed);
	atomic_store_explicit(&place->doing, doing, memory_order_relaxed);
	atomic_fetch_add_explicit(&place->beats, 1, memory_order_relaxed);
}

static inline int board_stopped(const struct board *board)
{
	return atomic_load_explicit(&board->stop, memory_order_relaxed) != 0;
}

/* "fixing a page for writing" */
const char *board_doing_name(enum board_doing doing);

/* Wait while everybody is to pause; @place holds nothing. */
void board_park(struct board *board, struct board_place *place);

/* How many have ended, in whatever way. */
uint64_t board_resizes(const struct board *board);

void board_latency(struct board_place *place, uint64_t ns);

/* All places together. */
struct board_sum {
	uint64_t count[BOARD_COUNTS];
	uint64_t latency[BOARD_LATENCIES];
	uint64_t latency_max_ns;
	uint64_t fixes;
	uint64_t faults[TIDE_FAULTS];
};
void board_sum(const struct board *board, struct board_sum *sum);

/* The latency that a @share (0.99) of the fixes in @now and not in @before stayed below. */
uint64_t board_percentile_ns(const struct board_sum *now, const struct board_sum *before,
			     double share);

#endif
