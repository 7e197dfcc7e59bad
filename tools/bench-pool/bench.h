/* SPDX-License-Identifier: PostgreSQL */
/*
 * bench-pool/bench.h - what the groups of the benchmark share.
 *
 * A group measures, returns its figures as one JSON object with stable keys (unit last:
 * "uniform_ns"), and puts the lines of the table. main.c writes the object to
 * <folder>/pool_<group>.json together with facts about the machine.
 */
#ifndef BENCH_POOL_BENCH_H
#define BENCH_POOL_BENCH_H

#include <jansson.h>
#include <stdint.h>

/**
 * struct bench_options
 * @quick:  measure little: shows that the benchmark works, not how fast we are
 * @folder: where JSON goes, "build/bench"
 * @rounds: rounds of which the median counts
 */
struct bench_options {
	int quick;
	const char *folder;
	unsigned rounds;
};

/** bench_now_ns() - monotonic clock */
uint64_t bench_now_ns(void);

/** bench_rounds() - rounds asked for, at most @most */
unsigned bench_rounds(const struct bench_options *options, unsigned most);

/** bench_median() - of @n values; sorts them */
double bench_median(double *values, unsigned n);

/**
 * bench_row() - one line of the table: what, the figure, its unit, and what it is held against
 *
 * @against: for instance "partition lock 36.1, floor 7.0"; "" = nothing
 */
void bench_row(const char *what, double value, const char *unit, const char *against);

/* The groups; each returns a new reference, or NULL after saying why on stderr. */
json_t *bench_grace(const struct bench_options *options);  /* grace.c */
json_t *bench_lookup(const struct bench_options *options); /* lookup.c */
json_t *bench_traces(const struct bench_options *options); /* traces.c */
json_t *bench_pool(const struct bench_options *options);   /* pool.c */
json_t *bench_resize(const struct bench_options *options); /* resize.c */

#endif /* BENCH_POOL_BENCH_H */
