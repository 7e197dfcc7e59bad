/*-------------------------------------------------------------------------
 *
 * park.c
 *	  Taking single buffers out of use, and putting them back.
 *
 * A parked buffer is empty (no tag, no flags) and carries one shared pin that
 * no backend owns.  A victim search passes pinned buffers by, nothing maps to
 * the buffer, and nobody reads its contents: its memory can go.
 *
 * Why parking cannot take a buffer away from somebody:
 *	1. A backend that uses a page has pinned it; only buffers whose pin count
 *	   is zero under the header lock are parked.
 *	2. A backend that took a buffer as victim has pinned it in the same header
 *	   lock section in which it found the pin count zero, and keeps the pin
 *	   until the buffer is filled.  Such a buffer may have no tag: it looks
 *	   like a parked one, and only tide_parked[] tells them apart.
 *	3. A page that is dropped here is found by nobody after its lookup entry
 *	   is gone; who found the entry before pinned the buffer under the
 *	   partition lock, which is held here exclusively while the pin count is
 *	   read for the last time.
 *	4. An I/O in flight holds a pin of its own (also an asynchronous one, which
 *	   no backend's private table shows).
 *
 * Lock order is the server's: partition lock, then header lock.  The partition
 * lock is only tried for: the worker must not queue up in front of backends,
 * and it can come back later.
 *
 *-------------------------------------------------------------------------
 */
#include "park.h"

#include "storage/lwlock.h"

#include "shared.h"

/* In use by somebody, or being read or written; the header lock is held. */
static inline bool
is_busy(uint32 state)
{
	return BUF_STATE_GET_REFCOUNT(state) > 0 || (state & BM_IO_IN_PROGRESS);
}

/* The header lock is held and the buffer is empty: take it and unlock. */
static void
park_locked(BufferDesc *buf, uint32 state)
{
	Assert(BUF_STATE_GET_REFCOUNT(state) == 0);
	Assert(!(state & (BM_TAG_VALID | BM_VALID | BM_DIRTY)));
	Assert(!TideIsParked(buf->buf_id));

	tide_parked[buf->buf_id / 64] |= UINT64CONST(1) << (buf->buf_id % 64);
	UnlockBufHdr(buf, state + BUF_REFCOUNT_ONE);
}

/* Drop the clean page with this tag from its buffer, and park the buffer. */
static TideParkResult
evict_and_park(BufferDesc *buf, BufferTag *tag)
{
	uint32		hash = BufTableHashCode(tag);
	LWLock	   *partition = BufMappingPartitionLock(hash);
	uint32		state;

	if (!LWLockConditionalAcquire(partition, LW_EXCLUSIVE))
		return TIDE_PARK_BUSY;

	/* everything may have changed since the tag was read without the lock */
	state = LockBufHdr(buf);
	if (is_busy(state) || !(state & BM_TAG_VALID) || (state & BM_DIRTY) ||
		!BufferTagsEqual(&buf->tag, tag))
	{
		UnlockBufHdr(buf, state);
		LWLockRelease(partition);
		return (state & BM_DIRTY) ? TIDE_PARK_DIRTY : TIDE_PARK_BUSY;
	}

	ClearBufferTag(&buf->tag);
	state &= ~(BUF_FLAG_MASK | BUF_USAGECOUNT_MASK);
	park_locked(buf, state);
	BufTableDelete(tag, hash);
	LWLockRelease(partition);
	return TIDE_PARK_EVICTED;
}

static TideParkResult
park(int buf_id, bool evict)
{
	BufferDesc *buf = GetBufferDescriptor(buf_id);
	uint32		state = LockBufHdr(buf);
	BufferTag	tag;

	if (is_busy(state))
	{
		UnlockBufHdr(buf, state);
		return TideIsParked(buf_id) ? TIDE_PARK_DONE : TIDE_PARK_BUSY;
	}
	if (!(state & BM_TAG_VALID))
	{
		park_locked(buf, state & ~(BUF_FLAG_MASK | BUF_USAGECOUNT_MASK));
		return TIDE_PARK_DONE;
	}
	tag = buf->tag;
	UnlockBufHdr(buf, state);

	if (!evict)
		return TIDE_PARK_OCCUPIED;
	if (state & BM_DIRTY)
		return TIDE_PARK_DIRTY;
	return evict_and_park(buf, &tag);
}

TideParkResult
TideParkBuffer(int buf_id)
{
	return park(buf_id, true);
}

TideParkResult
TideParkIfFree(int buf_id)
{
	return park(buf_id, false);
}

void
TideUnparkBuffer(int buf_id)
{
	BufferDesc *buf = GetBufferDescriptor(buf_id);
	uint32		state;

	if (!TideIsParked(buf_id))
		return;
	state = LockBufHdr(buf);
	Assert(BUF_STATE_GET_REFCOUNT(state) > 0);
	tide_parked[buf_id / 64] &= ~(UINT64CONST(1) << (buf_id % 64));
	UnlockBufHdr(buf, state - BUF_REFCOUNT_ONE);
	StrategyFreeBuffer(buf);
}

/*
 * The server has just linked all buffers into its free list in order, from
 * buffer 0.  Popping hundreds of thousands of parked ones would be a stall
 * for the first backends, so the list is linked again through the buffers in
 * use; chunk 0 is always active, so the head stays right, and the server
 * never looks at the recorded tail.
 */
void
TideParkAtStart(void)
{
	BufferDesc *last = NULL;

	for (uint32 chunk = 0; chunk < tide_chunks->n_chunks; chunk++)
	{
		bool		active = atomic_load_explicit(&tide_chunks->chunk[chunk].state,
												  memory_order_relaxed) == TIDE_CHUNK_ACTIVE;

		for (int id = TideChunkFirstBuffer(chunk); id < TideChunkEndBuffer(chunk); id++)
		{
			BufferDesc *buf = GetBufferDescriptor(id);

			if (active)
			{
				if (last != NULL)
					last->freeNext = id;
				last = buf;
			}
			else
			{
				buf->freeNext = FREENEXT_NOT_IN_LIST;
				(void) TideParkIfFree(id);
			}
		}
	}
	last->freeNext = FREENEXT_END_OF_LIST;
}
