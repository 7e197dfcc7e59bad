/*-------------------------------------------------------------------------
 *
 * pause.c
 *	  Named points at which a test can hold the worker; test builds only.
 *
 * A point is armed by name.  The worker that comes by says that it reached it
 * and waits until the point is released, the server stops or the worker is
 * told to.  An armed point holds every visit until it is released.
 *
 *-------------------------------------------------------------------------
 */
#include "pause.h"

#ifdef TIDE_PAUSE_POINTS

#include "fmgr.h"
#include "miscadmin.h"
#include "postmaster/interrupt.h"
#include "storage/condition_variable.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/builtins.h"

#define POINT_NAME_SIZE 32

typedef struct PausePoint
{
	slock_t		mutex;
	char		armed[POINT_NAME_SIZE]; /* "" = none */
	bool		reached;		/* somebody waits at it */
	ConditionVariable changed;
} PausePoint;

static PausePoint *pause_point;

Size
TidePauseSize(void)
{
	return MAXALIGN(sizeof(PausePoint)) + PG_CACHE_LINE_SIZE;
}

void
TidePauseInit(void)
{
	bool		found;

	pause_point = ShmemInitStruct("tidepool pause point", sizeof(PausePoint), &found);
	memset(pause_point, 0, sizeof(PausePoint));
	SpinLockInit(&pause_point->mutex);
	ConditionVariableInit(&pause_point->changed);
}

/* Is this the armed point?  Notes whether somebody waits at it. */
static bool
visit(const char *point, bool waiting)
{
	bool		armed;

	SpinLockAcquire(&pause_point->mutex);
	armed = strcmp(pause_point->armed, point) == 0;
	if (armed)
		pause_point->reached = waiting;
	SpinLockRelease(&pause_point->mutex);
	return armed;
}

void
TidePause(const char *point)
{
	if (!visit(point, true))
		return;
	ConditionVariableBroadcast(&pause_point->changed);
	ConditionVariablePrepareToSleep(&pause_point->changed);
	while (!ShutdownRequestPending && visit(point, true))
		(void) ConditionVariableTimedSleep(&pause_point->changed, 20, PG_WAIT_EXTENSION);
	ConditionVariableCancelSleep();
	(void) visit(point, false);
}

static void
arm(const char *point)
{
	SpinLockAcquire(&pause_point->mutex);
	strlcpy(pause_point->armed, point, POINT_NAME_SIZE);
	pause_point->reached = false;
	SpinLockRelease(&pause_point->mutex);
	ConditionVariableBroadcast(&pause_point->changed);
}

/* tidepool_pause.arm(point): hold the worker at this point from now on */
PG_FUNCTION_INFO_V1(tidepool_pause_arm);
Datum
tidepool_pause_arm(PG_FUNCTION_ARGS)
{
	arm(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	PG_RETURN_VOID();
}

/* tidepool_pause.release(): let it go on */
PG_FUNCTION_INFO_V1(tidepool_pause_release);
Datum
tidepool_pause_release(PG_FUNCTION_ARGS)
{
	arm("");
	PG_RETURN_VOID();
}

/* tidepool_pause.reached(): does somebody wait at the armed point? */
PG_FUNCTION_INFO_V1(tidepool_pause_reached);
Datum
tidepool_pause_reached(PG_FUNCTION_ARGS)
{
	bool		reached;

	SpinLockAcquire(&pause_point->mutex);
	reached = pause_point->armed[0] != '\0' && pause_point->reached;
	SpinLockRelease(&pause_point->mutex);
	PG_RETURN_BOOL(reached);
}

#endif							/* TIDE_PAUSE_POINTS */
