/*-------------------------------------------------------------------------
 *
 * operation.c
 *	  Requests and outcomes, as they pass between backends and the worker.
 *
 * One request at a time: a backend leaves it in the slot, the worker takes it
 * and answers under its number; when an operation runs for it, its outcome is
 * found in the history.  A backend that goes away cancels its request.
 *
 *-------------------------------------------------------------------------
 */
#include "operation.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/timestamp.h"

#include "report.h"

static uint32 wait_event = 0;

/* ---------------------------------------------------------------- backends */

static bool
operation_pending(void)
{
	return tide_shared->ask.seq != 0 || !tide_op_state_ended(tide_shared->progress.state);
}

uint64
TideOperationAsk(const struct tide_request *request)
{
	uint64		seq = 0;
	bool		worker_missing;

	LWLockAcquire(tide_shared->lock, LW_EXCLUSIVE);
	worker_missing = tide_shared->worker_pid == 0;
	if (!worker_missing && !operation_pending())
	{
		seq = ++tide_shared->last_seq;
		tide_shared->ask.seq = seq;
		tide_shared->ask.request = *request;
		SetLatch(tide_shared->worker_latch);
	}
	LWLockRelease(tide_shared->lock);

	if (worker_missing)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the resize worker is not running"),
				 errhint("It starts again by itself within a second; if it does not, see the server log and \"max_worker_processes\".")));
	if (seq == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("another resize is running"),
				 errdetail("One operation runs at a time: see tidepool.progress."),
				 errhint("Wait for it to end, or end it with tidepool.cancel().")));
	return seq;
}

/* Must hold the lock. */
static void
cancel_locked(uint64 seq)
{
	tide_shared->cancel_seq = seq;
	if (tide_shared->worker_latch != NULL)
		SetLatch(tide_shared->worker_latch);
}

static void
cancel_request(int code, Datum seq)
{
	LWLockAcquire(tide_shared->lock, LW_EXCLUSIVE);
	cancel_locked((uint64) DatumGetInt64(seq));
	LWLockRelease(tide_shared->lock);
}

bool
TideOperationCancel(void)
{
	bool		pending;

	LWLockAcquire(tide_shared->lock, LW_EXCLUSIVE);
	pending = operation_pending();
	if (pending)
		cancel_locked(tide_shared->ask.seq != 0 ? tide_shared->ask.seq : tide_shared->running_seq);
	LWLockRelease(tide_shared->lock);
	return pending;
}

typedef enum AwaitState
{
	AWAIT_PENDING,
	AWAIT_REFUSED,
	AWAIT_ENDED,
	AWAIT_LOST,
} AwaitState;

static AwaitState
await_state(uint64 seq, struct tide_progress *outcome, struct tide_reason *why)
{
	TideAnswer *answer = &tide_shared->answers[seq % TIDE_ANSWERS_SIZE];
	AwaitState	state = AWAIT_PENDING;

	LWLockAcquire(tide_shared->lock, LW_SHARED);
	if (answer->seq == seq && answer->code != 0)
	{
		*why = answer->reason;
		state = AWAIT_REFUSED;
	}
	else if (answer->seq == seq && answer->op == 0)
	{
		*outcome = answer->progress;
		state = AWAIT_ENDED;
	}
	else if (answer->seq == seq)
	{
		TideHistory *entry = &tide_shared->history[answer->op % TIDE_HISTORY_SIZE];

		if (entry->progress.op == answer->op)
		{
			*outcome = entry->progress;
			state = AWAIT_ENDED;
		}
		else if (entry->progress.op > answer->op)
			state = AWAIT_LOST;
	}
	else if (answer->seq > seq)
		state = AWAIT_LOST;
	LWLockRelease(tide_shared->lock);
	return state;
}

static AwaitState
await_end(uint64 seq, struct tide_progress *outcome, struct tide_reason *why)
{
	AwaitState	state;

	ConditionVariablePrepareToSleep(&tide_shared->changed);
	while ((state = await_state(seq, outcome, why)) == AWAIT_PENDING)
	{
		/* the server does not tell a waiting backend that its client has gone */
		if (ConditionVariableTimedSleep(&tide_shared->changed, 1000,
										TIDE_WAIT_EVENT(wait_event, "TidepoolResize")) &&
			MyProcPort != NULL && !pq_check_connection())
			ereport(FATAL,
					(errcode(ERRCODE_CONNECTION_FAILURE),
					 errmsg("connection to client lost")));
		CHECK_FOR_INTERRUPTS();
	}
	ConditionVariableCancelSleep();
	return state;
}

bool
TideOperationAwait(uint64 seq, struct tide_progress *outcome, struct tide_reason *why)
{
	AwaitState	state;

	PG_ENSURE_ERROR_CLEANUP(cancel_request, Int64GetDatum((int64) seq));
	{
		state = await_end(seq, outcome, why);
	}
	PG_END_ENSURE_ERROR_CLEANUP(cancel_request, Int64GetDatum((int64) seq));

	if (state == AWAIT_LOST)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("the outcome of the resize is no longer known"),
				 errhint("See tidepool.status and the server log.")));
	return state == AWAIT_ENDED;
}

/* ------------------------------------------------------------------ worker */

/* The worker goes: nobody serves requests until the next one attaches. */
static void
detach_worker(int code, Datum arg)
{
	LWLockAcquire(tide_shared->lock, LW_EXCLUSIVE);
	tide_shared->worker_pid = 0;
	tide_shared->worker_latch = NULL;
	LWLockRelease(tide_shared->lock);
	ConditionVariableBroadcast(&tide_shared->changed);
}

void
TideOperationAttach(void)
{
	LWLockAcquire(tide_shared->lock, LW_EXCLUSIVE);
	tide_shared->worker_pid = MyProcPid;
	tide_shared->worker_latch = MyLatch;
	LWLockRelease(tide_shared->lock);
	before_shmem_exit(detach_worker, (Datum) 0);
}

void
TideOperationEndOrphan(uint32 repaired_chunks)
{
	struct tide_progress orphan = tide_shared->progress;
	uint32		counts[TIDE_CHUNK_STATES];

	if (tide_op_state_ended(orphan.state))
		return;
	tide_chunk_counts(tide_chunks, counts);
	orphan.state = TIDE_OP_FAILED;
	orphan.allocatable_bytes = counts[TIDE_CHUNK_ACTIVE] * tide_shared->layout.chunk_bytes;
	(void) tide_reason_set(&orphan.reason, TIDE_HOST_ERROR, 0,
						   "the resize worker ended while the operation ran; "
						   "%u chunks it had under way were taken back", repaired_chunks);
	tide_reason_hint(&orphan.reason, "See the server log for why it ended, then ask again.");
	TideOperationChanged(&orphan);
}

bool
TideOperationTake(TideAsk *ask)
{
	if (tide_shared->ask.seq == 0)
		return false;
	LWLockAcquire(tide_shared->lock, LW_EXCLUSIVE);
	*ask = tide_shared->ask;
	tide_shared->ask.seq = 0;
	LWLockRelease(tide_shared->lock);
	return ask->seq != 0;
}

/* Must hold the lock. */
static TideAnswer *
answer_slot(uint64 seq)
{
	TideAnswer *answer = &tide_shared->answers[seq % TIDE_ANSWERS_SIZE];

	memset(answer, 0, sizeof(*answer));
	answer->seq = seq;
	return answer;
}

void
TideOperationAnswer(const TideAsk *ask, int code, const struct tide_reason *why,
					const struct tide_progress *progress)
{
	TideAnswer *answer;

	LWLockAcquire(tide_shared->lock, LW_EXCLUSIVE);
	answer = answer_slot(ask->seq);
	answer->code = code;
	if (code != 0)
		answer->reason = *why;
	else
		answer->progress = *progress;
	LWLockRelease(tide_shared->lock);
	ConditionVariableBroadcast(&tide_shared->changed);
}

uint64
TideOperationNumber(void)
{
	uint64		seq;

	LWLockAcquire(tide_shared->lock, LW_EXCLUSIVE);
	seq = ++tide_shared->last_seq;
	LWLockRelease(tide_shared->lock);
	return seq;
}

/* The request for which the engine is about to begin an operation. */
static uint64 upcoming_seq;
static TideSource upcoming_source;

void
TideOperationBegins(uint64 seq, TideSource source)
{
	upcoming_seq = seq;
	upcoming_source = source;
}

/*
 * The first news of an operation: it belongs to the request announced last.
 * One that is superseded has ended before its successor is heard of.  Must
 * hold the lock.
 */
static void
adopt_request_locked(const struct tide_progress *progress)
{
	if (progress->op == tide_shared->progress.op)
		return;
	tide_shared->running_seq = upcoming_seq;
	tide_shared->running_source = upcoming_source;
	upcoming_seq = 0;
}

bool
TideOperationCancelAsked(void)
{
	bool		asked;

	if (tide_shared->cancel_seq == 0)
		return false;
	LWLockAcquire(tide_shared->lock, LW_EXCLUSIVE);
	asked = tide_shared->cancel_seq == tide_shared->running_seq;

	/* a request that still waits in the slot keeps its cancel until it is taken */
	if (asked || tide_shared->cancel_seq != tide_shared->ask.seq)
		tide_shared->cancel_seq = 0;
	LWLockRelease(tide_shared->lock);
	return asked;
}

void
TideOperationProgress(const struct tide_progress *progress)
{
	LWLockAcquire(tide_shared->lock, LW_EXCLUSIVE);
	tide_shared->progress = *progress;
	LWLockRelease(tide_shared->lock);
}

static void
log_outcome(const struct tide_progress *p)
{
	ereport(LOG,
			(errmsg("resize %s: " UINT64_FORMAT " MB -> " UINT64_FORMAT " MB of " UINT64_FORMAT " MB asked; "
					"committed=" UINT64_FORMAT " MB, returned=" UINT64_FORMAT " MB; "
					"evicted=" UINT64_FORMAT ", written=" UINT64_FORMAT ", blocked chunks=%u; "
					"commit=%.3f s, publish=%.3f s, drain=%.3f s, release=%.3f s, total=%.3f s",
					tide_op_state_name(p->state),
					p->from_bytes >> 20, p->allocatable_bytes >> 20, p->requested_bytes >> 20,
					p->committed_bytes >> 20, p->returned_bytes >> 20,
					p->evicted_pages, p->written_pages, p->blocked_chunks,
					(double) p->phase_ns[TIDE_OP_COMMIT] / 1e9,
					(double) p->phase_ns[TIDE_OP_PUBLISH] / 1e9,
					(double) (p->phase_ns[TIDE_OP_FENCE] + p->phase_ns[TIDE_OP_DRAIN]) / 1e9,
					(double) p->phase_ns[TIDE_OP_RELEASE] / 1e9,
					(double) p->elapsed_ns / 1e9),
			 p->reason.code == 0 ? 0 :
			 errdetail("%s: %s", tide_code_name(p->reason.code), p->reason.message),
			 p->reason.hint[0] == '\0' ? 0 : errhint("%s", p->reason.hint)));
}

void
TideOperationChanged(const struct tide_progress *progress)
{
	bool		ended = tide_op_state_ended(progress->state);
	TideHistory *entry;

	if (progress->dry_run)
		return;
	LWLockAcquire(tide_shared->lock, LW_EXCLUSIVE);
	adopt_request_locked(progress);
	tide_shared->progress = *progress;
	if (tide_shared->running_seq != 0)
		answer_slot(tide_shared->running_seq)->op = progress->op;
	if (ended)
	{
		entry = &tide_shared->history[progress->op % TIDE_HISTORY_SIZE];
		entry->progress = *progress;
		entry->source = tide_shared->running_source;
		entry->ended_at = GetCurrentTimestamp();
		tide_shared->last_op = progress->op;
		tide_shared->running_seq = 0;
	}
	LWLockRelease(tide_shared->lock);
	if (ended)
		log_outcome(progress);
	else
		ereport(DEBUG1,
				(errmsg_internal("resize " UINT64_FORMAT ": %s", progress->op,
								 tide_op_state_name(progress->state))));
	ConditionVariableBroadcast(&tide_shared->changed);
}
