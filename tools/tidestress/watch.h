/* SPDX-License-Identifier: PostgreSQL */
/* watch.h - does everybody get on? */
#ifndef TIDESTRESS_WATCH_H
#define TIDESTRESS_WATCH_H

#include "child.h"

#define WATCH_LIMIT_NS UINT64_C(10000000000)

struct watch {
	uint64_t *beats;
	uint64_t *since_ns;
};

/* 1, or 0 when there is no memory */
int watch_open(struct watch *watch, uint32_t n_places);
void watch_close(struct watch *watch);

/* Look at the places of @child, which runs when @runs; one that stands still is a finding. */
void watch_child(struct watch *watch, const struct child *child, int runs, uint64_t now_ns);

/* What each place of @child is doing, as findings. */
void watch_tell(const struct child *child, const char *what);

#endif
