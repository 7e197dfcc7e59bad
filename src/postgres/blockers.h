/*-------------------------------------------------------------------------
 *
 * blockers.h
 *	  What holds up the chunks that are being drained, and who may be behind it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TIDEPOOL_BLOCKERS_H
#define TIDEPOOL_BLOCKERS_H

#include "compat.h"

/*
 * Processes suspected of the pins in the chunks that are being drained at
 * this moment; needs no database.  Returns how many there are, of which at
 * most max are stored in pids, ascending.
 */
extern int	TideBlockersSuspects(pid_t *pids, int max);

/* The same as a part of a sentence, palloc'd; NULL when nobody is suspected. */
extern char *TideBlockersSummary(void);

#endif							/* TIDEPOOL_BLOCKERS_H */
