/*-------------------------------------------------------------------------
 *
 * pause.h
 *	  Named points at which a test can hold the worker.
 *
 * Exists only in builds with TIDE_PAUSE_POINTS; elsewhere TIDE_PAUSE() is
 * nothing.  Points carry the names of the phases ("commit", "publish",
 * "fence", "drain", "quiesce", "release", "verify", "undo") and "flush" (a
 * dirty page is pinned and about to be written).
 *
 *-------------------------------------------------------------------------
 */
#ifndef TIDEPOOL_PAUSE_H
#define TIDEPOOL_PAUSE_H

#include "compat.h"

#ifdef TIDE_PAUSE_POINTS

extern Size TidePauseSize(void);
extern void TidePauseInit(void);
extern void TidePause(const char *point);

#define TIDE_PAUSE(point) TidePause(point)

#else

#define TidePauseSize() ((Size) 0)
#define TidePauseInit() ((void) 0)
#define TIDE_PAUSE(point) ((void) 0)

#endif

#endif							/* TIDEPOOL_PAUSE_H */
