/* SPDX-License-Identifier: PostgreSQL */
/* resizer.c - the process that gives the pool a random size again and again. */
#include "resizer.h"

#include <time.h>

void resizer_storm(struct resize *resize)
{
	const struct timespec nap = {.tv_nsec = 1000000};
	struct board *board = resize->ground->board;
	uint64_t every_ns = resize->ground->options->resize_ns;
	uint64_t next_ns = board_clock_ns();

	while (!board_stopped(board)) {
		if (board_clock_ns() >= next_ns) {
			next_ns = board_clock_ns() + random_below(resize->random, 2 * every_ns);
			atomic_store_explicit(&board->resizer.resizing, 1, memory_order_relaxed);
			resize_once(resize);
			atomic_store_explicit(&board->resizer.resizing, 0, memory_order_relaxed);
		}
		board_do(resize->place, BOARD_NOTHING, 0);
		board_park(board, resize->place);
		(void)nanosleep(&nap, NULL);
	}
}

int resizer_main(struct ground *ground, uint32_t life)
{
	const struct options *options = ground->options;
	struct random random = random_stream(options->seed, UINT64_C(2) << 32, life);
	struct resize resize = {
		.ground = ground,
		.place = &ground->board->place[ground->board->n_places],
		.random = &random,
	};
	struct tide_reason why = {0};

	if (!ground_enter(ground, options->processes, life, random_next(&random), (int)(life % 2)))
		return 1;
	board_do(resize.place, BOARD_OPENING, 0);
	if (tide_session_open(ground->pool, &resize.session, &why) != 0) {
		board_find(ground->board, "the resizer's session cannot be opened: %s: %s",
			   tide_code_name(why.code), why.message);
		return 1;
	}
	resizer_storm(&resize);
	tide_session_close(resize.session);
	ground_leave(ground);
	return 0;
}
