/*-------------------------------------------------------------------------
 *
 * host.c
 *	  PostgreSQL as a host of the resize engine: memory, time and the
 *	  reporting of progress.  Draining is in drain.c.
 *
 *-------------------------------------------------------------------------
 */
#include "host.h"

#include <time.h>

#include "utils/timestamp.h"

#include "arrays.h"
#include "blockers.h"
#include "drain.h"
#include "operation.h"
#include "pause.h"
#include "report.h"
#include "settings.h"
#include "shared.h"

/* Ranges of the chunks that one commit or decommit concerns. */
static struct tide_range *ranges;

/* How often the backends suspected of pins are looked up. */
#define SUSPECTS_INTERVAL_NS (UINT64CONST(100) * 1000 * 1000)

static char suspects[128];		/* as of the last look; "" = none */
static uint64 next_look_ns;

static uint32 commit_wait_event = 0;
static uint32 decommit_wait_event = 0;

void
TideHostInit(void)
{
	ranges = palloc_extended(tide_chunks->n_chunks * sizeof(struct tide_range), MCXT_ALLOC_HUGE);
	TideDrainInit();
}

static uint64_t
host_clock_ns(void *host)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * 1000000000 + (uint64_t) now.tv_nsec;
}

static void
set_ranges(const uint32_t *chunks, uint32_t n)
{
	uint64		bytes = tide_shared->layout.chunk_bytes;

	for (uint32 i = 0; i < n; i++)
		ranges[i] = (struct tide_range) {chunks[i] * bytes, bytes};
}

int
tide_host_preflight(void *host, uint64_t bytes, struct tide_reason *why)
{
	struct tide_machine machine = TideMachine();
	struct tide_verdict verdict;

	if (tide_preflight(&machine, tide_shared->layout.region.backing,
					   tide_shared->layout.region.page_bytes, bytes, &verdict) == 0)
		return 0;
	if (why != NULL)
		*why = verdict.reason;
	return verdict.reason.code;
}

static int
host_commit(void *host, const uint32_t *chunks, uint32_t n, struct tide_reason *why)
{
	int			code;

	set_ranges(chunks, n);
	pgstat_report_wait_start(TIDE_WAIT_EVENT(commit_wait_event, "TidepoolCommit"));
	code = tide_region_commit(tide_region, ranges, n, why);
	pgstat_report_wait_end();
	return code;
}

static int
host_decommit(void *host, const uint32_t *chunks, uint32_t n, struct tide_reason *why)
{
	int			code;

	set_ranges(chunks, n);
	pgstat_report_wait_start(TIDE_WAIT_EVENT(decommit_wait_event, "TidepoolDecommit"));
	code = tide_region_decommit(tide_region, ranges, n, why);
	pgstat_report_wait_end();
	return code;
}

int
tide_host_audit(void *host, uint64_t *committed_bytes, struct tide_reason *why)
{
	uint64_t	all = 0;
	int			code = tide_region_audit(tide_region, &all, why);

	*committed_bytes = all - Min(all, tide_shared->layout.meta_bytes);
	return code;
}

/* Punch everything that is retired. */
static int
release_retired(struct tide_reason *why)
{
	uint64		bytes = tide_shared->layout.chunk_bytes;
	size_t		n = 0;

	for (uint32 i = 0; i < tide_chunks->n_chunks; i++)
		if (atomic_load_explicit(&tide_chunks->chunk[i].state,
								 memory_order_relaxed) == TIDE_CHUNK_RETIRED)
			ranges[n++] = (struct tide_range) {i * bytes, bytes};
	return tide_region_decommit(tide_region, ranges, n, why);
}

/*
 * A read of a retired buffer allocates its page again.  More memory than all
 * chunks together that are not retired can only come from there: release it.
 */
static int
audit_and_repair(void *host, uint64_t *committed_bytes, struct tide_reason *why)
{
	int			code = tide_host_audit(host, committed_bytes, why);
	uint32		counts[TIDE_CHUNK_STATES];
	uint64		most;

	if (code != 0)
		return code;
	tide_chunk_counts(tide_chunks, counts);
	most = (tide_chunks->n_chunks - counts[TIDE_CHUNK_RETIRED]) * tide_shared->layout.chunk_bytes;
	if (*committed_bytes <= most)
		return 0;

	ereport(LOG,
			(errmsg("releasing " UINT64_FORMAT " kB that a read of retired buffers had allocated",
					(*committed_bytes - most) / 1024)));
	code = release_retired(why);
	return code != 0 ? code : tide_host_audit(host, committed_bytes, why);
}

void
TideHostReleaseStray(void)
{
	uint64_t	committed;
	struct tide_reason why;

	if (audit_and_repair(NULL, &committed, &why) != 0)
		TideReportReason(LOG, "could not release memory of retired buffers", &why);
}

/*
 * Nobody reads the memory of a buffer that is neither pinned nor mapped, and
 * a parked buffer is neither: there is no reader to wait for.
 */
static int
host_quiesce(void *host, const uint32_t *chunks, uint32_t n)
{
	return 0;
}

/*
 * Who is in the way is known only while chunks are being drained; when the
 * operation ends they are in use again.  So it is looked up now and then
 * while nothing moves, and remembered for the outcome.
 */
static void
note_suspects(void)
{
	uint64		now = host_clock_ns(NULL);
	char	   *summary;

	if (now < next_look_ns)
		return;
	next_look_ns = now + SUSPECTS_INTERVAL_NS;
	summary = TideBlockersSummary();
	strlcpy(suspects, summary != NULL ? summary : "", sizeof(suspects));
	if (summary != NULL)
		pfree(summary);
}

static int
host_drain(void *host, const uint32_t *chunks, uint32_t n,
		   const struct tide_drain_budget *budget, struct tide_drain_report *reports,
		   struct tide_drain_work *work, struct tide_reason *why)
{
	uint64		done = work->evicted_pages + work->written_pages;
	int			code = tide_host_drain(host, chunks, n, budget, reports, work, why);
	uint32		pinned = 0;

	for (uint32 i = 0; i < n; i++)
		pinned += reports[i].pinned;
	if (pinned > 0 && work->evicted_pages + work->written_pages == done)
		note_suspects();
	return code;
}

static void
host_changed(void *host, const struct tide_progress *progress)
{
	struct tide_progress told = *progress;
	size_t		used = strlen(told.reason.message);

	if (!tide_op_state_ended(told.state))
	{
		TideOperationChanged(&told);
		TIDE_PAUSE(tide_op_state_name(told.state));
		return;
	}
	if (told.reason.code == TIDE_PINNED_BUFFERS && suspects[0] != '\0')
		snprintf(told.reason.message + used, sizeof(told.reason.message) - used, "; %s", suspects);
	suspects[0] = '\0';
	TideOperationChanged(&told);
}

const struct tide_host_ops tide_postgres_host = {
	.clock_ns = host_clock_ns,
	.survey = tide_host_survey,
	.preflight = tide_host_preflight,
	.commit = host_commit,
	.publish = tide_host_publish,
	.fence = tide_host_fence,
	.drain = host_drain,
	.quiesce = host_quiesce,
	.decommit = host_decommit,
	.audit = audit_and_repair,
	.changed = host_changed,
};
