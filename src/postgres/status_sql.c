/*-------------------------------------------------------------------------
 *
 * status_sql.c
 *	  The functions behind the views status, progress, chunks and history.
 *
 *-------------------------------------------------------------------------
 */
#include "compat.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "host.h"
#include "outcome.h"
#include "shared.h"

#define STATUS_COLUMNS 22
#define PROGRESS_COLUMNS 13
#define CHUNK_COLUMNS 8
#define HISTORY_COLUMNS 17

/* What the running operation and the worker say at one moment. */
typedef struct Moment
{
	struct tide_progress progress;
	TideHistory last;
	uint64		floor_bytes;
	pid_t		worker_pid;
} Moment;

static void
take_moment(Moment *moment)
{
	LWLockAcquire(tide_shared->lock, LW_SHARED);
	moment->progress = tide_shared->progress;
	moment->last = tide_shared->history[tide_shared->last_op % TIDE_HISTORY_SIZE];
	moment->floor_bytes = tide_shared->floor_bytes;
	moment->worker_pid = tide_shared->worker_pid;
	LWLockRelease(tide_shared->lock);
}

static Datum
chunk_counts_jsonb(const uint32 counts[TIDE_CHUNK_STATES])
{
	StringInfoData text;

	initStringInfo(&text);
	for (int state = 0; state < TIDE_CHUNK_STATES; state++)
		appendStringInfo(&text, "%s\"%s\": %u", state == 0 ? "{" : ", ",
						 tide_chunk_state_name((enum tide_chunk_state) state), counts[state]);
	appendStringInfoChar(&text, '}');
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(text.data));
}

/*
 * What the kernel has back of the ceiling.  Huge pages that are surplus go to
 * the machine when they are freed, others stay in the huge-page pool; the
 * pool's free pages are therefore the most that can have gone there.
 */
static void
returned_bytes(uint64 committed, uint64 *to_pool, uint64 *to_os)
{
	const TideLayout *layout = &tide_shared->layout;
	uint64		returned = layout->max_bytes - Min(committed, layout->max_bytes);
	struct tide_machine_memory memory;
	struct tide_machine machine = {0};

	*to_pool = 0;
	if (layout->region.backing == TIDE_BACKING_HUGETLB &&
		tide_machine_memory(&machine, layout->region.page_bytes, &memory, NULL) == 0)
		*to_pool = Min(returned, memory.huge_free * layout->region.page_bytes);
	*to_os = returned - *to_pool;
}

static Datum
text_or_null(const char *text, bool is_null, bool *null)
{
	*null = is_null;
	return is_null ? (Datum) 0 : CStringGetTextDatum(text);
}

PG_FUNCTION_INFO_V1(tidepool_status);
Datum
tidepool_status(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Datum		values[STATUS_COLUMNS];
	bool		nulls[STATUS_COLUMNS] = {0};
	uint32		counts[TIDE_CHUNK_STATES];
	uint64_t	committed = 0;
	uint64		to_pool,
				to_os,
				allocatable;
	const TideLayout *layout;
	Moment	now;
	bool		running;
	int			i = 0;

	TideCheckActive();
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE ||
		desc->natts != STATUS_COLUMNS)
		elog(ERROR, "tidepool.status_row() is declared with other columns than this library returns");

	layout = &tide_shared->layout;
	take_moment(&now);
	tide_chunk_counts(tide_chunks, counts);
	allocatable = counts[TIDE_CHUNK_ACTIVE] * layout->chunk_bytes;
	running = !tide_op_state_ended(now.progress.state);
	nulls[5] = tide_host_audit(NULL, &committed, NULL) != 0;
	nulls[7] = nulls[8] = nulls[5];
	returned_bytes(committed, &to_pool, &to_os);

	values[i++] = CStringGetTextDatum(running ? tide_op_state_name(now.progress.state) : "idle");
	values[i++] = Int64GetDatum((int64) layout->max_bytes);
	values[i++] = Int64GetDatum((int64) now.floor_bytes);
	values[i++] = Int64GetDatum((int64) (running ? now.progress.requested_bytes : allocatable));
	values[i++] = Int64GetDatum((int64) allocatable);
	values[i++] = Int64GetDatum((int64) committed);
	values[i++] = Int64GetDatum((int64) layout->meta_bytes);
	values[i++] = Int64GetDatum((int64) to_pool);
	values[i++] = Int64GetDatum((int64) to_os);
	values[i++] = CStringGetTextDatum(tide_backing_name(layout->region.backing));
	values[i++] = Int64GetDatum((int64) layout->region.page_bytes);
	values[i++] = BoolGetDatum(layout->region.fell_back != 0);
	values[i] = text_or_null(layout->region.fallback.message, !layout->region.fell_back, &nulls[i]);
	i++;
	values[i++] = BoolGetDatum(layout->server_huge);
	values[i++] = CStringGetTextDatum(layout->numa);
	values[i++] = Int64GetDatum((int64) layout->chunk_bytes);
	values[i++] = chunk_counts_jsonb(counts);
	nulls[i] = now.worker_pid == 0;
	values[i++] = Int32GetDatum((int32) now.worker_pid);
	values[i++] = Int64GetDatum((int64) now.progress.op);
	values[i] = text_or_null(tide_op_state_name(now.last.progress.state),
							 now.last.progress.op == 0, &nulls[i]);
	i++;
	values[i] = text_or_null(tide_code_name(now.last.progress.reason.code),
							 now.last.progress.op == 0, &nulls[i]);
	i++;
	values[i] = text_or_null(now.last.progress.reason.message,
							 now.last.progress.reason.code == 0, &nulls[i]);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

PG_FUNCTION_INFO_V1(tidepool_progress);
Datum
tidepool_progress(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Datum		values[PROGRESS_COLUMNS];
	bool		nulls[PROGRESS_COLUMNS] = {0};
	struct tide_progress *p;
	Moment	now;
	int			i = 0;

	TideCheckActive();
	InitMaterializedSRF(fcinfo, 0);
	take_moment(&now);
	p = &now.progress;
	if (tide_op_state_ended(p->state))
		return (Datum) 0;

	values[i++] = Int64GetDatum((int64) p->op);
	values[i++] = CStringGetTextDatum(tide_op_state_name(p->state));
	values[i++] = CStringGetTextDatum(TideDirectionName(p->direction));
	values[i++] = Int64GetDatum((int64) p->requested_bytes);
	values[i++] = Int64GetDatum((int64) p->allocatable_bytes);
	values[i++] = Int64GetDatum((int64) p->chunks_total);
	values[i++] = Int64GetDatum((int64) p->chunks_done);
	values[i++] = Int64GetDatum((int64) p->chunks_total - (int64) p->chunks_done);
	values[i++] = Int64GetDatum((int64) p->blocked_chunks);
	values[i++] = Int64GetDatum((int64) p->evicted_pages);
	values[i++] = Int64GetDatum((int64) p->written_pages);
	values[i++] = TideNsInterval(p->elapsed_ns);
	nulls[i] = p->eta_ns == 0;
	values[i++] = TideNsInterval(p->eta_ns);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	return (Datum) 0;
}

PG_FUNCTION_INFO_V1(tidepool_chunks);
Datum
tidepool_chunks(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	TideCheckActive();
	InitMaterializedSRF(fcinfo, 0);
	for (uint32 chunk = 0; chunk < tide_chunks->n_chunks; chunk++)
	{
		Datum		values[CHUNK_COLUMNS];
		bool		nulls[CHUNK_COLUMNS] = {0};
		int			parked = 0,
					valid = 0,
					dirty = 0,
					pinned = 0,
					usage = 0;

		for (int id = TideChunkFirstBuffer(chunk); id < TideChunkEndBuffer(chunk); id++)
		{
			uint32		state = pg_atomic_read_u32(&GetBufferDescriptor(id)->state);

			parked += TideIsParked(id);
			pinned += !TideIsParked(id) && BUF_STATE_GET_REFCOUNT(state) > 0;
			valid += (state & BM_VALID) != 0;
			dirty += (state & BM_DIRTY) != 0;
			usage += BUF_STATE_GET_USAGECOUNT(state);
		}
		values[0] = Int32GetDatum((int32) chunk);
		values[1] = CStringGetTextDatum(tide_chunk_state_name((enum tide_chunk_state)
															  atomic_load_explicit(&tide_chunks->chunk[chunk].state, memory_order_relaxed)));
		values[2] = Int32GetDatum(TideChunkEndBuffer(chunk) - TideChunkFirstBuffer(chunk));
		values[3] = Int32GetDatum(parked);
		values[4] = Int32GetDatum(valid);
		values[5] = Int32GetDatum(dirty);
		values[6] = Int32GetDatum(pinned);
		values[7] = Int32GetDatum(usage);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

static void
put_history_row(ReturnSetInfo *rsinfo, const TideHistory *entry)
{
	const struct tide_progress *p = &entry->progress;
	Datum		values[HISTORY_COLUMNS];
	bool		nulls[HISTORY_COLUMNS] = {0};
	int			i = 0;

	values[i++] = Int64GetDatum((int64) p->op);
	values[i++] = CStringGetTextDatum(entry->source == TIDE_SOURCE_SQL ? "sql" : "reload");
	values[i++] = CStringGetTextDatum(tide_op_state_name(p->state));
	values[i++] = CStringGetTextDatum(TideDirectionName(p->direction));
	values[i++] = Int64GetDatum((int64) p->from_bytes);
	values[i++] = Int64GetDatum((int64) p->requested_bytes);
	values[i++] = Int64GetDatum((int64) p->allocatable_bytes);
	values[i++] = Int64GetDatum((int64) p->committed_bytes);
	values[i++] = Int64GetDatum((int64) p->returned_bytes);
	values[i++] = Int64GetDatum((int64) p->evicted_pages);
	values[i++] = Int64GetDatum((int64) p->written_pages);
	values[i++] = Int64GetDatum((int64) p->blocked_chunks);
	values[i++] = CStringGetTextDatum(tide_code_name(p->reason.code));
	values[i] = text_or_null(p->reason.message, p->reason.code == 0, &nulls[i]);
	i++;
	values[i++] = TidePhasesJsonb(p);
	values[i++] = TideNsInterval(p->elapsed_ns);
	values[i++] = TimestampTzGetDatum(entry->ended_at);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

PG_FUNCTION_INFO_V1(tidepool_history);
Datum
tidepool_history(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	TideHistory *copy;

	TideCheckActive();
	InitMaterializedSRF(fcinfo, 0);
	copy = palloc(sizeof(tide_shared->history));
	LWLockAcquire(tide_shared->lock, LW_SHARED);
	memcpy(copy, tide_shared->history, sizeof(tide_shared->history));
	LWLockRelease(tide_shared->lock);
	for (int i = 0; i < TIDE_HISTORY_SIZE; i++)
		if (copy[i].progress.op != 0)
			put_history_row(rsinfo, &copy[i]);
	return (Datum) 0;
}
