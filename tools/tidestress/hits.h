/* SPDX-License-Identifier: PostgreSQL */
/* hits.h - hit ratio by size of the working set. */
#ifndef TIDESTRESS_HITS_H
#define TIDESTRESS_HITS_H

#include "ground.h"

/* Print the table (unless it is to be JSON only), and write JSON. Returns the exit code. */
int hits_run(struct ground *ground);

#endif
