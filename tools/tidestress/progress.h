/* SPDX-License-Identifier: PostgreSQL */
/* progress.h - the line that shows how it goes. */
#ifndef TIDESTRESS_PROGRESS_H
#define TIDESTRESS_PROGRESS_H

#include <stdio.h>

#include "ground.h"
#include "supervisor.h"

struct progress {
	FILE *out; /* NULL = show nothing */
	int terminal;
	int shown;
	uint64_t next_ns, last_ns;
	uint64_t hits, misses;
	struct board_sum last;
};

void progress_open(struct progress *progress, const struct options *options);

/* Show the line when it is time. */
void progress_show(struct progress *progress, struct ground *ground,
		   const struct supervisor_totals *totals);

/* Leave the line. */
void progress_close(struct progress *progress);

#endif
