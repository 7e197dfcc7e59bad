/*-------------------------------------------------------------------------
 *
 * arrays.h
 *	  Where the server's buffer arrays lie: in a region of ours.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TIDEPOOL_ARRAYS_H
#define TIDEPOOL_ARRAYS_H

#include "compat.h"

#include <tidepool/region.h>

/* The region, inherited by every child; NULL where the pool is left alone. */
extern struct tide_region *tide_region;

/* Number of chunks and their size for this server's NBuffers and settings. */
extern uint64 TideChunkBytes(void);
extern uint32 TideChunkCount(void);

/*
 * Reserve (or, after a crash, reuse) the region, commit what the server
 * starts with, move the arrays there and give their old memory back.  In the
 * postmaster, before any child exists; FATAL when it cannot be done.
 */
extern void TidePlaceArrays(void);

#endif							/* TIDEPOOL_ARRAYS_H */
