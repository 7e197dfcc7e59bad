/* SPDX-License-Identifier: PostgreSQL */
/*
 * tidestress - torments a buffer pool and verifies every page read.
 *
 * The supervisor (this process) creates the pool and forks participants and a resizer. They share
 * the pool and, beside it, a board (what they do and what they found) and a model (what every page
 * may read as). It kills, stops and starts them again, and at the end looks whether everything is
 * there and nothing is left over.
 */
#include "audit.h"
#include "ground.h"
#include "hits.h"
#include "interrupt.h"
#include "options.h"
#include "report.h"
#include "supervisor.h"

static int storm(struct ground *ground, const struct audit_before *before)
{
	struct supervisor_totals totals;
	struct tide_pool_status status = {0};
	struct board *board = ground->board;
	struct tide_reason why = {0};
	int clean;

	supervisor_run(ground, &totals);
	if (tide_pool_status(ground->pool, &status, &why) != 0)
		board_find(board, "status: %s: %s", tide_code_name(why.code), why.message);
	clean = atomic_load_explicit(&board->n_findings, memory_order_relaxed) == 0;
	if (clean)
		audit_pool(ground);
	ground_clear(ground);
	if (clean)
		audit_leaks(board, ground->options, before);

	const struct report report = {
		.options = ground->options,
		.board = board,
		.totals = &totals,
		.status = &status,
	};

	return report_print(&report);
}

int main(int argc, char **argv)
{
	struct options options;
	struct ground ground;
	struct audit_before before;
	int code = options_parse(&options, argc, argv);

	if (code >= 0)
		return code;
	audit_before(&before);
	interrupt_catch();
	code = ground_open(&ground, &options);
	if (code < 0)
		code = options.hit_ratio ? hits_run(&ground) : storm(&ground, &before);
	ground_clear(&ground);
	if (ground.board)
		board_close(ground.board);
	return code;
}
