/* SPDX-License-Identifier: PostgreSQL */
/*
 * bench-pool/trace.c - sequences of page references that are made up.
 */
#include "bench-pool/trace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void *trace_alloc(size_t n, size_t bytes)
{
	void *memory = calloc(n > 0 ? n : 1, bytes);

	if (memory == NULL) {
		fprintf(stderr, "bench-pool: no memory for %zu x %zu bytes\n", n, bytes);
		exit(1);
	}
	return memory;
}

void trace_free(struct trace *trace)
{
	free(trace->pages);
	*trace = (struct trace){0};
}

/* splitmix64 */
uint64_t trace_random(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

double *trace_zipf_sums(uint32_t n_pages, double skew)
{
	double *sums = trace_alloc(n_pages, sizeof(*sums));
	double sum = 0;

	for (uint32_t i = 0; i < n_pages; i++)
		sums[i] = sum += pow(i + 1.0, -skew);
	return sums;
}

uint32_t trace_zipf_draw(const double *sums, uint32_t n_pages, uint64_t *state)
{
	double at = (double)(trace_random(state) >> 11) * 0x1p-53 * sums[n_pages - 1];
	uint32_t low = 0, high = n_pages - 1;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (sums[middle] > at)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static struct trace empty(uint32_t n_pages, uint32_t n_refs)
{
	return (struct trace){.pages = trace_alloc(n_refs, sizeof(uint32_t)),
			      .n = n_refs,
			      .n_pages = n_pages,
			      .warm = n_refs / 5};
}

struct trace trace_zipf(uint32_t n_pages, uint32_t n_refs, double skew)
{
	struct trace trace = empty(n_pages, n_refs);
	double *sums = trace_zipf_sums(n_pages, skew);
	uint64_t state = 1;

	for (uint32_t i = 0; i < n_refs; i++)
		trace.pages[i] = trace_zipf_draw(sums, n_pages, &state);
	free(sums);
	return trace;
}

struct trace trace_scan(uint32_t n_pages, uint32_t n_refs, uint32_t stretch)
{
	struct trace trace = trace_zipf(n_pages, n_refs, 0.99);

	for (uint32_t i = 0; i < n_refs; i++)
		if (i / stretch % 2 == 1)
			trace.pages[i] = n_pages + i % stretch;
	trace.n_pages += stretch;
	return trace;
}

struct trace trace_loop(uint32_t n_pages, uint32_t n_refs)
{
	struct trace trace = empty(n_pages, n_refs);

	for (uint32_t i = 0; i < n_refs; i++)
		trace.pages[i] = i % n_pages;
	return trace;
}

struct trace trace_shift(uint32_t n_pages, uint32_t n_refs)
{
	struct trace trace = trace_zipf(n_pages, n_refs, 0.99);

	for (uint32_t i = 0; i < n_refs; i++) {
		uint64_t shifts = (uint64_t)i * 10 / n_refs;

		trace.pages[i] = (uint32_t)((trace.pages[i] + shifts * n_pages / 10) % n_pages);
	}
	return trace;
}

struct trace trace_stutter(struct trace trace)
{
	struct trace out = empty(trace.n_pages, trace.n);
	uint64_t state = 2;
	uint32_t n = 0;

	for (uint32_t i = 0; n < out.n; i++)
		for (uint64_t left = 2 + trace_random(&state) % 3; left > 0 && n < out.n; left--)
			out.pages[n++] = trace.pages[i];
	trace_free(&trace);
	return out;
}
