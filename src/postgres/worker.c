/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  The background worker that carries out resizes.
 *
 * It is connected to the shared catalogs only.  It never looks at one, but
 * being connected makes it take part in the server's barriers and
 * invalidations: without them it would keep files of dropped databases open.
 *
 * How it ends:
 *	- told to stop (SIGTERM): the running operation is taken back first, so
 *	  the pool is whole and the operation has its outcome;
 *	- by an error: it exits and is started again; the next worker finds the
 *	  chunk states and finishes or undoes;
 *	- by a signal that kills it: the server restarts, as for any of its
 *	  processes, and the pool with it.
 *
 *-------------------------------------------------------------------------
 */
#include "worker.h"

#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/pmsignal.h"
#include "storage/sinval.h"
#include "storage/smgr.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "host.h"
#include "operation.h"
#include "report.h"
#include "settings.h"

/* How long an idle worker sleeps between two looks at the memory of the pool. */
#define IDLE_INTERVAL_MS 60000

static uint32 wait_event = 0;
static struct tide_engine *engine;

/* pg_cancel_backend() on the worker: end the operation, not the worker. */
static volatile sig_atomic_t cancel_pending = false;

static void
handle_cancel(SIGNAL_ARGS)
{
	int			save_errno = errno;

	cancel_pending = true;
	SetLatch(MyLatch);
	errno = save_errno;
}

void
TideRegisterWorker(void)
{
	BackgroundWorker worker;

	memset(&worker, 0, sizeof(worker));
	strlcpy(worker.bgw_name, "tidepool resize worker", BGW_MAXLEN);
	strlcpy(worker.bgw_type, "tidepool resize worker", BGW_MAXLEN);
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_ConsistentState;
	worker.bgw_restart_time = 1;
	strlcpy(worker.bgw_library_name, "tidepool", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "TideWorkerMain", BGW_MAXLEN);
	RegisterBackgroundWorker(&worker);
}

static void
update_floor(void)
{
	uint64		floor_bytes = TideFloorInForce(tide_shared->layout.floor_bytes,
											   tide_shared->layout.max_bytes);

	LWLockAcquire(tide_shared->lock, LW_EXCLUSIVE);
	tide_shared->floor_bytes = floor_bytes;
	LWLockRelease(tide_shared->lock);
	if (engine != NULL)
		tide_engine_set_min(engine, floor_bytes);
}

static void
open_engine(void)
{
	struct tide_engine_config config = {
		.table = tide_chunks,
		.min_bytes = tide_shared->floor_bytes,
		.first_op = tide_shared->last_op + 1,
	};
	struct tide_reason why;
	uint32		repaired = 0;

	/* an operation left running keeps its number */
	if (!tide_op_state_ended(tide_shared->progress.state))
		config.first_op = tide_shared->progress.op + 1;

	if (tide_engine_open(&config, &tide_postgres_host, NULL, &engine, &why) != 0)
		TideReportReason(ERROR, "could not open the resize engine", &why);
	if (tide_engine_recover(engine, &repaired, &why) != 0)
		TideReportReason(ERROR, "could not repair the chunks of a former resize worker", &why);
	TideOperationEndOrphan(repaired);
}

/* Hand a request to the engine. */
static int
submit(uint64 seq, TideSource source, const struct tide_request *request, bool supersede,
	   struct tide_reason *why)
{
	TideOperationBegins(seq, source);
	return tide_engine_submit(engine, request, supersede, why);
}

static void
serve_request(void)
{
	TideAsk		ask;
	struct tide_reason why;
	struct tide_progress progress;
	int			code;

	if (!TideOperationTake(&ask))
		return;
	code = submit(ask.seq, TIDE_SOURCE_SQL, &ask.request, false, &why);
	tide_engine_progress(engine, &progress);

	/* a request that became an operation has been answered by its first change */
	if (code != 0 || ask.request.dry_run)
		TideOperationAnswer(&ask, code, &why, &progress);
}

/* tidepool.size may have changed: it is the latest wish, so it supersedes what runs. */
static void
apply_size_setting(void)
{
	struct tide_request request = {0};
	struct tide_reason why;

	request.target_bytes = TideWantedSize(tide_shared->floor_bytes, tide_shared->layout.max_bytes);
	request.deadline_ns = (uint64) tide_drain_timeout_ms * 1000000;
	request.flush_bytes_per_s = (uint64) tide_flush_rate_kb * 1024;
	request.linger_ns = (uint64) tide_linger_s * 1000000000;
	if (submit(TideOperationNumber(), TIDE_SOURCE_RELOAD, &request, true, &why) != 0)
		TideReportReason(LOG, "\"tidepool.size\" was not applied", &why);
}

static void
reload(void)
{
	char	   *old_size = pstrdup(tide_size_setting);

	ProcessConfigFile(PGC_SIGHUP);
	update_floor();
	if (strcmp(old_size, tide_size_setting) != 0)
		apply_size_setting();
	pfree(old_size);
}

/*
 * Read the invalidations that came while nobody asked for them, so that this
 * process does not hold up the queue.  That takes a transaction, which leaves
 * with the resource owner and memory context that the worker had.
 */
static void
read_invalidations(void)
{
	ResourceOwner owner = CurrentResourceOwner;
	MemoryContext context = CurrentMemoryContext;

	ProcessCatchupInterrupt();
	CurrentResourceOwner = owner;
	MemoryContextSwitchTo(context);
}

static void
handle_signals(void)
{
	/* a busy worker does not come by the latch that would tell it */
	if (!PostmasterIsAlive())
		proc_exit(1);
	CHECK_FOR_INTERRUPTS();		/* barriers */
	if (catchupInterruptPending)
		read_invalidations();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		reload();
	}
	if (cancel_pending)
	{
		cancel_pending = false;
		tide_engine_cancel(engine, TIDE_CANCELLED, "the resize worker was asked to cancel");
	}
	if (TideOperationCancelAsked())
		tide_engine_cancel(engine, TIDE_CANCELLED, "the resize was cancelled");
}

/* Take back what runs, so that the pool is whole when the worker goes. */
static void
stop(void)
{
	uint64_t	wait_ns;

	tide_engine_cancel(engine, TIDE_CANCELLED, "the resize worker was told to stop");
	while (tide_engine_step(engine, &wait_ns))
		pg_usleep((long) Min(wait_ns / 1000, 10000));
	proc_exit(1);
}

static void
wait_for_work(bool idle, uint64 wait_ns)
{
	long		timeout_ms = (long) Min(wait_ns / 1000000 + 1, IDLE_INTERVAL_MS);

	smgrreleaseall();
	if (idle)
		TideHostReleaseStray();
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, timeout_ms,
					 TIDE_WAIT_EVENT(wait_event, "TidepoolWorkerMain"));
}

void
TideWorkerMain(Datum arg)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	pqsignal(SIGINT, handle_cancel);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	CurrentResourceOwner = ResourceOwnerCreate(NULL, "tidepool resize worker");
	CurrentMemoryContext = AllocSetContextCreate(TopMemoryContext, "tidepool resize worker",
												 ALLOCSET_DEFAULT_SIZES);

	TideOperationAttach();
	TideHostInit();
	update_floor();
	open_engine();

	for (;;)
	{
		struct tide_progress progress;
		uint64_t	wait_ns;
		bool		running;

		ResetLatch(MyLatch);
		handle_signals();
		if (ShutdownRequestPending)
			stop();
		serve_request();
		running = tide_engine_step(engine, &wait_ns);
		if (running)
		{
			tide_engine_progress(engine, &progress);
			TideOperationProgress(&progress);
		}
		if (wait_ns > 0)
			wait_for_work(!running, wait_ns);
	}
}
