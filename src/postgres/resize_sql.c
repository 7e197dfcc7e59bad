/*-------------------------------------------------------------------------
 *
 * resize_sql.c
 *	  tidepool.resize() and tidepool.cancel().
 *
 *-------------------------------------------------------------------------
 */
#include "compat.h"

#include "fmgr.h"
#include "funcapi.h"
#include "nodes/parsenodes.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "operation.h"
#include "outcome.h"
#include "report.h"
#include "settings.h"

/* A size given to resize(), in bytes. */
static uint64
size_argument(const char *name, const char *text)
{
	uint64		bytes;
	bool		is_percentage;
	const char *why = NULL;

	if (!TideParseSize(text, &bytes, &is_percentage, &why))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for \"%s\": \"%s\"", name, text),
				 errdetail("%s", why)));
	if (is_percentage)
		bytes = Max(Min(bytes, tide_shared->layout.max_bytes), tide_shared->floor_bytes);

	/* the last chunk may be a part of one; the ceiling as the user knows it means all of it */
	if (bytes == (uint64) NBuffers * BLCKSZ)
		bytes = tide_shared->layout.max_bytes;
	return bytes;
}

static uint64
timeout_argument(Interval *timeout)
{
	double		seconds = (double) timeout->time / USECS_PER_SEC +
		timeout->day * (double) SECS_PER_DAY + timeout->month * 30.0 * SECS_PER_DAY;

	if (seconds <= 0 || seconds > 1e9)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"timeout\" must be longer than zero and shorter than thirty years")));
	return (uint64) (seconds * 1e9);
}

/* Write the size into postgresql.auto.conf, with the rights that ALTER SYSTEM asks for. */
static void
persist_size(const char *text)
{
	AlterSystemStmt *alter = makeNode(AlterSystemStmt);
	VariableSetStmt *set = makeNode(VariableSetStmt);
	A_Const    *value = makeNode(A_Const);

	value->val.sval.type = T_String;
	value->val.sval.sval = pstrdup(text);
	value->location = -1;
	set->kind = VAR_SET_VALUE;
	set->name = pstrdup("tidepool.size");
	set->args = list_make1(value);
	alter->setstmt = set;
	AlterSystemSetConfigFile(alter);
}

PG_FUNCTION_INFO_V1(tidepool_resize);
Datum
tidepool_resize(PG_FUNCTION_ARGS)
{
	struct tide_request request = {0};
	struct tide_progress outcome;
	struct tide_reason why;
	char	   *size;
	bool		persist = !PG_ARGISNULL(3) && PG_GETARG_BOOL(3);

	TideCheckActive();
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("the size must not be null")));
	size = text_to_cstring(PG_GETARG_TEXT_PP(0));

	request.target_bytes = size_argument("size", size);
	if (!PG_ARGISNULL(1))
		request.min_acceptable_bytes = size_argument("min_acceptable",
													 text_to_cstring(PG_GETARG_TEXT_PP(1)));
	request.deadline_ns = PG_ARGISNULL(2) ? (uint64) tide_drain_timeout_ms * 1000000 :
		timeout_argument(PG_GETARG_INTERVAL_P(2));
	request.flush_bytes_per_s = (uint64) tide_flush_rate_kb * 1024;
	request.linger_ns = (uint64) tide_linger_s * 1000000000;
	request.dry_run = !PG_ARGISNULL(4) && PG_GETARG_BOOL(4);

	if (!TideOperationAwait(TideOperationAsk(&request), &outcome, &why))
		TideReportReason(ERROR, "the resize was refused", &why);
	if (persist && outcome.state == TIDE_OP_DONE && !request.dry_run)
		persist_size(size);
	return TideOutcomeRow(fcinfo, &outcome);
}

PG_FUNCTION_INFO_V1(tidepool_cancel);
Datum
tidepool_cancel(PG_FUNCTION_ARGS)
{
	TideCheckActive();
	PG_RETURN_BOOL(TideOperationCancel());
}
