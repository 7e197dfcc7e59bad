/* SPDX-License-Identifier: PostgreSQL */
/* child.h - the processes of a run, as the supervisor sees them. */
#ifndef TIDESTRESS_CHILD_H
#define TIDESTRESS_CHILD_H

#include <sys/types.h>

#include "ground.h"

/* @number: that of the process; the resizer has the one after the last */
struct child {
	struct ground *ground;
	uint32_t number;
	uint32_t life;		   /* how many had the number before */
	pid_t pid;		   /* 0 = none */
	int doomed;		   /* SIGKILL was sent */
	uint64_t stopped_until_ns; /* 0 = it runs */
};

int child_is_resizer(const struct child *child);

/* Start it; 1, or 0 and a finding. */
int child_start(struct child *child);

/* Its places on the board: first, and how many. */
uint32_t child_places(const struct child *child, uint32_t *first);

void child_kill(struct child *child);
void child_stop(struct child *child, uint64_t until_ns);
void child_continue(struct child *child);

/* Has it ended? Then 1, and it is buried; when it was not to end, that is a finding. */
int child_reap(struct child *child);

#endif
