/*-------------------------------------------------------------------------
 *
 * report.c
 *	  Reasons of the library as errors of the server.
 *
 *-------------------------------------------------------------------------
 */
#include "report.h"

int
TideReasonSqlstate(int code)
{
	switch ((enum tide_code) code)
	{
		case TIDE_OK:
			return ERRCODE_SUCCESSFUL_COMPLETION;
		case TIDE_BAD_REQUEST:
		case TIDE_BELOW_MIN:
		case TIDE_ABOVE_MAX:
			return ERRCODE_INVALID_PARAMETER_VALUE;
		case TIDE_NOT_ENOUGH_MEMORY:
		case TIDE_HUGEPAGES_SHORT:
		case TIDE_HUGEPAGE_CGROUP_LIMIT:
		case TIDE_HUGEPAGES_UNAVAILABLE:
			return ERRCODE_OUT_OF_MEMORY;
		case TIDE_PINNED_BUFFERS:
		case TIDE_DIRTY_BACKLOG:
		case TIDE_OP_IN_PROGRESS:
		case TIDE_POOL_EXHAUSTED:
			return ERRCODE_OBJECT_IN_USE;
		case TIDE_CANCELLED:
		case TIDE_SUPERSEDED:
			return ERRCODE_QUERY_CANCELED;
		case TIDE_VERIFY_MISMATCH:
		case TIDE_HOST_ERROR:
			return ERRCODE_INTERNAL_ERROR;
		case TIDE_SYSTEM_ERROR:
			return ERRCODE_SYSTEM_ERROR;
		case TIDE_IO_ERROR:
			return ERRCODE_IO_ERROR;
		case TIDE_PAGE_CORRUPT:
			return ERRCODE_DATA_CORRUPTED;
		case TIDE_LIMIT_REACHED:
			return ERRCODE_PROGRAM_LIMIT_EXCEEDED;
	}
	return ERRCODE_INTERNAL_ERROR;
}

void
TideReportReason(int elevel, const char *what, const struct tide_reason *why)
{
	ereport(elevel,
			(errcode(TideReasonSqlstate(why->code)),
			 errmsg("%s", what),
			 errdetail("%s: %s", tide_code_name(why->code), why->message),
			 why->hint[0] != '\0' ? errhint("%s", why->hint) : 0));
}
