/*-------------------------------------------------------------------------
 *
 * shared.h
 *	  What the server's processes share about the pool: its layout, the
 *	  request slot, the progress of the running operation, the history.
 *
 * Who writes what:
 *	  - the layout: the postmaster, before any child exists; constant after;
 *	  - the chunk table and the parked map: the worker alone;
 *	  - the rest: under TideShared->lock.  Waiters sleep on ->changed, which
 *		is broadcast after every change that somebody may wait for.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TIDEPOOL_SHARED_H
#define TIDEPOOL_SHARED_H

#include "compat.h"

#include "datatype/timestamp.h"
#include "storage/condition_variable.h"
#include "storage/latch.h"
#include "storage/lwlock.h"

#include <tidepool/region.h>
#include <tidepool/resize.h>

#define TIDE_HISTORY_SIZE 100
#define TIDE_ANSWERS_SIZE 16

/* Who asked for an operation. */
typedef enum TideSource
{
	TIDE_SOURCE_SQL,			/* tidepool.resize() */
	TIDE_SOURCE_RELOAD,			/* tidepool.size changed */
} TideSource;

/* One request as a backend leaves it for the worker. */
typedef struct TideAsk
{
	uint64		seq;			/* number of the request; 0 = none waiting */
	struct tide_request request;
} TideAsk;

/* The worker's first answer to a request. */
typedef struct TideAnswer
{
	uint64		seq;			/* which request */
	int			code;			/* 0 = accepted: it runs, or see progress */
	struct tide_reason reason;	/* why it was refused */
	uint64		op;				/* operation that runs for it; 0 = ended at once */
	struct tide_progress progress;	/* its outcome when op is 0 */
} TideAnswer;

/* An operation that has ended. */
typedef struct TideHistory
{
	struct tide_progress progress;
	TideSource	source;
	TimestampTz ended_at;
} TideHistory;

/* How the pool was laid out at start. */
typedef struct TideLayout
{
	bool		active;			/* false in modes where the pool is left alone */
	struct tide_region_info region;
	uint64		max_bytes;		/* ceiling: all chunks */
	uint64		floor_bytes;	/* derived floor; tidepool.min_size can raise it */
	uint64		chunk_bytes;
	uint32		n_chunks;
	int			buffers_per_chunk;
	uint64		meta_bytes;		/* always committed beside the pages: descriptors ... */
	uint64		start_bytes;	/* allocatable when the server started */
	bool		server_huge;	/* the server's own segment lies in huge pages */
	char		numa[128];		/* placement in words */
	TimestampTz started_at;
} TideLayout;

typedef struct TideShared
{
	TideLayout	layout;

	LWLock	   *lock;
	ConditionVariable changed;

	/* the worker */
	pid_t		worker_pid;		/* 0 = not running */
	Latch	   *worker_latch;
	uint64		floor_bytes;	/* floor in force */

	/* request slot: one request waits here until the worker takes it */
	uint64		last_seq;		/* last number given to a request */
	TideAsk		ask;
	uint64		cancel_seq;		/* request to be cancelled; 0 = none */
	TideAnswer	answers[TIDE_ANSWERS_SIZE];	/* by seq modulo the size */

	/* the running or last operation */
	uint64		running_seq;	/* request it belongs to; 0 = nothing runs */
	TideSource	running_source;
	struct tide_progress progress;
	uint64		last_op;

	/* operations that have ended: op modulo the size */
	TideHistory history[TIDE_HISTORY_SIZE];
} TideShared;

extern TideShared *tide_shared;
extern struct tide_chunk_table *tide_chunks;

/*
 * One bit per buffer: the pin without an owner on this buffer is ours.  A
 * pinned buffer without a tag may also be one that a backend took as victim
 * and is about to fill; only this map tells them apart.  Set and cleared by
 * the worker while it holds the buffer's header lock.
 */
extern uint64 *tide_parked;

extern Size TideSharedSize(uint32 n_chunks);
extern void TideSharedInit(uint32 n_chunks, uint64 chunk_bytes);

static inline bool
TideIsParked(int buf_id)
{
	return (tide_parked[buf_id / 64] >> (buf_id % 64)) & 1;
}

/* First buffer of a chunk, and the buffer after its last one. */
static inline int
TideChunkFirstBuffer(uint32 chunk)
{
	return (int) chunk * tide_shared->layout.buffers_per_chunk;
}

static inline int
TideChunkEndBuffer(uint32 chunk)
{
	return Min(TideChunkFirstBuffer(chunk) + tide_shared->layout.buffers_per_chunk, NBuffers);
}

/* Raise an error when the pool is not ours in this server (single-user mode ...). */
extern void TideCheckActive(void);

#endif							/* TIDEPOOL_SHARED_H */
