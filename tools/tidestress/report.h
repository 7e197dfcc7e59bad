/* SPDX-License-Identifier: PostgreSQL */
/* report.h - what came out, for people and as JSON. */
#ifndef TIDESTRESS_REPORT_H
#define TIDESTRESS_REPORT_H

#include "board.h"
#include "options.h"
#include "supervisor.h"

struct report {
	const struct options *options;
	const struct board *board;
	const struct supervisor_totals *totals;
	const struct tide_pool_status *status; /* when the storm was over */
};

/* Returns the exit code. */
int report_print(const struct report *report);

#endif
