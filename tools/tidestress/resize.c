/* SPDX-License-Identifier: PostgreSQL */
/* resize.c - one resize to a random size, and whether it may end as it did. */
#include "resize.h"

#include <inttypes.h>
#include <time.h>

#define DEADLINE_NS UINT64_C(2000000000)
#define SHORT_DEADLINE_NS UINT64_C(20000000)
#define REFUSED_LIMIT_NS UINT64_C(10000000000)
#define NAP_NS 1000000u
#define STEPS_BEFORE_NEXT 64u

static struct tide_request pick_request(struct resize *resize)
{
	const struct options *options = resize->ground->options;
	uint64_t low = options->max_bytes / 100 * options->resize_min_percent;
	uint64_t high = options->max_bytes / 100 * options->resize_max_percent;
	uint64_t target, deadline_ns = DEADLINE_NS;

	if (options->resize_max_percent == 100)
		high = options->max_bytes;
	target = low + random_below(resize->random, high - low + 1);
	if (random_one_in(resize->random, 4))
		deadline_ns = 1 + random_below(resize->random, SHORT_DEADLINE_NS);
	return (struct tide_request){
		.target_bytes = target,
		/* a shrink is undone when it does not get there */
		.min_acceptable_bytes = random_one_in(resize->random, 4) ? target : 0,
		.deadline_ns = deadline_ns,
	};
}

/* --- what may be ------------------------------------------------------------------------------ */

static int is_memory(int code)
{
	return code == TIDE_NOT_ENOUGH_MEMORY || code == TIDE_HUGEPAGES_SHORT ||
	       code == TIDE_HUGEPAGE_CGROUP_LIMIT;
}

/* What participants, deadlines and storage faults can bring about. */
static int is_excused(const struct resize *resize, int code)
{
	return code == TIDE_PINNED_BUFFERS || code == TIDE_DIRTY_BACKLOG ||
	       code == TIDE_CANCELLED || is_memory(code) ||
	       (code == TIDE_IO_ERROR && resize->ground->options->faults_per_million > 0);
}

static int is_allowed(const struct resize *resize, const struct tide_progress *progress)
{
	switch (progress->state) {
	case TIDE_OP_DONE:
		return progress->allocatable_bytes == progress->requested_bytes;
	case TIDE_OP_PARTIAL:
	case TIDE_OP_CANCELLED:
	case TIDE_OP_FAILED:
		return is_excused(resize, progress->reason.code);
	case TIDE_OP_SUPERSEDED:
		return 1;
	case TIDE_OP_DENIED:
		return is_memory(progress->reason.code);
	default:
		return 0;
	}
}

static void judge(struct resize *resize, const struct tide_progress *progress)
{
	struct board_resizer *board = &resize->ground->board->resizer;

	resize->refused_since_ns = 0;
	if (progress->state < TIDE_OP_STATES)
		atomic_fetch_add_explicit(&board->outcome[progress->state], 1,
					  memory_order_relaxed);
	if (progress->elapsed_ns > atomic_load_explicit(&board->longest_ns, memory_order_relaxed))
		atomic_store_explicit(&board->longest_ns, progress->elapsed_ns,
				      memory_order_relaxed);
	if (is_allowed(resize, progress))
		return;
	board_find(resize->ground->board,
		   "a resize from %" PRIu64 " to %" PRIu64 " bytes ended as %s at %" PRIu64
		   " bytes: %s: %s",
		   progress->from_bytes, progress->requested_bytes,
		   tide_op_state_name(progress->state), progress->allocatable_bytes,
		   tide_code_name(progress->reason.code), progress->reason.message);
}

/* Somebody else resizes, which must have an end, also when that one died. */
static void wait_for_turn(struct resize *resize, const struct tide_reason *why)
{
	uint64_t now_ns = board_clock_ns();
	uint64_t ended = board_resizes(resize->ground->board);

	if (resize->refused_since_ns == 0 || resize->ended != ended) {
		resize->refused_since_ns = now_ns;
		resize->ended = ended;
		return;
	}
	if (now_ns - resize->refused_since_ns > REFUSED_LIMIT_NS)
		board_find(resize->ground->board,
			   "every resize is refused, and none has ended for 10 s: %s: %s",
			   tide_code_name(why->code), why->message);
}

static void refused(struct resize *resize, const char *what, const struct tide_reason *why)
{
	atomic_fetch_add_explicit(&resize->ground->board->resizer.refused, 1, memory_order_relaxed);
	if (why->code == TIDE_OP_IN_PROGRESS)
		wait_for_turn(resize, why);
	else if (why->code !=
		 TIDE_BELOW_MIN) /* the floor is a chunk, and the pool chooses its size */
		board_find(resize->ground->board, "%s: %s: %s", what, tide_code_name(why->code),
			   why->message);
}

/* --- doing it --------------------------------------------------------------------------------- */

static void at_once(struct resize *resize)
{
	struct tide_request request = pick_request(resize);
	struct tide_progress progress = {0};
	struct tide_reason why = {0};

	if (tide_pool_resize(resize->session, &request, &progress, &why) == 0)
		judge(resize, &progress);
	else
		refused(resize, "resize", &why);
}

/* As a host with a loop of its own, and another request in the middle of the first. */
static void step_until_idle(struct resize *resize, struct tide_resizer *steps)
{
	struct tide_engine *engine = tide_resizer_engine(steps);
	uint64_t next = random_below(resize->random, STEPS_BEFORE_NEXT);
	struct tide_progress progress = {0};
	struct tide_reason why = {0};
	uint64_t wait_ns = 0;

	for (uint64_t n = 0; tide_resizer_step(steps, &wait_ns); n++) {
		struct timespec nap = {.tv_nsec = (long)(wait_ns < NAP_NS ? wait_ns : NAP_NS)};
		struct tide_request request;

		if (n == next) {
			request = pick_request(resize);
			if (tide_engine_submit(engine, &request, 1, &why) != 0)
				refused(resize, "a request in the middle of another", &why);
		}
		if (wait_ns > 0)
			(void)nanosleep(&nap, NULL);
	}
	tide_engine_progress(engine, &progress);
	judge(resize, &progress);
}

static void in_steps(struct resize *resize)
{
	struct tide_request request = pick_request(resize);
	struct tide_resizer *steps;
	struct tide_reason why = {0};

	if (tide_resizer_open(resize->session, &steps, &why) != 0) {
		refused(resize, "opening a resizer", &why);
		return;
	}
	if (tide_engine_submit(tide_resizer_engine(steps), &request, 0, &why) == 0)
		step_until_idle(resize, steps);
	else
		refused(resize, "a request", &why);
	tide_resizer_close(steps);
}

void resize_once(struct resize *resize)
{
	board_do(resize->place, BOARD_RESIZING, 0);
	if (random_one_in(resize->random, 4))
		in_steps(resize);
	else
		at_once(resize);
	board_do(resize->place, BOARD_NOTHING, 0);
}
