/* SPDX-License-Identifier: PostgreSQL */
/* key.h - which page comes next. */
#ifndef TIDESTRESS_KEY_H
#define TIDESTRESS_KEY_H

#include <stdint.h>

#include "random.h"

enum key_distribution {
	KEY_UNIFORM,
	KEY_ZIPF,
	KEY_SCAN, /* one after the other, from a random place */
	KEY_MIX,  /* zipf mostly, uniform, and short scans */
};

struct key_source {
	enum key_distribution distribution;
	uint64_t n_pages;
	double skew;
	double zipf_first, zipf_last, zipf_limit; /* constants of the rejection-inversion */
	uint64_t scan_next, scan_left;
};

/* @n_pages is at least 1, @skew positive. */
void key_source_init(struct key_source *source, enum key_distribution distribution, double skew,
		     uint64_t n_pages);

/* 0 to n_pages - 1 */
uint64_t key_next(struct key_source *source, struct random *random);

#endif
