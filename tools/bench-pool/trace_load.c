/* SPDX-License-Identifier: PostgreSQL */
/*
 * bench-pool/trace_load.c - reads a trace that tools/bench-pool.d/record-trace wrote.
 *
 * The file, unpacked: "tidepool trace 1 N", a newline, N bytes with the number of the relation, then N
 * varints with the distance (zigzag) from the last block of the same relation.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "bench-pool/trace.h"

#define RELATIONS 256u
#define REFERENCES (1u << 28) /* at most */

/* Pages seen so far, open addressing: relation and block -> page number. */
struct numbers {
	uint64_t *keys; /* + 1, so that 0 is none */
	uint32_t *pages;
	uint64_t mask;
	uint32_t n;
};

static uint32_t number_of(struct numbers *numbers, uint64_t key)
{
	uint64_t state = key;
	uint64_t at = trace_random(&state) & numbers->mask;

	while (numbers->keys[at] != 0 && numbers->keys[at] != key + 1)
		at = (at + 1) & numbers->mask;
	if (numbers->keys[at] == 0) {
		numbers->keys[at] = key + 1;
		numbers->pages[at] = numbers->n++;
	}
	return numbers->pages[at];
}

static int read_varint(gzFile file, uint64_t *out)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 63; shift += 7) {
		int byte = gzgetc(file);

		if (byte < 0)
			return -EINVAL;
		value |= (uint64_t)(byte & 127) << shift;
		if (byte < 128) {
			*out = value;
			return 0;
		}
	}
	return -EINVAL;
}

/* @trace->pages holds the relations and gets the pages. */
static int read_pages(gzFile file, struct trace *trace, struct numbers *numbers)
{
	int64_t last[RELATIONS] = {0};

	for (uint32_t i = 0; i < trace->n; i++) {
		uint32_t relation = trace->pages[i];
		uint64_t zigzag;

		if (read_varint(file, &zigzag) != 0)
			return -EINVAL;
		last[relation] += (int64_t)(zigzag >> 1) ^ -(int64_t)(zigzag & 1);
		trace->pages[i] =
			number_of(numbers, (uint64_t)relation << 32 | (uint32_t)last[relation]);
	}
	return 0;
}

static int read_trace(gzFile file, struct trace *trace)
{
	char line[64];
	uint32_t n;
	int code;

	if (gzgets(file, line, sizeof(line)) == NULL ||
	    sscanf(line, "tidepool trace 1 %" SCNu32, &n) != 1 || n > REFERENCES)
		return -EINVAL;
	*trace = (struct trace){.pages = trace_alloc(n, sizeof(uint32_t)), .n = n, .warm = n / 5};
	for (uint32_t i = 0; i < n; i++) {
		int byte = gzgetc(file);

		if (byte < 0)
			return -EINVAL;
		trace->pages[i] = (uint32_t)byte;
	}

	struct numbers numbers = {.mask = 1};

	while (numbers.mask < 2 * (uint64_t)n)
		numbers.mask = 2 * numbers.mask + 1;
	numbers.keys = trace_alloc(numbers.mask + 1, sizeof(*numbers.keys));
	numbers.pages = trace_alloc(numbers.mask + 1, sizeof(*numbers.pages));
	code = read_pages(file, trace, &numbers);
	trace->n_pages = numbers.n;
	free(numbers.keys);
	free(numbers.pages);
	return code;
}

struct trace trace_load(const char *path)
{
	struct trace trace = {0};
	gzFile file = gzopen(path, "rb");

	if (file == NULL) {
		fprintf(stderr, "bench-pool: %s: %s\n", path, strerror(errno));
		return trace;
	}
	if (read_trace(file, &trace) != 0) {
		fprintf(stderr, "bench-pool: %s: not a trace\n", path);
		trace_free(&trace);
	}
	gzclose(file);
	return trace;
}
