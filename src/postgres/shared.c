/*-------------------------------------------------------------------------
 *
 * shared.c
 *	  Allocation and initialisation of the shared state.
 *
 *-------------------------------------------------------------------------
 */
#include "shared.h"

#include "miscadmin.h"
#include "storage/shmem.h"

TideShared *tide_shared = NULL;
struct tide_chunk_table *tide_chunks = NULL;
uint64	   *tide_parked = NULL;

static Size
parked_map_size(void)
{
	return mul_size((Size) (NBuffers + 63) / 64, sizeof(uint64));
}

Size
TideSharedSize(uint32 n_chunks)
{
	Size		size = MAXALIGN(sizeof(TideShared));

	size = add_size(size, MAXALIGN(tide_chunk_table_bytes(n_chunks)));
	size = add_size(size, MAXALIGN(parked_map_size()));
	return add_size(size, 3 * PG_CACHE_LINE_SIZE);
}

/*
 * Called in the postmaster at start and after a crash, before any child
 * exists: everything starts from nothing, whatever was there before.
 */
void
TideSharedInit(uint32 n_chunks, uint64 chunk_bytes)
{
	bool		found;

	tide_shared = ShmemInitStruct("tidepool", sizeof(TideShared), &found);
	tide_chunks = ShmemInitStruct("tidepool chunks", tide_chunk_table_bytes(n_chunks), &found);
	tide_parked = ShmemInitStruct("tidepool parked buffers", parked_map_size(), &found);

	memset(tide_shared, 0, sizeof(TideShared));
	memset(tide_parked, 0, parked_map_size());
	tide_chunk_table_init(tide_chunks, n_chunks, chunk_bytes);
	tide_shared->lock = &(GetNamedLWLockTranche("tidepool"))->lock;
	tide_shared->progress.state = TIDE_OP_IDLE;
	ConditionVariableInit(&tide_shared->changed);
}

void
TideCheckActive(void)
{
	if (tide_shared == NULL && IsPostmasterEnvironment && !IsBinaryUpgrade)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("tidepool is not loaded in this server"),
				 errhint("Add tidepool to \"shared_preload_libraries\" and restart the server.")));
	if (tide_shared == NULL || !tide_shared->layout.active)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("tidepool does not manage the buffer pool of this server"),
				 errdetail("In single-user mode and during an upgrade the pool is left as the server made it.")));
}
