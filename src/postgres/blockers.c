/*-------------------------------------------------------------------------
 *
 * blockers.c
 *	  What holds up the chunks that are being drained, and who may be behind it.
 *
 * A stock server does not record who pins a buffer.  What can be known is the
 * file that the page belongs to, and the processes that hold a lock on a
 * relation: whoever pins a page of a relation has locked the relation before
 * and keeps the lock as long as the pin.  Those are suspects, no more: most
 * who hold the lock look at other pages or at none.
 *
 * Only chunks that are on their way out are looked at.  A pin in an active
 * chunk is in nobody's way, so without a running operation there is nothing
 * to be found.
 *
 *-------------------------------------------------------------------------
 */
#include "blockers.h"

#include "common/relpath.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/tuplestore.h"

#include "shared.h"

#define BLOCKER_COLUMNS 8

/* Processes that a summary names; a message has room for no more. */
#define SUMMARY_PIDS 8

/* A file; without a tag (a victim that is being filled) all zero and no fork. */
typedef struct BlockerKey
{
	Oid			tablespace;
	Oid			database;
	Oid			filenode;
	int32		fork;
} BlockerKey;

StaticAssertDecl(sizeof(BlockerKey) == 3 * sizeof(Oid) + sizeof(int32),
				 "a hash key must not have padding");

typedef struct Blocker
{
	BlockerKey	key;
	int64		buffers;
	int64		chunks;
	int64		pinned;
	int64		dirty;
	uint32		last_chunk;		/* the chunk counted last */
} Blocker;

static bool
is_being_drained(uint32 chunk)
{
	uint32		state = atomic_load_explicit(&tide_chunks->chunk[chunk].state,
											 memory_order_relaxed);

	return state == TIDE_CHUNK_FENCED || state == TIDE_CHUNK_DRAINING;
}

static bool
is_in_the_way(int buf_id, uint32 state)
{
	return !TideIsParked(buf_id) &&
		(BUF_STATE_GET_REFCOUNT(state) > 0 || (state & BM_DIRTY) != 0);
}

static void
count_buffer(HTAB *blockers, uint32 chunk, const BlockerKey *key, uint32 state)
{
	bool		found;
	Blocker    *blocker = hash_search(blockers, key, HASH_ENTER, &found);

	if (!found)
		memset((char *) blocker + sizeof(BlockerKey), 0, sizeof(Blocker) - sizeof(BlockerKey));
	if (!found || blocker->last_chunk != chunk)
		blocker->chunks++;
	blocker->last_chunk = chunk;
	blocker->buffers++;
	blocker->pinned += BUF_STATE_GET_REFCOUNT(state) > 0;
	blocker->dirty += (state & BM_DIRTY) != 0;
}

static void
look_at_buffer(HTAB *blockers, uint32 chunk, int buf_id)
{
	BufferDesc *buf = GetBufferDescriptor(buf_id);
	BlockerKey	key = {.fork = InvalidForkNumber};
	uint32		state;
	bool		counts;

	if (!is_in_the_way(buf_id, pg_atomic_read_u32(&buf->state)))
		return;

	/* it may be parked, unpinned or another page's by now */
	state = LockBufHdr(buf);
	counts = is_in_the_way(buf_id, state);
	if (state & BM_TAG_VALID)
	{
		key.tablespace = BufTagGetSpcOid(&buf->tag);
		key.database = BufTagGetDbOid(&buf->tag);
		key.filenode = BufTagGetRelNumber(&buf->tag);
		key.fork = BufTagGetForkNum(&buf->tag);
	}
	UnlockBufHdr(buf, state);
	if (counts)
		count_buffer(blockers, chunk, &key, state);
}

/* All blockers of this moment, in the current memory context. */
static HTAB *
find_blockers(void)
{
	HASHCTL		control = {
		.keysize = sizeof(BlockerKey),
		.entrysize = sizeof(Blocker),
		.hcxt = CurrentMemoryContext,
	};
	HTAB	   *blockers = hash_create("tidepool blockers", 64, &control,
									   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);

	for (uint32 chunk = 0; chunk < tide_chunks->n_chunks; chunk++)
	{
		if (!is_being_drained(chunk))
			continue;
		CHECK_FOR_INTERRUPTS();
		for (int id = TideChunkFirstBuffer(chunk); id < TideChunkEndBuffer(chunk); id++)
			look_at_buffer(blockers, chunk, id);
	}
	return blockers;
}

static void
put_blocker_row(ReturnSetInfo *rsinfo, const Blocker *blocker)
{
	Datum		values[BLOCKER_COLUMNS];
	bool		nulls[BLOCKER_COLUMNS] = {0};
	bool		has_page = blocker->key.fork != InvalidForkNumber;
	int			i = 0;

	nulls[0] = nulls[1] = nulls[2] = nulls[3] = !has_page;
	values[i++] = ObjectIdGetDatum(blocker->key.database);
	values[i++] = ObjectIdGetDatum(blocker->key.tablespace);
	values[i++] = ObjectIdGetDatum(blocker->key.filenode);
	values[i++] = has_page ? CStringGetTextDatum(forkNames[blocker->key.fork]) : (Datum) 0;
	values[i++] = Int64GetDatum(blocker->buffers);
	values[i++] = Int64GetDatum(blocker->chunks);
	values[i++] = Int64GetDatum(blocker->pinned);
	values[i++] = Int64GetDatum(blocker->dirty);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

PG_FUNCTION_INFO_V1(tidepool_blockers);
Datum
tidepool_blockers(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	HASH_SEQ_STATUS scan;
	HTAB	   *blockers;
	Blocker    *blocker;

	TideCheckActive();
	InitMaterializedSRF(fcinfo, 0);
	if (rsinfo->setDesc->natts != BLOCKER_COLUMNS)
		elog(ERROR, "tidepool.blocker_rows() is declared with other columns than this library returns");

	blockers = find_blockers();
	hash_seq_init(&scan, blockers);
	while ((blocker = hash_seq_search(&scan)) != NULL)
		put_blocker_row(rsinfo, blocker);
	hash_destroy(blockers);
	return (Datum) 0;
}

/*
 * Does this lock fit a file with pinned pages?  The lock names the relation
 * and the page its file; only a database could tell which file is whose.
 * They have the same number until the relation is written anew (TRUNCATE,
 * VACUUM FULL, CLUSTER, REINDEX ...), so after that a suspect is missed here
 * that the view, which asks the database, still finds.
 */
static bool
lock_fits(const LockInstanceData *lock, HTAB *blockers)
{
	HASH_SEQ_STATUS scan;
	Blocker    *blocker;

	if (lock->locktag.locktag_type != LOCKTAG_RELATION || lock->holdMask == 0 ||
		lock->pid == 0 || lock->pid == MyProcPid)
		return false;
	hash_seq_init(&scan, blockers);
	while ((blocker = hash_seq_search(&scan)) != NULL)
	{
		if (blocker->pinned > 0 && OidIsValid(blocker->key.filenode) &&
			lock->locktag.locktag_field1 == blocker->key.database &&
			lock->locktag.locktag_field2 == blocker->key.filenode)
		{
			hash_seq_term(&scan);
			return true;
		}
	}
	return false;
}

static int
compare_pids(const void *a, const void *b)
{
	int			left = *(const int *) a;
	int			right = *(const int *) b;

	return (left > right) - (left < right);
}

/* Pids that hold a lock that fits, ascending, each once; palloc'd. */
static int *
find_suspects(HTAB *blockers, int *count)
{
	LockData   *locks = GetLockStatusData();
	int		   *found = palloc((Size) locks->nelements * sizeof(int) + sizeof(int));
	int			n = 0,
				distinct = 0;

	for (int i = 0; i < locks->nelements; i++)
		if (lock_fits(&locks->locks[i], blockers))
			found[n++] = locks->locks[i].pid;
	qsort(found, (size_t) n, sizeof(int), compare_pids);
	for (int i = 0; i < n; i++)
		if (distinct == 0 || found[distinct - 1] != found[i])
			found[distinct++] = found[i];
	*count = distinct;
	return found;
}

int
TideBlockersSuspects(pid_t *pids, int max)
{
	MemoryContext mine = AllocSetContextCreate(CurrentMemoryContext, "tidepool blockers",
											   ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(mine);
	HTAB	   *blockers = find_blockers();
	int			n = 0;

	/* reading the lock table stops those who lock for a moment: not for nothing */
	if (hash_get_num_entries(blockers) > 0)
	{
		int		   *found = find_suspects(blockers, &n);

		for (int i = 0; i < Min(n, max); i++)
			pids[i] = found[i];
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(mine);
	return n;
}

char *
TideBlockersSummary(void)
{
	pid_t		pids[SUMMARY_PIDS];
	int			n = TideBlockersSuspects(pids, SUMMARY_PIDS);
	StringInfoData text;

	if (n == 0)
		return NULL;
	initStringInfo(&text);
	appendStringInfoString(&text, n == 1 ? "suspected process: " : "suspected processes: ");
	for (int i = 0; i < Min(n, SUMMARY_PIDS); i++)
		appendStringInfo(&text, "%s%d", i == 0 ? "" : ", ", (int) pids[i]);
	if (n > SUMMARY_PIDS)
		appendStringInfo(&text, " and %d more", n - SUMMARY_PIDS);
	return text.data;
}
