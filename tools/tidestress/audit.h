/* SPDX-License-Identifier: PostgreSQL */
/* audit.h - after the storm: is everything there, and is nothing left over? */
#ifndef TIDESTRESS_AUDIT_H
#define TIDESTRESS_AUDIT_H

#include "ground.h"

/* What the process and the machine had before. */
struct audit_before {
	uint64_t fds;
	uint64_t huge_pages;
};

void audit_before(struct audit_before *before);

/* No child is left. What is wrong is put on the board. */
void audit_pool(struct ground *ground);

/* After ground_clear(): what was left over is put on the board. */
void audit_leaks(struct board *board, const struct options *options,
		 const struct audit_before *before);

#endif
