/* SPDX-License-Identifier: PostgreSQL */
/*
 * tide_test.c
 *	  For tests only: a full scan of the pool that owes nothing to the extension,
 *	  and a way to stop a backend between taking a victim and filling it.
 *
 * Built by tests/postgres/lib/Tide.pm against the server under test.
 */
#include "postgres.h"

#include <unistd.h>

#include "access/relation.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "storage/smgr.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/tuplestore.h"

#if PG_VERSION_NUM < 160000
#define InitBufferTag(tag, rel, fork, block) INIT_BUFFERTAG(*(tag), (rel)->rd_node, fork, block)
#define BufferTagsEqual(a, b) BUFFERTAGS_EQUAL(*(a), *(b))
#else
#define InitBufferTag(tag, rel, fork, block) InitBufferTag(tag, &(rel)->rd_locator, fork, block)
#endif

PG_MODULE_MAGIC;

#define SCAN_COLUMNS 6

/* How one buffer looks to somebody who knows only the server's own structures. */
typedef enum BufferLook
{
	LOOK_CHUNK,					/* not a look: the column of the chunk's number */
	LOOK_HELD,					/* empty, no flag, pinned once */
	LOOK_FREE,					/* empty, no flag, not pinned */
	LOOK_TAGGED,				/* holds a page that the lookup table finds here */
	LOOK_PINNED,				/* the same, pinned */
	LOOK_BROKEN,				/* anything else */
} BufferLook;

/* Does the lookup table lead from this tag to this buffer? */
static bool
is_found(const BufferTag *tag, int id)
{
	BufferTag	copy = *tag;
	uint32		hash = BufTableHashCode(&copy);
	LWLock	   *partition = BufMappingPartitionLock(hash);
	int			found;

	LWLockAcquire(partition, LW_SHARED);
	found = BufTableLookup(&copy, hash);
	LWLockRelease(partition);
	return found == id;
}

static BufferLook
look_at(int id)
{
	BufferDesc *buf = GetBufferDescriptor(id);
	uint32		state = LockBufHdr(buf);
	BufferTag	tag = buf->tag;
	uint32		pins;

	UnlockBufHdr(buf, state);
	pins = BUF_STATE_GET_REFCOUNT(state);
	if (state & BM_TAG_VALID)
	{
		if (!(state & BM_VALID) || !is_found(&tag, id))
			return LOOK_BROKEN;
		return pins > 0 ? LOOK_PINNED : LOOK_TAGGED;
	}
	if (state & (BM_VALID | BM_DIRTY | BM_IO_IN_PROGRESS) || pins > 1)
		return LOOK_BROKEN;
	return pins == 1 ? LOOK_HELD : LOOK_FREE;
}

/* scan(buffers_per_chunk): one row a chunk, (chunk, held, free, tagged, pinned, broken) */
PG_FUNCTION_INFO_V1(tide_test_scan);
Datum
tide_test_scan(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	int			per_chunk = PG_GETARG_INT32(0);

	InitMaterializedSRF(fcinfo, 0);
	for (int first = 0; first < NBuffers; first += per_chunk)
	{
		int			end = Min(first + per_chunk, NBuffers);
		int			count[SCAN_COLUMNS] = {0};
		Datum		values[SCAN_COLUMNS];
		bool		nulls[SCAN_COLUMNS] = {0};

		for (int id = first; id < end; id++)
			count[look_at(id)]++;
		count[LOOK_CHUNK] = first / per_chunk;
		for (int i = 0; i < SCAN_COLUMNS; i++)
			values[i] = Int32GetDatum(count[i]);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/*
 * hold_partition(relation, block, file): hold the lock of the block's part of
 * the lookup table until the file exists.  Who looks the block up passes; who
 * has taken a buffer for it and wants to enter it, waits.
 */
PG_FUNCTION_INFO_V1(tide_test_hold_partition);
Datum
tide_test_hold_partition(PG_FUNCTION_ARGS)
{
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);
	char	   *file = text_to_cstring(PG_GETARG_TEXT_PP(2));
	BufferTag	tag;
	LWLock	   *partition;

	InitBufferTag(&tag, rel, MAIN_FORKNUM, (BlockNumber) PG_GETARG_INT64(1));
	partition = BufMappingPartitionLock(BufTableHashCode(&tag));
	LWLockAcquire(partition, LW_SHARED);
	ereport(NOTICE, (errmsg("partition held")));
	for (int tries = 0; access(file, F_OK) != 0 && tries < 60000; tries++)
		pg_usleep(1000);
	LWLockRelease(partition);
	relation_close(rel, AccessShareLock);
	PG_RETURN_VOID();
}
