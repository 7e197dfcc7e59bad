/*-------------------------------------------------------------------------
 *
 * guard.c
 *	  What happens when somebody reads memory that has been given back.
 *
 * The server itself never does.  A tool may: pg_buffercache_numa reads one
 * byte of every buffer.  When the kernel has a page, such a read allocates it
 * again, and the worker finds and releases it (host.c).  When it has none the
 * reader gets SIGBUS, which would end in a crash restart; for a retired chunk
 * it becomes an error of the query instead, as the server does it for SIGFPE.
 * Every other SIGBUS keeps its meaning.
 *
 *-------------------------------------------------------------------------
 */
#include "compat.h"

#include "guard.h"

#include <signal.h>

#include "shared.h"

/* The retired chunk that an address lies in, or -1. */
static int64
retired_chunk_at(const void *address)
{
	const TideLayout *layout = &tide_shared->layout;
	uintptr_t	offset = (uintptr_t) address - (uintptr_t) layout->region.base;
	uint32		chunk;

	if (offset >= layout->max_bytes)
		return -1;
	chunk = (uint32) (offset / layout->chunk_bytes);
	if (atomic_load_explicit(&tide_chunks->chunk[chunk].state,
							 memory_order_relaxed) != TIDE_CHUNK_RETIRED)
		return -1;
	return chunk;
}

static void
handle_sigbus(int signo, siginfo_t *info, void *context)
{
	int64		chunk = info->si_code == BUS_ADRERR ? retired_chunk_at(info->si_addr) : -1;

	if (chunk < 0)
	{
		/* not ours: the access is repeated and meets the default action */
		signal(SIGBUS, SIG_DFL);
		return;
	}
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot read a buffer whose memory has been given back"),
			 errdetail("It belongs to chunk %d, which tidepool has retired.", (int) chunk),
			 errhint("Functions that read every buffer need the pool at its ceiling, or huge pages to spare.")));
}

void
TideGuardInstall(void)
{
	struct sigaction action;

	memset(&action, 0, sizeof(action));
	action.sa_sigaction = handle_sigbus;
	/* left by a jump, the handler must not leave the signal blocked */
	action.sa_flags = SA_SIGINFO | SA_NODEFER;
	sigemptyset(&action.sa_mask);
	if (sigaction(SIGBUS, &action, NULL) != 0)
		elog(LOG, "could not install the SIGBUS handler: %m");
}
