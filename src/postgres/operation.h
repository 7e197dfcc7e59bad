/*-------------------------------------------------------------------------
 *
 * operation.h
 *	  Requests and outcomes, as they pass between backends and the worker.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TIDEPOOL_OPERATION_H
#define TIDEPOOL_OPERATION_H

#include "shared.h"

/* ---- backends ---- */

/*
 * Leave a request for the worker.  ERROR when one waits or runs, or when no
 * worker is there.  Returns the number of the request.
 */
extern uint64 TideOperationAsk(const struct tide_request *request);

/*
 * Wait until the request has ended and return its outcome.  False when it was
 * refused; then *why says so.  An error or the end of the session while
 * waiting cancels the operation.
 */
extern bool TideOperationAwait(uint64 seq, struct tide_progress *outcome,
							   struct tide_reason *why);

/* Cancel what runs or waits; false when nothing does. */
extern bool TideOperationCancel(void);

/* ---- worker ---- */

/* The worker begins to serve requests. */
extern void TideOperationAttach(void);

/* Give an operation that a former worker left running its one outcome. */
extern void TideOperationEndOrphan(uint32 repaired_chunks);

/* Take the waiting request, if there is one. */
extern bool TideOperationTake(TideAsk *ask);

/* Answer a request that was refused or has ended at once. */
extern void TideOperationAnswer(const TideAsk *ask, int code, const struct tide_reason *why,
								const struct tide_progress *progress);

/* A number for a request that does not come through the slot. */
extern uint64 TideOperationNumber(void);

/* The operation that begins next belongs to this request. */
extern void TideOperationBegins(uint64 seq, TideSource source);

/* Has somebody asked to cancel the request that runs? */
extern bool TideOperationCancelAsked(void);

/* Progress of the running operation, without waking anybody up. */
extern void TideOperationProgress(const struct tide_progress *progress);

/* The operation entered a phase or ended: tell everybody, write history and log. */
extern void TideOperationChanged(const struct tide_progress *progress);

#endif							/* TIDEPOOL_OPERATION_H */
