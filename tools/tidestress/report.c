/* SPDX-License-Identifier: PostgreSQL */
/* report.c - what came out, for people and as JSON. */
#include "report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#define TRAILS 3u /* findings whose pages are followed */

static const char *const fault_names[TIDE_FAULTS] = {
	[TIDE_FAULT_EIO] = "eio",   [TIDE_FAULT_ENOSPC] = "enospc", [TIDE_FAULT_SHORT] = "short",
	[TIDE_FAULT_TORN] = "torn", [TIDE_FAULT_SYNC] = "sync",	    [TIDE_FAULT_DELAY] = "delay",
};

static const char *const count_names[BOARD_COUNTS] = {
	[BOARD_PINS] = "pins",
	[BOARD_READS] = "reads",
	[BOARD_WRITES] = "writes",
	[BOARD_NEWS] = "news",
	[BOARD_VERIFIED] = "verified",
	[BOARD_FELL_BACK] = "fell_back",
	[BOARD_REPAIRED] = "torn_repaired",
	[BOARD_FLUSHES] = "flushes",
	[BOARD_FLUSHES_FAILED] = "flushes_failed",
	[BOARD_DROPS] = "drops",
	[BOARD_DROPS_PARTIAL] = "drops_partial",
	[BOARD_PREFETCHED] = "prefetched",
	[BOARD_IO_ERRORS] = "io_errors",
	[BOARD_CORRUPT] = "corrupt",
	[BOARD_EXHAUSTED] = "exhausted",
	[BOARD_TORN_PINNED] = "torn_pinned",
};

static const enum tide_op_state ends[] = {TIDE_OP_DONE,	     TIDE_OP_PARTIAL,	 TIDE_OP_DENIED,
					  TIDE_OP_CANCELLED, TIDE_OP_SUPERSEDED, TIDE_OP_FAILED};
#define ENDS (sizeof(ends) / sizeof(ends[0]))

static uint64_t outcome(const struct report *report, enum tide_op_state state)
{
	return atomic_load_explicit(&report->board->resizer.outcome[state], memory_order_relaxed);
}

static uint32_t n_findings(const struct report *report)
{
	uint32_t n = atomic_load_explicit(&report->board->n_findings, memory_order_relaxed);

	return n < BOARD_FINDINGS ? n : BOARD_FINDINGS;
}

/* (B) pairs with (A) in board.c. A process that was killed in the middle left it incomplete. */
static const char *finding_text(const struct report *report, uint32_t i)
{
	const struct board_finding *finding = &report->board->finding[i];

	return atomic_load_explicit(&finding->complete, memory_order_acquire)
		       ? finding->text
		       : "(who found it died before it could say what)";
}

static double hit_ratio(const struct tide_pool_status *status)
{
	uint64_t all = status->hits + status->misses;

	return all > 0 ? (double)status->hits / (double)all : 0;
}

static double per_second(const struct report *report, uint64_t n)
{
	return report->totals->elapsed_ns > 0 ? (double)n * 1e9 / (double)report->totals->elapsed_ns
					      : 0;
}

/* --- for people ------------------------------------------------------------------------------- */

static void print_findings(const struct report *report)
{
	uint32_t n = n_findings(report);

	if (n == 0)
		return;
	(void)fprintf(stderr, "tidestress: FAULT FOUND\n");
	for (uint32_t i = 0; i < n; i++) {
		const struct board_finding *finding = &report->board->finding[i];

		(void)fprintf(stderr, "  %s\n", finding_text(report, i));
		if (i < TRAILS && finding->complete && finding->page != BOARD_NO_PAGE)
			trail_print(report->board->trail, stderr, finding->page,
				    report->board->start_ns);
	}
	(void)fprintf(stderr, "Run again:\n  %s\n", report->options->command);
}

static void print_resizes(FILE *out, const struct report *report)
{
	(void)fprintf(out, "resizes:  ");
	for (size_t i = 0; i < ENDS; i++)
		(void)fprintf(out, "%s %" PRIu64 "%s", tide_op_state_name(ends[i]),
			      outcome(report, ends[i]), i + 1 < ENDS ? ", " : "");
	(void)fprintf(out, "; longest %.1f ms\n",
		      (double)atomic_load_explicit(&report->board->resizer.longest_ns,
						   memory_order_relaxed) /
			      1e6);
}

static void print_summary(FILE *out, const struct report *report, const struct board_sum *sum)
{
	static const struct board_sum nothing;
	const struct supervisor_totals *totals = report->totals;

	(void)fprintf(out,
		      "fixes:    %" PRIu64 " in %.1f s (%.0f per second), %" PRIu64
		      " pages verified, hit ratio %.1f%%\n"
		      "latency:  p50 %.1f us, p99 %.1f us, max %.1f ms\n",
		      sum->fixes, (double)totals->elapsed_ns / 1e9, per_second(report, sum->fixes),
		      sum->count[BOARD_VERIFIED], 100 * hit_ratio(report->status),
		      (double)board_percentile_ns(sum, &nothing, 0.5) / 1e3,
		      (double)board_percentile_ns(sum, &nothing, 0.99) / 1e3,
		      (double)sum->latency_max_ns / 1e6);
	print_resizes(out, report);
	(void)fprintf(out,
		      "torments: killed %" PRIu64 " participants and %" PRIu64
		      " resizers, stopped %" PRIu64 ", cancelled %" PRIu64 ", checked %" PRIu64
		      "\n",
		      totals->kills, totals->resizer_kills, totals->stops, totals->cancels,
		      totals->validations);
	(void)fprintf(out, "storage:  ");
	for (int kind = 0; kind < TIDE_FAULTS; kind++)
		(void)fprintf(out, "%s %" PRIu64 ", ", fault_names[kind], sum->faults[kind]);
	(void)fprintf(out, "begun again %" PRIu64 ", fell back %" PRIu64 "\n",
		      sum->count[BOARD_REPAIRED], sum->count[BOARD_FELL_BACK]);
	(void)fprintf(out, "%s (seed %" PRIu64 ")\n", n_findings(report) ? "FAILED" : "passed",
		      report->options->seed);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *number(uint64_t n)
{
	return json_integer((json_int_t)n);
}

static json_t *json_options(const struct options *o)
{
	json_t *json = json_object();

	json_object_set_new(json, "command", json_string(o->command));
	json_object_set_new(json, "processes", number(o->processes));
	json_object_set_new(json, "threads", number(o->threads));
	json_object_set_new(json, "page_bytes", number(o->page_bytes));
	json_object_set_new(json, "max_bytes", number(o->max_bytes));
	json_object_set_new(json, "start_bytes", number(o->start_bytes));
	json_object_set_new(json, "files", number(o->files));
	json_object_set_new(json, "pages", number(o->pages));
	json_object_set_new(json, "distribution",
			    json_string(options_distribution_name(o->distribution)));
	json_object_set_new(json, "skew", json_real(o->skew));
	json_object_set_new(json, "write_ratio", json_real(o->write_ratio));
	json_object_set_new(json, "storage", json_string(o->memory_storage ? "memory" : "file"));
	json_object_set_new(json, "faults_per_million", number(o->faults_per_million));
	json_object_set_new(json, "resize_ns", number(o->resize_ns));
	json_object_set_new(json, "resize_min_percent", number(o->resize_min_percent));
	json_object_set_new(json, "resize_max_percent", number(o->resize_max_percent));
	json_object_set_new(json, "resizer", json_string(o->resizer_thread ? "thread" : "process"));
	json_object_set_new(json, "flush_ns", number(o->flush_ns));
	json_object_set_new(json, "drop_ns", number(o->drop_ns));
	json_object_set_new(json, "kill_ns", number(o->kill_ns));
	json_object_set_new(json, "stop_ns", number(o->stop_ns));
	json_object_set_new(json, "validate_ns", number(o->validate_ns));
	json_object_set_new(json, "duration_ns", number(o->duration_ns));
	return json;
}

static json_t *json_latency(const struct board_sum *sum)
{
	static const struct board_sum nothing;
	json_t *json = json_object();

	json_object_set_new(json, "p50", number(board_percentile_ns(sum, &nothing, 0.5)));
	json_object_set_new(json, "p99", number(board_percentile_ns(sum, &nothing, 0.99)));
	json_object_set_new(json, "max", number(sum->latency_max_ns));
	return json;
}

static json_t *json_resizes(const struct report *report)
{
	json_t *json = json_object();

	for (size_t i = 0; i < ENDS; i++)
		json_object_set_new(json, tide_op_state_name(ends[i]),
				    number(outcome(report, ends[i])));
	json_object_set_new(json, "refused",
			    number(atomic_load_explicit(&report->board->resizer.refused,
							memory_order_relaxed)));
	json_object_set_new(json, "longest_ns",
			    number(atomic_load_explicit(&report->board->resizer.longest_ns,
							memory_order_relaxed)));
	return json;
}

static json_t *json_torments(const struct supervisor_totals *totals)
{
	json_t *json = json_object();

	json_object_set_new(json, "kills", number(totals->kills));
	json_object_set_new(json, "resizer_kills", number(totals->resizer_kills));
	json_object_set_new(json, "stops", number(totals->stops));
	json_object_set_new(json, "cancels", number(totals->cancels));
	json_object_set_new(json, "checks", number(totals->validations));
	return json;
}

static json_t *json_pool(const struct tide_pool_status *status)
{
	json_t *json = json_object();

	json_object_set_new(json, "hits", number(status->hits));
	json_object_set_new(json, "misses", number(status->misses));
	json_object_set_new(json, "evictions", number(status->evictions));
	json_object_set_new(json, "ghost_hits", number(status->ghost_hits));
	json_object_set_new(json, "read_pages", number(status->read_pages));
	json_object_set_new(json, "written_pages", number(status->written_pages));
	json_object_set_new(json, "relocated_pages", number(status->relocated_pages));
	json_object_set_new(json, "torn_pages", number(status->torn_pages));
	json_object_set_new(json, "dead_sessions", number(status->dead_sessions));
	return json;
}

static json_t *json_report(const struct report *report, const struct board_sum *sum)
{
	json_t *json = json_object(), *counts = json_object(), *faults = json_object();
	json_t *findings = json_array();

	for (int i = 0; i < BOARD_COUNTS; i++)
		json_object_set_new(counts, count_names[i], number(sum->count[i]));
	for (int kind = 0; kind < TIDE_FAULTS; kind++)
		json_object_set_new(faults, fault_names[kind], number(sum->faults[kind]));
	for (uint32_t i = 0; i < n_findings(report); i++)
		json_array_append_new(findings, json_string(finding_text(report, i)));
	json_object_set_new(json, "passed", json_boolean(n_findings(report) == 0));
	json_object_set_new(json, "seed", number(report->options->seed));
	json_object_set_new(json, "elapsed_ns", number(report->totals->elapsed_ns));
	json_object_set_new(json, "fixes", number(sum->fixes));
	json_object_set_new(json, "fixes_per_s", json_real(per_second(report, sum->fixes)));
	json_object_set_new(json, "hit_ratio", json_real(hit_ratio(report->status)));
	json_object_set_new(json, "latency_ns", json_latency(sum));
	json_object_set_new(json, "counts", counts);
	json_object_set_new(json, "resizes", json_resizes(report));
	json_object_set_new(json, "torments", json_torments(report->totals));
	json_object_set_new(json, "faults", faults);
	json_object_set_new(json, "pool", json_pool(report->status));
	json_object_set_new(json, "findings", findings);
	json_object_set_new(json, "options", json_options(report->options));
	return json;
}

/* 1, or 0 when it cannot be written */
static int write_json(const struct report *report, const struct board_sum *sum)
{
	const char *path = report->options->json;
	json_t *json = json_report(report, sum);
	int failed;

	if (strcmp(path, "-") == 0) {
		failed = json_dumpf(json, stdout, JSON_INDENT(2));
		failed |= fputc('\n', stdout) == EOF;
	} else {
		failed = json_dump_file(json, path, JSON_INDENT(2));
	}
	json_decref(json);
	if (failed)
		(void)fprintf(stderr, "tidestress: %s cannot be written\n", path);
	return !failed;
}

int report_print(const struct report *report)
{
	const char *json = report->options->json;
	struct board_sum sum;
	int written = 1;

	board_sum(report->board, &sum);
	if (!report->options->quiet)
		print_summary(json && strcmp(json, "-") == 0 ? stderr : stdout, report, &sum);
	if (json)
		written = write_json(report, &sum);
	print_findings(report);
	if (n_findings(report) > 0)
		return EXIT_FAULT_FOUND;
	return written ? 0 : EXIT_BAD_USAGE;
}
