/*-------------------------------------------------------------------------
 *
 * tidepool.c
 *	  Entry point of the extension: settings, shared memory, worker.
 *
 *-------------------------------------------------------------------------
 */
#include "compat.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#include "arrays.h"
#include "pause.h"
#include "settings.h"
#include "shared.h"
#include "worker.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

static shmem_request_hook_type previous_request_hook;
static shmem_startup_hook_type previous_startup_hook;

/*
 * Does this server's pool belong to us?  Not in single-user mode and not
 * during an upgrade: those must start whatever the machine has, and nobody
 * resizes them.
 */
static bool
manages_pool(void)
{
	return IsPostmasterEnvironment && !IsBinaryUpgrade;
}

static void
request_shared_memory(void)
{
	if (previous_request_hook)
		previous_request_hook();
	if (!manages_pool())
		return;
	RequestAddinShmemSpace(TideSharedSize(TideChunkCount()) + TidePauseSize());
	RequestNamedLWLockTranche("tidepool", 1);
}

static void
start_shared_memory(void)
{
	if (previous_startup_hook)
		previous_startup_hook();
	if (!manages_pool())
		return;
	TideSharedInit(TideChunkCount(), TideChunkBytes());
	TidePauseInit();
	TidePlaceArrays();
}

void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;

	TideDefineSettings();
	previous_request_hook = shmem_request_hook;
	shmem_request_hook = request_shared_memory;
	previous_startup_hook = shmem_startup_hook;
	shmem_startup_hook = start_shared_memory;
	if (manages_pool())
		TideRegisterWorker();
}
