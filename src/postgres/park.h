/*-------------------------------------------------------------------------
 *
 * park.h
 *	  Taking single buffers out of use, and putting them back.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TIDEPOOL_PARK_H
#define TIDEPOOL_PARK_H

#include "compat.h"

typedef enum TideParkResult
{
	TIDE_PARK_DONE,				/* parked now */
	TIDE_PARK_EVICTED,			/* parked now, and a page left the pool for it */
	TIDE_PARK_BUSY,				/* pinned, in I/O, or changed under us: try again */
	TIDE_PARK_DIRTY,			/* must be written first */
	TIDE_PARK_OCCUPIED,			/* holds a page (only from TideParkIfFree) */
} TideParkResult;

/* Park a buffer, dropping a clean page it holds.  Never waits for a lock. */
extern TideParkResult TideParkBuffer(int buf_id);

/* Park a buffer only if it holds no page. */
extern TideParkResult TideParkIfFree(int buf_id);

/* Give a parked buffer back to the server, on the free list; others are left alone. */
extern void TideUnparkBuffer(int buf_id);

/*
 * At start, in the postmaster, before any child exists: park all buffers of
 * the chunks that are not active and link the free list through the others.
 */
extern void TideParkAtStart(void);

#endif							/* TIDEPOOL_PARK_H */
