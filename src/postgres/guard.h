/*-------------------------------------------------------------------------
 *
 * guard.h
 *	  What happens when somebody reads memory that has been given back.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TIDEPOOL_GUARD_H
#define TIDEPOOL_GUARD_H

/* In the postmaster, once the region is there; children inherit it. */
extern void TideGuardInstall(void);

#endif							/* TIDEPOOL_GUARD_H */
