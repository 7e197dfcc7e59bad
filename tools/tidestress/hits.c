/* SPDX-License-Identifier: PostgreSQL */
/* hits.c - hit ratio by size of the working set. */
#include "hits.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "interrupt.h"

/* Accesses for each page of the larger of pool and working set: to warm up, then to count. */
#define WARM_UP 4u
#define COUNTED 8u

/* Working sets, in eighths of the pool. */
static const uint32_t eighths[] = {2, 4, 6, 8, 10, 12, 16, 24, 32, 64};
#define ROWS (sizeof(eighths) / sizeof(eighths[0]))

struct hits {
	struct ground *ground;
	struct tide_session *session;
	struct random random;
	struct tide_reason why;
};

/* 0, or what a call failed with */
static int touch(struct hits *hits, struct key_source *keys, uint64_t n)
{
	for (uint64_t i = 0; i < n && !interrupt_came(); i++) {
		struct tide_page_id id =
			options_page_id(hits->ground->options, key_next(keys, &hits->random));
		struct tide_fix fix;
		int code = tide_pool_fix(hits->session, &id, TIDE_FIX_READ, &fix, &hits->why);

		if (code != 0)
			return code;
		tide_pool_unfix(hits->session, &fix);
	}
	return 0;
}

/* The working set of @pages, from an empty pool. */
static int measure(struct hits *hits, uint64_t pages, uint64_t buffers, double *ratio)
{
	const struct options *options = hits->ground->options;
	struct tide_pool_status before, after;
	struct key_source keys;
	uint64_t unit = pages > buffers ? pages : buffers;
	int code;

	key_source_init(&keys, options->distribution, options->skew, pages);
	code = tide_pool_drop(hits->session, TIDE_ALL_FILES, 0, TIDE_ALL_PAGES, &hits->why);
	if (code == 0)
		code = touch(hits, &keys, WARM_UP * unit);
	if (code == 0)
		code = tide_pool_status(hits->ground->pool, &before, &hits->why);
	if (code == 0)
		code = touch(hits, &keys, COUNTED * unit);
	if (code == 0)
		code = tide_pool_status(hits->ground->pool, &after, &hits->why);
	if (code != 0)
		return code;

	uint64_t found = after.hits - before.hits, missed = after.misses - before.misses;

	*ratio = found + missed > 0 ? (double)found / (double)(found + missed) : 0;
	return 0;
}

static json_t *row(FILE *out, uint32_t eighth, uint64_t pages, double ratio)
{
	json_t *json = json_object();

	if (out)
		(void)fprintf(out, "%12" PRIu64 "  %11.2f  %8.2f%%\n", pages, eighth / 8.0,
			      100 * ratio);
	json_object_set_new(json, "pages", json_integer((json_int_t)pages));
	json_object_set_new(json, "of_pool", json_real(eighth / 8.0));
	json_object_set_new(json, "hit_ratio", json_real(ratio));
	return json;
}

static int table(struct hits *hits, FILE *out, json_t *rows)
{
	uint64_t footprint = options_footprint(hits->ground->options);
	struct tide_pool_status status;
	int code = tide_pool_status(hits->ground->pool, &status, &hits->why);

	if (code != 0)
		return code;
	if (out)
		(void)fprintf(out, "       pages  of the pool  hit ratio\n");
	for (size_t i = 0; i < ROWS && !interrupt_came(); i++) {
		uint64_t buffers = status.allocatable_bytes / status.page_bytes;
		uint64_t pages = buffers * eighths[i] / 8;
		double ratio;

		if (pages == 0 || pages > footprint)
			continue;
		code = measure(hits, pages, buffers, &ratio);
		if (code != 0)
			return code;
		if (interrupt_came())
			break; /* the row is not complete */
		json_array_append_new(rows, row(out, eighths[i], pages, ratio));
	}
	return 0;
}

static int write_json(const struct options *options, json_t *rows)
{
	json_t *json = json_object();
	int failed;

	json_object_set(json, "hit_ratio_by_working_set", rows);
	json_object_set_new(json, "distribution",
			    json_string(options_distribution_name(options->distribution)));
	json_object_set_new(json, "skew", json_real(options->skew));
	json_object_set_new(json, "seed", json_integer((json_int_t)options->seed));
	if (strcmp(options->json, "-") == 0) {
		failed = json_dumpf(json, stdout, JSON_INDENT(2));
		failed |= fputc('\n', stdout) == EOF;
	} else {
		failed = json_dump_file(json, options->json, JSON_INDENT(2));
	}
	json_decref(json);
	if (failed)
		(void)fprintf(stderr, "tidestress: %s cannot be written\n", options->json);
	return failed ? EXIT_BAD_USAGE : 0;
}

int hits_run(struct ground *ground)
{
	const struct options *options = ground->options;
	struct hits hits = {
		.ground = ground,
		.random = random_stream(options->seed, UINT64_C(5) << 32, 0),
	};
	int to_stderr = options->json && strcmp(options->json, "-") == 0;
	FILE *out = options->quiet ? NULL : to_stderr ? stderr : stdout;
	json_t *rows = json_array();
	int result = 0;
	int code = tide_session_open(ground->pool, &hits.session, &hits.why);

	if (code == 0) {
		code = table(&hits, out, rows);
		tide_session_close(hits.session);
	}
	if (code != 0) {
		(void)fprintf(stderr, "tidestress: %s: %s\n", tide_code_name(code),
			      hits.why.message);
		result = EXIT_FAULT_FOUND;
	} else if (options->json) {
		result = write_json(options, rows);
	}
	json_decref(rows);
	return result;
}
