/* SPDX-License-Identifier: PostgreSQL */
/* supervisor.h - starts participants and resizer, torments them, and sees them end. */
#ifndef TIDESTRESS_SUPERVISOR_H
#define TIDESTRESS_SUPERVISOR_H

#include "ground.h"

struct supervisor_totals {
	uint64_t kills, resizer_kills, stops, cancels, validations;
	uint64_t elapsed_ns;
};

/*
 * The whole storm: returns when its time is over, a signal came or a fault was found, and no child
 * is left. What was found is on the board.
 */
void supervisor_run(struct ground *ground, struct supervisor_totals *totals);

#endif
