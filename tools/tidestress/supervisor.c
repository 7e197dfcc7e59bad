/* SPDX-License-Identifier: PostgreSQL */
/* supervisor.c - starts participants and resizer, torments them, and sees them end. */
#include "supervisor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "child.h"
#include "interrupt.h"
#include "progress.h"
#include "watch.h"

#define TICK_NS 2000000u
#define STOP_NS_MAX 500000000u
#define END_LIMIT_NS UINT64_C(20000000000)
#define END_LIMIT_FOUND_NS UINT64_C(3000000000)
#define CANCEL_EVERY 20u /* resizes, and a time for those that take longer */
#define CANCEL_NS UINT64_C(500000000)

/* Something that happens again and again. */
struct event {
	uint64_t every_ns; /* 0 = never */
	uint64_t next_ns;
};

struct supervisor {
	struct ground *ground;
	const struct options *options;
	struct board *board;
	struct child *children;
	uint32_t n_children;
	struct random random;
	struct event kill, stop, cancel, validate;
	int kill_resizer; /* next */
	struct watch watch;
	struct progress progress;
	struct supervisor_totals *totals;
};

static void nap(uint64_t ns)
{
	struct timespec time = {.tv_nsec = (long)ns};

	(void)nanosleep(&time, NULL);
}

/* --- events ----------------------------------------------------------------------------------- */

static void event_set(struct supervisor *supervisor, struct event *event, uint64_t every_ns)
{
	event->every_ns = every_ns;
	event->next_ns = board_clock_ns();
	if (every_ns > 0)
		event->next_ns += every_ns / 2 + random_below(&supervisor->random, every_ns);
}

/* Is it time? Then the next time is set, half to one and a half of the interval later. */
static int event_due(struct supervisor *supervisor, struct event *event, uint64_t now_ns)
{
	if (event->every_ns == 0 || now_ns < event->next_ns)
		return 0;
	event_set(supervisor, event, event->every_ns);
	return 1;
}

static struct child *pick_child(struct supervisor *supervisor, uint32_t n)
{
	return &supervisor->children[random_below(&supervisor->random, n)];
}

/* In the middle of a resize, when one begins soon enough. */
static void kill_resizer(struct supervisor *supervisor)
{
	struct child *resizer = &supervisor->children[supervisor->options->processes];
	uint64_t delay_ns = random_below(&supervisor->random, 3000000);

	child_continue(resizer);
	for (int i = 0; i < 1000; i++) {
		if (atomic_load_explicit(&supervisor->board->resizer.resizing,
					 memory_order_relaxed))
			break;
		nap(100000);
	}
	nap(delay_ns);
	if (resizer->pid == 0 || resizer->doomed)
		return;
	child_kill(resizer);
	supervisor->totals->resizer_kills++;
}

static void do_kill(struct supervisor *supervisor)
{
	struct child *victim = pick_child(supervisor, supervisor->options->processes);

	supervisor->kill_resizer = !supervisor->kill_resizer;
	if (!supervisor->kill_resizer && options_resizer_process(supervisor->options)) {
		kill_resizer(supervisor);
		return;
	}
	if (victim->pid == 0 || victim->doomed)
		return;
	child_kill(victim);
	supervisor->totals->kills++;
}

static void do_stop(struct supervisor *supervisor, uint64_t now_ns)
{
	struct child *victim = pick_child(supervisor, supervisor->n_children);
	/* short ones mostly, so that there can be many */
	uint64_t longest_ns = STOP_NS_MAX >> random_below(&supervisor->random, 10);
	uint64_t long_ns = 1 + random_below(&supervisor->random, longest_ns);

	if (victim->pid == 0 || victim->doomed || victim->stopped_until_ns != 0)
		return;
	child_stop(victim, now_ns + long_ns);
	supervisor->totals->stops++;
}

static void do_cancel(struct supervisor *supervisor)
{
	if (!atomic_load_explicit(&supervisor->board->resizer.resizing, memory_order_relaxed))
		return;
	tide_pool_resize_cancel(supervisor->ground->pool);
	supervisor->totals->cancels++;
}

/* --- children --------------------------------------------------------------------------------- */

static void continue_all(struct supervisor *supervisor, uint64_t now_ns)
{
	for (uint32_t i = 0; i < supervisor->n_children; i++) {
		struct child *child = &supervisor->children[i];

		if (child->stopped_until_ns <= now_ns)
			child_continue(child);
	}
}

/* Those that died are started again; everybody is watched. */
static void tend(struct supervisor *supervisor, uint64_t now_ns)
{
	continue_all(supervisor, now_ns);
	for (uint32_t i = 0; i < supervisor->n_children; i++) {
		struct child *child = &supervisor->children[i];

		if (child_reap(child) && !board_stopped(supervisor->board))
			(void)child_start(child);
		watch_child(&supervisor->watch, child,
			    child->pid != 0 && !child->doomed && child->stopped_until_ns == 0,
			    now_ns);
	}
}

static int is_parked(const struct supervisor *supervisor, const struct child *child)
{
	uint32_t first, n = child_places(child, &first);

	for (uint32_t i = first; i < first + n; i++)
		/* (D) pairs with (C) in board_park() */
		if (!atomic_load_explicit(&supervisor->board->place[i].parked,
					  memory_order_acquire))
			return 0;
	return 1;
}

/* 1 = nobody uses the pool any more */
static int wait_until_parked(struct supervisor *supervisor)
{
	uint64_t end_ns = board_clock_ns() + WATCH_LIMIT_NS;

	while (board_clock_ns() < end_ns && !board_stopped(supervisor->board)) {
		uint32_t parked = 0;

		tend(supervisor, board_clock_ns());
		for (uint32_t i = 0; i < supervisor->n_children; i++)
			parked += (uint32_t)is_parked(supervisor, &supervisor->children[i]);
		if (parked == supervisor->n_children)
			return 1;
		nap(TICK_NS);
	}
	for (uint32_t i = 0; i < supervisor->n_children; i++)
		if (!board_stopped(supervisor->board) &&
		    !is_parked(supervisor, &supervisor->children[i]))
			watch_tell(&supervisor->children[i], "does not come to rest within 10 s");
	return 0;
}

static void check_pool(struct supervisor *supervisor)
{
	struct tide_session *session;
	struct tide_reason why = {0};

	if (tide_session_open(supervisor->ground->pool, &session, &why) != 0) {
		board_find(supervisor->board, "a session cannot be opened: %s: %s",
			   tide_code_name(why.code), why.message);
		return;
	}
	(void)tide_pool_reap(session);
	if (tide_pool_check(session, &why) != 0)
		board_find(supervisor->board, "the pool contradicts itself: %s: %s",
			   tide_code_name(why.code), why.message);
	tide_session_close(session);
	supervisor->totals->validations++;
}

static void validate(struct supervisor *supervisor)
{
	continue_all(supervisor, UINT64_MAX);
	atomic_store_explicit(&supervisor->board->pause, 1, memory_order_release);
	if (wait_until_parked(supervisor))
		check_pool(supervisor);
	atomic_store_explicit(&supervisor->board->pause, 0, memory_order_release);
}

/* --- beginning and end ------------------------------------------------------------------------ */

static int begin(struct supervisor *supervisor)
{
	const struct options *options = supervisor->options;

	supervisor->n_children = options->processes + (uint32_t)options_resizer_process(options);
	supervisor->children = calloc(supervisor->n_children, sizeof(struct child));
	if (!watch_open(&supervisor->watch, supervisor->board->n_places + 1) ||
	    !supervisor->children) {
		board_find(supervisor->board, "there is no memory to begin with");
		return 0;
	}
	event_set(supervisor, &supervisor->kill, options->kill_ns);
	event_set(supervisor, &supervisor->stop, options->stop_ns);
	if (options->resize_ns > 0)
		event_set(supervisor, &supervisor->cancel,
			  CANCEL_NS + options->resize_ns * CANCEL_EVERY);
	event_set(supervisor, &supervisor->validate, options->validate_ns);
	progress_open(&supervisor->progress, options);
	for (uint32_t i = 0; i < supervisor->n_children; i++) {
		supervisor->children[i] = (struct child){.ground = supervisor->ground, .number = i};
		if (!child_start(&supervisor->children[i]))
			return 0;
	}
	return 1;
}

/* Returns how many are left. */
static uint32_t reap_all(struct supervisor *supervisor)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < supervisor->n_children; i++) {
		(void)child_reap(&supervisor->children[i]);
		left += supervisor->children[i].pid != 0;
	}
	return left;
}

/*
 * Everybody is asked to end; who does not is killed, which is a finding unless a fault was found
 * before, that may well be why.
 */
static void end(struct supervisor *supervisor)
{
	int found = atomic_load_explicit(&supervisor->board->n_findings, memory_order_relaxed) > 0;
	uint64_t limit_ns = board_clock_ns() + (found ? END_LIMIT_FOUND_NS : END_LIMIT_NS);

	atomic_store_explicit(&supervisor->board->stop, 1, memory_order_relaxed);
	continue_all(supervisor, UINT64_MAX);
	while (reap_all(supervisor) > 0 && board_clock_ns() < limit_ns)
		nap(TICK_NS);
	for (uint32_t i = 0; i < supervisor->n_children; i++) {
		struct child *child = &supervisor->children[i];

		if (child->pid == 0)
			continue;
		if (!found)
			watch_tell(child, "does not end within 20 s");
		child_kill(child);
	}
	while (reap_all(supervisor) > 0)
		nap(TICK_NS);
}

static void torment(struct supervisor *supervisor)
{
	uint64_t end_ns = supervisor->board->start_ns + supervisor->options->duration_ns;
	uint64_t now_ns;

	while ((now_ns = board_clock_ns()) < end_ns && !interrupt_came() &&
	       !board_stopped(supervisor->board)) {
		tend(supervisor, now_ns);
		if (event_due(supervisor, &supervisor->kill, now_ns))
			do_kill(supervisor);
		if (event_due(supervisor, &supervisor->stop, now_ns))
			do_stop(supervisor, now_ns);
		if (event_due(supervisor, &supervisor->cancel, now_ns))
			do_cancel(supervisor);
		if (event_due(supervisor, &supervisor->validate, now_ns))
			validate(supervisor);
		progress_show(&supervisor->progress, supervisor->ground, supervisor->totals);
		nap(TICK_NS);
	}
}

void supervisor_run(struct ground *ground, struct supervisor_totals *totals)
{
	struct supervisor supervisor = {
		.ground = ground,
		.options = ground->options,
		.board = ground->board,
		.random = random_stream(ground->options->seed, UINT64_C(3) << 32, 0),
		.totals = totals,
	};

	*totals = (struct supervisor_totals){0};
	ground->board->start_ns = board_clock_ns();
	if (begin(&supervisor))
		torment(&supervisor);
	totals->elapsed_ns = board_clock_ns() - ground->board->start_ns;
	end(&supervisor);
	progress_close(&supervisor.progress);
	watch_close(&supervisor.watch);
	free(supervisor.children);
}
