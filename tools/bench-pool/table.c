/* SPDX-License-Identifier: PostgreSQL */
/*
 * bench-pool/table.c - lines of the table, and how figures come about.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench-pool/bench.h"

uint64_t bench_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

unsigned bench_rounds(const struct bench_options *options, unsigned most)
{
	return options->rounds < most ? options->rounds : most;
}

static int compare(const void *left, const void *right)
{
	const double *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

double bench_median(double *values, unsigned n)
{
	if (n == 0)
		return 0;
	qsort(values, n, sizeof(*values), compare);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

void bench_row(const char *what, double value, const char *unit, const char *against)
{
	printf("  %-46s %10.*f %-8s %s\n", what, value >= 1000 ? 0 : 2, value, unit, against);
	fflush(stdout);
}
