/* SPDX-License-Identifier: PostgreSQL */
/*
 * stray.c - reads of retired buffers, as a tool that walks the pool would make them.
 */
#include "postgres.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fmgr.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"

PG_MODULE_MAGIC;

/* Read one byte of a buffer, whatever state it is in. */
PG_FUNCTION_INFO_V1(tide_test_touch);
Datum
tide_test_touch(PG_FUNCTION_ARGS)
{
	volatile char *block = (volatile char *) BufferGetBlock(PG_GETARG_INT32(0));

	PG_RETURN_INT32(*block);
}

/*
 * What the kernel sends when such a read finds no page.  A process may send itself the signal with
 * the kernel's own code, so that no other user of huge pages has to be starved for it.
 */
PG_FUNCTION_INFO_V1(tide_test_bus_error);
Datum
tide_test_bus_error(PG_FUNCTION_ARGS)
{
	siginfo_t info;

	memset(&info, 0, sizeof(info));
	info.si_signo = SIGBUS;
	info.si_code = BUS_ADRERR;
	info.si_addr = BufferGetBlock(PG_GETARG_INT32(0));
	if (syscall(SYS_rt_tgsigqueueinfo, MyProcPid, MyProcPid, SIGBUS, &info) != 0)
		elog(ERROR, "could not signal myself: %m");
	PG_RETURN_VOID();
}
