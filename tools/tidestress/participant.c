/* SPDX-License-Identifier: PostgreSQL */
/* participant.c - a process whose threads use the pool and verify what they see. */
#include "participant.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "resizer.h"
#include "worker.h"

#define HOLD_NS_MAX 3000000u
#define RESIZES 10u /* of the resizer for one of a worker */

int participant_may_exhaust(const struct options *options)
{
	uint64_t smallest_bytes = options->start_bytes;
	uint64_t users = (uint64_t)options_participants(options) * MODEL_INTENTS;

	if (options->resize_ns > 0)
		smallest_bytes = options->max_bytes / 100 * options->resize_min_percent;
	return smallest_bytes / options->page_bytes < 2 * users + 64;
}

/* --- a worker --------------------------------------------------------------------------------- */

static enum tide_fix_mode pick_mode(struct worker *worker)
{
	const uint32_t *weight = worker->options->mode_weight;
	int writes = random_unit(&worker->random) < worker->options->write_ratio;
	enum tide_fix_mode first = writes ? TIDE_FIX_WRITE : TIDE_FIX_PIN;
	enum tide_fix_mode second = writes ? TIDE_FIX_NEW : TIDE_FIX_READ;
	uint64_t both = (uint64_t)weight[first] + weight[second];

	return random_below(&worker->random, both) < weight[first] ? first : second;
}

static int compare_pages(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

/*
 * One page mostly, several now and then: in ascending order and each once, because who fixes two
 * pages in opposite order waits for ever, and that is not what we look for.
 */
static uint32_t pick_pages(struct worker *worker, uint64_t pages[MODEL_INTENTS])
{
	uint32_t wanted = 1, n = 1;

	if (random_one_in(&worker->random, 8))
		wanted = 1 + (uint32_t)random_below(&worker->random, MODEL_INTENTS);
	pages[0] = key_next(&worker->keys, &worker->random);
	for (uint32_t i = 1; i < wanted; i++)
		pages[i] = key_next(&worker->keys, &worker->random);
	qsort(pages, wanted, sizeof(pages[0]), compare_pages);
	for (uint32_t i = 1; i < wanted; i++)
		if (pages[i] != pages[n - 1])
			pages[n++] = pages[i];
	return n;
}

static void linger(struct worker *worker, const struct hold *holds, uint32_t n)
{
	struct timespec nap = {.tv_nsec = (long)random_below(&worker->random, HOLD_NS_MAX)};

	board_do(worker->place, BOARD_HOLDING, holds[0].page);
	(void)nanosleep(&nap, NULL);
	for (uint32_t i = 0; i < n; i++)
		hold_check(worker, &holds[i]);
}

static void use_pages(struct worker *worker)
{
	uint64_t pages[MODEL_INTENTS];
	struct hold holds[MODEL_INTENTS];
	uint32_t n_pages = pick_pages(worker, pages), n = 0;

	for (uint32_t i = 0; i < n_pages; i++)
		n += (uint32_t)hold_begin(worker, &holds[n], pages[i], pick_mode(worker), i);
	if (n > 0 && random_one_in(&worker->random, 256))
		linger(worker, holds, n);
	while (n > 0) {
		uint32_t i = (uint32_t)random_below(&worker->random, n);

		hold_end(worker, &holds[i]);
		holds[i] = holds[--n];
	}
}

/* When everybody together should do it every @every_ns, when does this worker do it next? */
static uint64_t next_ns(struct worker *worker, uint64_t every_ns)
{
	uint64_t spread_ns = 2 * every_ns * options_participants(worker->options);

	if (every_ns == 0)
		return UINT64_MAX;
	return board_clock_ns() + random_below(&worker->random, spread_ns);
}

static void do_chores(struct worker *worker)
{
	uint64_t now_ns = board_clock_ns();

	if (now_ns >= worker->next_flush_ns) {
		chore_flush(worker);
		worker->next_flush_ns = next_ns(worker, worker->options->flush_ns);
	}
	if (now_ns >= worker->next_drop_ns) {
		chore_drop(worker);
		worker->next_drop_ns = next_ns(worker, worker->options->drop_ns);
	}
	if (now_ns >= worker->next_resize_ns) {
		resize_once(&worker->resize);
		worker->next_resize_ns = next_ns(worker, RESIZES * worker->options->resize_ns);
	}
	if (random_one_in(&worker->random, 500))
		chore_prefetch(worker);
}

static int open_session(struct worker *worker)
{
	struct tide_reason why = {0};

	board_do(worker->place, BOARD_OPENING, 0);
	if (tide_session_open(worker->ground->pool, &worker->session, &why) == 0)
		return 1;
	board_find(worker->ground->board, "a session cannot be opened: %s: %s",
		   tide_code_name(why.code), why.message);
	return 0;
}

static void *worker_main(void *argument)
{
	struct worker *worker = argument;
	struct board *board = worker->ground->board;

	if (!open_session(worker))
		return NULL;
	worker->next_flush_ns = next_ns(worker, worker->options->flush_ns);
	worker->next_drop_ns = next_ns(worker, worker->options->drop_ns);
	worker->next_resize_ns = next_ns(worker, RESIZES * worker->options->resize_ns);
	worker->resize = (struct resize){
		.ground = worker->ground,
		.place = worker->place,
		.session = worker->session,
		.random = &worker->random,
	};
	if (worker->options->resizer_thread && worker->slot == 0)
		resizer_storm(&worker->resize);
	while (!board_stopped(board)) {
		use_pages(worker);
		do_chores(worker);
		board_park(board, worker->place);
	}
	board_do(worker->place, BOARD_NOTHING, 0);
	tide_session_close(worker->session);
	return NULL;
}

/* --- the process ------------------------------------------------------------------------------ */

static struct worker new_worker(struct ground *ground, uint32_t process, uint32_t thread,
				uint32_t life)
{
	const struct options *options = ground->options;
	uint32_t slot = process * options->threads + thread;
	struct worker worker = {
		.ground = ground,
		.options = options,
		.model = &ground->model,
		.place = &ground->board->place[slot],
		.random = random_stream(options->seed, slot, life),
		.slot = slot,
		.me = (uint64_t)life << 32 | slot,
	};

	key_source_init(&worker.keys, options->distribution, options->skew,
			options_footprint(options));
	return worker;
}

int participant_main(struct ground *ground, uint32_t process, uint32_t life)
{
	const struct options *options = ground->options;
	struct random random = random_stream(options->seed, UINT64_C(1) << 32 | process, life);
	struct worker *workers = calloc(options->threads, sizeof(*workers));
	pthread_t *threads = calloc(options->threads, sizeof(*threads));
	uint32_t n = 0;
	int error = workers && threads ? 0 : 1;

	if (error == 0 &&
	    !ground_enter(ground, process, life, random_next(&random), process % 2 == 1))
		error = 1;
	for (; error == 0 && n < options->threads; n++) {
		workers[n] = new_worker(ground, process, n, life);
		error = pthread_create(&threads[n], NULL, worker_main, &workers[n]);
		if (error != 0)
			break;
	}
	if (error != 0)
		board_find(ground->board, "process %" PRIu32 " cannot start: %s", process,
			   strerror(error));
	for (uint32_t i = 0; i < n; i++)
		(void)pthread_join(threads[i], NULL);
	if (error == 0)
		ground_leave(ground);
	free(threads);
	free(workers);
	return error != 0;
}
