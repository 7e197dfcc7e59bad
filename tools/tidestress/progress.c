/* SPDX-License-Identifier: PostgreSQL */
/* progress.c - the line that shows how it goes. */
#include "progress.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "quantity.h"

#define BAR 20

void progress_open(struct progress *progress, const struct options *options)
{
	int to_stderr = options->json != NULL && strcmp(options->json, "-") == 0;

	*progress = (struct progress){.last_ns = board_clock_ns()};
	progress->terminal = isatty(to_stderr ? STDERR_FILENO : STDOUT_FILENO);
	if (!options->quiet && (progress->terminal || options->progress))
		progress->out = to_stderr ? stderr : stdout;
	progress->next_ns = progress->last_ns;
}

static void bar(double share, char text[BAR + 1])
{
	int full = (int)(share * BAR);

	memset(text, '.', BAR);
	memset(text, '#', (size_t)(full < BAR ? full : BAR));
	text[BAR] = '\0';
}

static uint64_t faults(const struct board_sum *sum)
{
	uint64_t n = 0;

	for (int kind = 0; kind < TIDE_FAULTS; kind++)
		n += sum->faults[kind];
	return n;
}

static void print_line(struct progress *progress, struct ground *ground,
		       const struct supervisor_totals *totals, const struct board_sum *sum,
		       const struct tide_pool_status *status, uint64_t now_ns)
{
	double seconds = (double)(now_ns - progress->last_ns) / 1e9;
	double past = (double)(now_ns - ground->board->start_ns);
	double share = past / (double)ground->options->duration_ns;
	uint64_t hits = status->hits - progress->hits, misses = status->misses - progress->misses;
	char bar_text[BAR + 1], size[32], committed[32];

	bar(share, bar_text);
	quantity_bytes_text(status->allocatable_bytes, size, sizeof(size));
	quantity_bytes_text(status->committed_bytes, committed, sizeof(committed));
	(void)fprintf(progress->out,
		      "%s[%s] %3.0f%% %8.0f tps  hits %5.1f%%  p99 %7.1f us  pool %s/%s  "
		      "resizes %" PRIu64 " kills %" PRIu64 " faults %" PRIu64 "%s",
		      progress->terminal ? "\r" : "", bar_text, share < 1 ? share * 100 : 100,
		      (double)(sum->fixes - progress->last.fixes) / seconds,
		      hits + misses > 0 ? 100.0 * (double)hits / (double)(hits + misses) : 0.0,
		      (double)board_percentile_ns(sum, &progress->last, 0.99) / 1e3, size,
		      committed, board_resizes(ground->board),
		      totals->kills + totals->resizer_kills, faults(sum),
		      progress->terminal ? "\033[K" : "\n");
	(void)fflush(progress->out);
	progress->shown = 1;
}

void progress_show(struct progress *progress, struct ground *ground,
		   const struct supervisor_totals *totals)
{
	uint64_t now_ns = board_clock_ns();
	struct tide_pool_status status;
	struct board_sum sum;

	if (!progress->out || now_ns < progress->next_ns)
		return;
	progress->next_ns = now_ns + (progress->terminal ? 250000000 : 1000000000);
	if (now_ns == progress->last_ns || tide_pool_status(ground->pool, &status, NULL) != 0)
		return;
	board_sum(ground->board, &sum);
	if (progress->last.fixes > 0 || sum.fixes > 0)
		print_line(progress, ground, totals, &sum, &status, now_ns);
	progress->last = sum;
	progress->last_ns = now_ns;
	progress->hits = status.hits;
	progress->misses = status.misses;
}

void progress_close(struct progress *progress)
{
	if (progress->out && progress->terminal && progress->shown)
		(void)fputc('\n', progress->out);
}
