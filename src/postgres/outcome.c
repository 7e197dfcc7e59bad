/*-------------------------------------------------------------------------
 *
 * outcome.c
 *	  Progress and outcomes of operations as SQL values.
 *
 *-------------------------------------------------------------------------
 */
#include "outcome.h"

#include "access/htup_details.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#define OUTCOME_COLUMNS 13

Datum
TideNsInterval(uint64 ns)
{
	Interval   *interval = palloc0(sizeof(Interval));

	interval->time = (TimeOffset) (ns / 1000);
	return IntervalPGetDatum(interval);
}

const char *
TideDirectionName(enum tide_direction direction)
{
	switch (direction)
	{
		case TIDE_DIRECTION_NONE:
			return "none";
		case TIDE_DIRECTION_GROW:
			return "grow";
		case TIDE_DIRECTION_SHRINK:
			return "shrink";
	}
	return "none";
}

Datum
TidePhasesJsonb(const struct tide_progress *progress)
{
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfo(&text, "{\"first_publish_ms\": %.3f", (double) progress->first_publish_ns / 1e6);
	for (int phase = 0; phase < TIDE_OP_PHASES; phase++)
		if (progress->phase_ns[phase] > 0)
			appendStringInfo(&text, ", \"%s_ms\": %.3f",
							 tide_op_state_name((enum tide_op_state) phase),
							 (double) progress->phase_ns[phase] / 1e6);
	appendStringInfoChar(&text, '}');
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(text.data));
}

Datum
TideOutcomeRow(FunctionCallInfo fcinfo, const struct tide_progress *outcome)
{
	TupleDesc	desc;
	Datum		values[OUTCOME_COLUMNS];
	bool		nulls[OUTCOME_COLUMNS] = {0};
	int			i = 0;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE ||
		desc->natts != OUTCOME_COLUMNS)
		elog(ERROR, "tidepool.resize() is declared with other columns than this library returns");

	values[i++] = CStringGetTextDatum(tide_op_state_name(outcome->state));
	values[i++] = CStringGetTextDatum(TideDirectionName(outcome->direction));
	values[i++] = Int64GetDatum((int64) outcome->requested_bytes);
	values[i++] = Int64GetDatum((int64) outcome->allocatable_bytes);
	values[i++] = Int64GetDatum((int64) outcome->committed_bytes);
	values[i++] = Int64GetDatum((int64) outcome->returned_bytes);
	values[i++] = Int64GetDatum((int64) outcome->evicted_pages);
	values[i++] = Int64GetDatum((int64) outcome->written_pages);
	values[i++] = Int64GetDatum((int64) outcome->blocked_chunks);
	values[i++] = CStringGetTextDatum(tide_code_name(outcome->reason.code));
	nulls[i] = outcome->reason.code == 0;
	values[i++] = CStringGetTextDatum(outcome->reason.message);
	values[i++] = TidePhasesJsonb(outcome);
	values[i++] = TideNsInterval(outcome->elapsed_ns);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}
