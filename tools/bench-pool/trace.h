/* SPDX-License-Identifier: PostgreSQL */
/*
 * bench-pool/trace.h - sequences of page references, made up and recorded.
 */
#ifndef BENCH_POOL_TRACE_H
#define BENCH_POOL_TRACE_H

#include <stddef.h>
#include <stdint.h>

/**
 * struct trace - which pages are used, in order
 * @pages:   page numbers below @n_pages
 * @n:       references
 * @n_pages: different pages, at most
 * @warm:    references before this one fill the pool and are not counted
 */
struct trace {
	uint32_t *pages;
	uint32_t n;
	uint32_t n_pages;
	uint32_t warm;
};

/* Memory that is zero; ends the program when there is none. */
void *trace_alloc(size_t n, size_t bytes);

/* A sequence of numbers that looks random; *state may start as anything. */
uint64_t trace_random(uint64_t *state);

/* How often each of @n_pages is used, as a sum over the pages before: page 0 most. */
double *trace_zipf_sums(uint32_t n_pages, double skew);
uint32_t trace_zipf_draw(const double *sums, uint32_t n_pages, uint64_t *state);

/* @n_refs drawn from @n_pages. */
struct trace trace_zipf(uint32_t n_pages, uint32_t n_refs, double skew);

/* Zipf 0.99, and every @stretch references one scan of @stretch pages that nobody else uses. */
struct trace trace_scan(uint32_t n_pages, uint32_t n_refs, uint32_t stretch);

/* Pages 0 to @n_pages - 1, again and again. */
struct trace trace_loop(uint32_t n_pages, uint32_t n_refs);

/* Zipf 0.99, the order of the pages moved on by a tenth of @n_pages ten times. */
struct trace trace_shift(uint32_t n_pages, uint32_t n_refs);

/* Every reference of @trace, which is freed, 2 to 4 times at once. */
struct trace trace_stutter(struct trace trace);

/* As record-trace wrote it; n = 0 after saying why on stderr. */
struct trace trace_load(const char *path);

void trace_free(struct trace *trace);

#endif /* BENCH_POOL_TRACE_H */
