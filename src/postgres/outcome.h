/*-------------------------------------------------------------------------
 *
 * outcome.h
 *	  Progress and outcomes of operations as SQL values.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TIDEPOOL_OUTCOME_H
#define TIDEPOOL_OUTCOME_H

#include "compat.h"

#include "fmgr.h"

#include <tidepool/resize.h>

/* The row that tidepool.resize() returns. */
extern Datum TideOutcomeRow(FunctionCallInfo fcinfo, const struct tide_progress *outcome);

/* Times of the phases in milliseconds, as jsonb. */
extern Datum TidePhasesJsonb(const struct tide_progress *progress);

extern Datum TideNsInterval(uint64 ns);
extern const char *TideDirectionName(enum tide_direction direction);

#endif							/* TIDEPOOL_OUTCOME_H */
