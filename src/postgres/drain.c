/*-------------------------------------------------------------------------
 *
 * drain.c
 *	  Emptying chunks: write what is dirty, drop what is clean.
 *
 * A step first goes on writing the sorted list of dirty pages that an earlier
 * pass left; when the list is used up it passes over all chunks again, parks
 * what it can and notes what is dirty.  Everything it knows is checked again
 * under the locks that matter, so the chunks may change between steps.
 *
 * Pages are only ever dropped, never moved: a checkpoint's sorted array holds
 * buffer numbers and a relation drop scans the pool once; a page that jumped
 * behind either would be lost or come back from the dead.
 *
 *-------------------------------------------------------------------------
 */
#include "drain.h"

#include "access/xlog.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/smgr.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "flush.h"
#include "park.h"
#include "shared.h"

/* Dirty pages remembered at most between two passes: a batch of the engine, 1 GB. */
#define FLUSH_LIST_CAPACITY 131072

/* Buffers handled between two looks at the clock. */
#define CLOCK_INTERVAL 32

static TideFlushList flush_list;

/* What is left in each chunk, as of the last look at it. */
static struct tide_drain_report *left_in_chunk;

/* One drain step under way. */
typedef struct DrainStep
{
	const struct tide_drain_budget *budget;
	struct tide_drain_work *work;
	uint64		written_bytes;
	instr_time	deadline_base;
	int			until_clock;
	bool		over;
} DrainStep;

void
TideDrainInit(void)
{
	TideFlushListInit(&flush_list, Min(FLUSH_LIST_CAPACITY, NBuffers));
	left_in_chunk = palloc_extended(tide_chunks->n_chunks * sizeof(struct tide_drain_report),
									MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
}

static enum tide_chunk_state
chunk_state(uint32 chunk)
{
	return atomic_load_explicit(&tide_chunks->chunk[chunk].state, memory_order_relaxed);
}

static bool
step_is_over(DrainStep *step)
{
	instr_time	now;

	if (step->over || --step->until_clock > 0)
		return step->over;
	step->until_clock = CLOCK_INTERVAL;
	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, step->deadline_base);
	step->over = (uint64) INSTR_TIME_GET_MICROSEC(now) * 1000 >= step->budget->work_ns;
	return step->over;
}

/*
 * What the pool's chunks are worth: the sum of usage counts.  Reads states
 * without locks; a wrong figure costs a good choice, never correctness.
 */
void
tide_host_survey(void *host, uint32_t first, uint32_t n, struct tide_chunk_fact *facts)
{
	for (uint32 i = 0; i < n; i++)
	{
		struct tide_chunk_fact fact = {0};

		for (int id = TideChunkFirstBuffer(first + i); id < TideChunkEndBuffer(first + i); id++)
		{
			uint32		state = pg_atomic_read_u32(&GetBufferDescriptor(id)->state);

			fact.heat += BUF_STATE_GET_USAGECOUNT(state);
			if (BUF_STATE_GET_REFCOUNT(state) > 0 && !TideIsParked(id))
				fact.pinned++;
			if (state & BM_DIRTY)
				fact.dirty++;
		}
		facts[i] = fact;
	}
}

/*
 * A stock server cannot be told to keep a page out of a buffer; taking the
 * free ones away is what a fence can do.  Pages that enter all the same are
 * found by the passes of the drain.
 */
int
tide_host_fence(void *host, const uint32_t *chunks, uint32_t n, struct tide_reason *why)
{
	TideFlushListClear(&flush_list);
	for (uint32 i = 0; i < n; i++)
	{
		for (int id = TideChunkFirstBuffer(chunks[i]); id < TideChunkEndBuffer(chunks[i]); id++)
			(void) TideParkIfFree(id);
		left_in_chunk[chunks[i]] = (struct tide_drain_report)
		{
			.left = (uint32) tide_shared->layout.buffers_per_chunk
		};
	}
	return 0;
}

int
tide_host_publish(void *host, const uint32_t *chunks, uint32_t n, struct tide_reason *why)
{
	/*
	 * The free list is a stack: from the last buffer to the first, so that
	 * they are handed out in address order.
	 */
	for (uint32 i = n; i-- > 0;)
		for (int id = TideChunkEndBuffer(chunks[i]) - 1; id >= TideChunkFirstBuffer(chunks[i]); id--)
			TideUnparkBuffer(id);
	return 0;
}

/* Park what can be parked in one chunk and note what is dirty. */
static void
pass_over_chunk(DrainStep *step, uint32 chunk)
{
	struct tide_drain_report report = {0};

	for (int id = TideChunkFirstBuffer(chunk); id < TideChunkEndBuffer(chunk); id++)
	{
		if (TideIsParked(id))
			continue;
		switch (TideParkBuffer(id))
		{
			case TIDE_PARK_DONE:
				break;
			case TIDE_PARK_EVICTED:
				step->work->evicted_pages++;
				break;
			case TIDE_PARK_BUSY:
			case TIDE_PARK_OCCUPIED:
				report.left++;
				report.pinned++;
				break;
			case TIDE_PARK_DIRTY:
				report.left++;
				report.dirty++;
				(void) TideFlushListAdd(&flush_list, id);
				break;
		}
	}
	left_in_chunk[chunk] = report;
}

static void
pass_over_chunks(DrainStep *step, const uint32_t *chunks, uint32_t n)
{
	TideFlushListClear(&flush_list);
	for (uint32 i = 0; i < n; i++)
		if (left_in_chunk[chunks[i]].left > 0)
			pass_over_chunk(step, chunks[i]);
	TideFlushListSort(&flush_list);
}

/* A page of the list has been written: drop it, if its chunk is still to be drained. */
static void
park_written(DrainStep *step, int buf_id)
{
	uint32		chunk = (uint32) (buf_id / tide_shared->layout.buffers_per_chunk);
	struct tide_drain_report *report = &left_in_chunk[chunk];

	if (chunk_state(chunk) != TIDE_CHUNK_DRAINING || TideIsParked(buf_id))
		return;
	switch (TideParkBuffer(buf_id))
	{
		case TIDE_PARK_EVICTED:
			step->work->evicted_pages++;
			/* FALLTHROUGH */
		case TIDE_PARK_DONE:
			report->left--;
			report->dirty--;
			break;
		default:
			break;
	}
}

static void
write_listed_pages(DrainStep *step)
{
	while (!TideFlushListEmpty(&flush_list) &&
		   step->written_bytes < step->budget->write_bytes &&
		   !step_is_over(step))
	{
		int			buf_id;

		if (TideFlushListWriteNext(&flush_list, &buf_id) == TIDE_FLUSH_WRITTEN)
		{
			step->work->written_pages++;
			step->written_bytes += BLCKSZ;
		}
		park_written(step, buf_id);
	}
}

/* A write failed: let go of everything that it held, and say why. */
static int
give_up_write(MemoryContext context, ResourceOwner owner, struct tide_reason *why)
{
	ErrorData  *error;

	HOLD_INTERRUPTS();
	MemoryContextSwitchTo(context);
	error = CopyErrorData();
	FlushErrorState();
	LWLockReleaseAll();
	TideAbortBufferIO();
	UnlockBuffers();
	ResourceOwnerRelease(owner, RESOURCE_RELEASE_BEFORE_LOCKS, false, true);
	ResourceOwnerRelease(owner, RESOURCE_RELEASE_LOCKS, false, true);
	ResourceOwnerRelease(owner, RESOURCE_RELEASE_AFTER_LOCKS, false, true);

	/* an owner that has been released cannot be used again */
	CurrentResourceOwner = NULL;
	ResourceOwnerDelete(owner);
	CurrentResourceOwner = ResourceOwnerCreate(NULL, "tidepool drain");
	RESUME_INTERRUPTS();

	(void) tide_reason_set(why, TIDE_HOST_ERROR, 0, "a dirty page could not be written: %s",
						   error->message);
	FreeErrorData(error);
	return TIDE_HOST_ERROR;
}

int
tide_host_drain(void *host, const uint32_t *chunks, uint32_t n,
				const struct tide_drain_budget *budget, struct tide_drain_report *reports,
				struct tide_drain_work *work, struct tide_reason *why)
{
	MemoryContext context = CurrentMemoryContext;
	volatile int code = 0;
	DrainStep	step = {.budget = budget, .work = work, .until_clock = CLOCK_INTERVAL};

	INSTR_TIME_SET_CURRENT(step.deadline_base);
	if (TideFlushListEmpty(&flush_list))
		pass_over_chunks(&step, chunks, n);

	PG_TRY();
	{
		write_listed_pages(&step);
	}
	PG_CATCH();
	{
		code = give_up_write(context, CurrentResourceOwner, why);
	}
	PG_END_TRY();

	/*
	 * No handle of a file may outlive the step: the relation may be dropped
	 * and its number used again, and this process would write to the old
	 * file.
	 */
	if (step.written_bytes > 0)
		smgrreleaseall();

	for (uint32 i = 0; i < n; i++)
		reports[i] = left_in_chunk[chunks[i]];
	return code;
}
