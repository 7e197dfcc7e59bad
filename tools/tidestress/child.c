/* SPDX-License-Identifier: PostgreSQL */
/* child.c - the processes of a run, as the supervisor sees them. */
#include "child.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "participant.h"
#include "resizer.h"

int child_is_resizer(const struct child *child)
{
	return child->number == child->ground->options->processes;
}

uint32_t child_places(const struct child *child, uint32_t *first)
{
	*first = child->number * child->ground->options->threads;
	return child_is_resizer(child) ? 1 : child->ground->options->threads;
}

static void clear_places(const struct child *child)
{
	uint32_t first, n = child_places(child, &first);

	for (uint32_t i = first; i < first + n; i++) {
		struct board_place *place = &child->ground->board->place[i];

		atomic_store_explicit(&place->parked, 0, memory_order_relaxed);
		board_do(place, BOARD_NOTHING, 0);
	}
	if (child_is_resizer(child) || child->ground->options->resizer_thread)
		atomic_store_explicit(&child->ground->board->resizer.resizing, 0,
				      memory_order_relaxed);
}

int child_start(struct child *child)
{
	clear_places(child);
	(void)fflush(NULL);
	child->pid = fork();
	if (child->pid == 0) {
		struct ground *ground = child->ground;

		_exit(child_is_resizer(child)
			      ? resizer_main(ground, child->life)
			      : participant_main(ground, child->number, child->life));
	}
	if (child->pid > 0) {
		child->life++;
		return 1;
	}
	board_find(child->ground->board, "a process cannot be started: %s", strerror(errno));
	child->pid = 0;
	return 0;
}

static void for_slots(const struct child *child, void (*act)(struct model *, uint32_t))
{
	uint32_t first, n = child_places(child, &first);

	if (child_is_resizer(child))
		return; /* it writes to no page, so nothing may be lost with it */
	for (uint32_t slot = first; slot < first + n; slot++)
		act(&child->ground->model, slot);
}

void child_kill(struct child *child)
{
	child->doomed = 1;
	for_slots(child, model_doom);
	atomic_store_explicit(&child->ground->board->killed[child->number], child->life,
			      memory_order_seq_cst);
	trail_add(child->ground->board->trail, TRAIL_KILLED, 0, UINT64_MAX, (uint64_t)child->pid);
	(void)kill(child->pid, SIGKILL);
}

void child_stop(struct child *child, uint64_t until_ns)
{
	child->stopped_until_ns = until_ns;
	(void)kill(child->pid, SIGSTOP);
}

void child_continue(struct child *child)
{
	if (child->stopped_until_ns == 0)
		return;
	child->stopped_until_ns = 0;
	(void)kill(child->pid, SIGCONT);
}

static void find_unexpected_end(const struct child *child, int status)
{
	struct board *board = child->ground->board;
	uint32_t first, n = child_places(child, &first);
	const char *who = child_is_resizer(child) ? "the resizer" : "a participant";

	if (WIFSIGNALED(status))
		board_find(board, "%s (process %d) died of signal %d (%s)", who, (int)child->pid,
			   WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		board_find(board, "%s (process %d) ended with code %d", who, (int)child->pid,
			   WEXITSTATUS(status));
	for (uint32_t i = first; i < first + n; i++) {
		const struct board_place *place = &board->place[i];

		board_find(board, "its thread %" PRIu32 " was %s (page %" PRIu64 ")", i - first,
			   board_doing_name((enum board_doing)atomic_load_explicit(
				   &place->doing, memory_order_relaxed)),
			   atomic_load_explicit(&place->page, memory_order_relaxed));
	}
}

int child_reap(struct child *child)
{
	int status;

	if (child->pid == 0 || waitpid(child->pid, &status, WNOHANG) != child->pid)
		return 0;
	if (!child->doomed && (!WIFEXITED(status) || WEXITSTATUS(status) != 0 ||
			       !board_stopped(child->ground->board)))
		find_unexpected_end(child, status);
	for_slots(child, model_bury);
	child->pid = 0;
	child->doomed = 0;
	child->stopped_until_ns = 0;
	return 1;
}
