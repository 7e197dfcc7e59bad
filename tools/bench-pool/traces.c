/* SPDX-License-Identifier: PostgreSQL */
/*
 * bench-pool/traces.c - hit ratios of the replacement on traces, against other policies, and what a
 * shrink keeps. Nothing here depends on the machine or on chance.
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench-pool/bench.h"
#include "bench-pool/keep.h"
#include "bench-pool/policy.h"

#define TRACE_FILE "tools/bench-pool.d/pgbench.trace.gz"

/* Pool sizes in percent of the pages of a trace; scans and loops are measured by the pool. */
static const uint32_t shares[] = {1, 5, 25};

#define SHARES (sizeof(shares) / sizeof(shares[0]))

struct size {
	uint32_t n_pages, n_refs, n_buffers;
};

static struct trace zipf_070(struct size size)
{
	return trace_zipf(size.n_pages, size.n_refs, 0.7);
}

static struct trace zipf_099(struct size size)
{
	return trace_zipf(size.n_pages, size.n_refs, 0.99);
}

static struct trace zipf_120(struct size size)
{
	return trace_zipf(size.n_pages, size.n_refs, 1.2);
}

static struct trace zipf_scan(struct size size)
{
	return trace_scan(size.n_pages, size.n_refs, 10 * size.n_buffers);
}

static struct trace loop(struct size size)
{
	return trace_loop(size.n_buffers + size.n_buffers / 10, size.n_refs);
}

static struct trace shift(struct size size)
{
	return trace_shift(size.n_pages, size.n_refs);
}

static struct trace zipf_stutter(struct size size)
{
	return trace_stutter(zipf_099(size));
}

static struct trace scan_stutter(struct size size)
{
	return trace_stutter(zipf_scan(size));
}

static const struct kind {
	const char *key, *what;
	struct trace (*make)(struct size size);
} kinds[] = {
	{"zipf_070", "zipf 0.7", zipf_070},
	{"zipf_099", "zipf 0.99", zipf_099},
	{"zipf_120", "zipf 1.2", zipf_120},
	{"zipf_scan", "zipf 0.99 and scans of 10 pools", zipf_scan},
	{"loop", "loop over 1.1 pools", loop},
	{"shift", "zipf 0.99, hot set shifts", shift},
	{"zipf_stutter", "zipf 0.99, each page 2-4 times", zipf_stutter},
	{"scan_stutter", "zipf and scans, each 2-4 times", scan_stutter},
};

static const struct policy {
	const char *key, *what;
	uint64_t (*hits)(const struct trace *trace, uint32_t n_buffers);
} policies[] = {
	{"lru_percent", "lru", lru_hits},
	{"clock_percent", "clock", clock_hits},
	{"s3fifo_percent", "s3-fifo", s3fifo_hits},
	{"optimum_percent", "optimum", optimum_hits},
};

#define POLICIES (sizeof(policies) / sizeof(policies[0]))

static double percent(uint64_t hits, const struct trace *trace)
{
	return trace->n > trace->warm ? 100.0 * (double)hits / (trace->n - trace->warm) : 0;
}

/* One trace in a pool of @share percent: a line, and its figures in @out. */
static void replay(const struct trace *trace, uint32_t share, uint32_t n_buffers, const char *key,
		   const char *what, json_t *out)
{
	struct sweep_cost cost;
	double ours = percent(sweep_hits(trace, n_buffers, &cost), trace);
	char name[64], line[128], against[128] = "";
	json_t *figures = json_object();
	int length = 0;

	for (unsigned i = 0; i < POLICIES; i++) {
		double theirs = percent(policies[i].hits(trace, n_buffers), trace);

		json_object_set_new(figures, policies[i].key, json_real(theirs));
		length += snprintf(against + length, sizeof(against) - (size_t)length, "%s%s %.2f",
				   i > 0 ? ", " : "", policies[i].what, theirs);
	}
	json_object_set_new(figures, "ours_percent", json_real(ours));
	if (cost.evictions > 0)
		json_object_set_new(figures, "hand_steps_per_eviction",
				    json_real((double)cost.steps / (double)cost.evictions));
	if (cost.hits > 0)
		json_object_set_new(figures, "stores_per_hit",
				    json_real((double)cost.stores / (double)cost.hits));
	snprintf(name, sizeof(name), "%s_pool_%u_percent", key, share);
	json_object_set_new(out, name, figures);
	snprintf(line, sizeof(line), "%s, pool %u %%", what, share);
	bench_row(line, ours, "% hits", against);
}

static void replay_made_up(const struct bench_options *options, json_t *out)
{
	struct size size = {.n_pages = options->quick ? 10000 : 100000,
			    .n_refs = options->quick ? 200000 : 2000000};

	for (unsigned k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		for (unsigned i = 0; i < SHARES; i++) {
			struct trace trace;

			size.n_buffers = (uint32_t)((uint64_t)size.n_pages * shares[i] / 100);
			trace = kinds[k].make(size);
			replay(&trace, shares[i], size.n_buffers, kinds[k].key, kinds[k].what, out);
			trace_free(&trace);
		}
}

static int replay_recorded(json_t *out)
{
	struct trace trace = trace_load(TRACE_FILE);

	if (trace.n == 0)
		return -1;
	for (unsigned i = 0; i < SHARES; i++)
		replay(&trace, shares[i], (uint32_t)((uint64_t)trace.n_pages * shares[i] / 100),
		       "pgbench", "PostgreSQL, recorded", out);
	trace_free(&trace);
	return 0;
}

/*
 * With few accesses nobody can know which pages are frequent: an exact counter shows how much of the
 * loss is not the heat's.
 */
static void keep(uint32_t n_pages, uint32_t accesses, json_t *out)
{
	struct keep_result result = keep_quarter(n_pages, accesses);
	double stores = result.hot_hits > 0
				? 100.0 * (double)result.hot_stores / (double)result.hot_hits
				: 0;
	char key[64], line[128], against[128];

	snprintf(key, sizeof(key), "shrink_%u_pages_%u_accesses", n_pages, accesses);
	json_object_set_new(out, key,
			    json_pack("{s:f, s:f, s:f, s:f}", "kept_percent", result.kept,
				      "exact_counts_percent", result.counts, "optimum_percent",
				      result.best, "hot_stores_per_hit_percent", stores));
	snprintf(line, sizeof(line), "shrink to 25 %%, %u pages used %u times", n_pages, accesses);
	snprintf(against, sizeof(against),
		 "exact counts %.2f, optimum %.2f; heat stored in %.2f %% of hits", result.counts,
		 result.best, stores);
	bench_row(line, result.kept, "% hits", against);
}

json_t *bench_traces(const struct bench_options *options)
{
	static const uint32_t accesses[] = {2, 10, 50};
	json_t *out = json_object();

	if (replay_recorded(out) != 0) {
		json_decref(out);
		return NULL;
	}
	replay_made_up(options, out);
	for (uint32_t n = 100000; n <= (options->quick ? 100000 : 1000000); n *= 10)
		for (unsigned i = 0; i < sizeof(accesses) / sizeof(accesses[0]); i++)
			keep(n, accesses[i], out);
	return out;
}
