/*-------------------------------------------------------------------------
 *
 * segment.h
 *	  The server's own shared memory segment, as far as arrays leave it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TIDEPOOL_SEGMENT_H
#define TIDEPOOL_SEGMENT_H

#include "postgres.h"

#include "storage/pg_shmem.h"

typedef struct TideSegment
{
	PGShmemHeader *header;		/* its first bytes; NULL when it was not recognised */
	bool		huge;			/* lies in explicit huge pages */
} TideSegment;

/* The segment that this address lies in. */
extern TideSegment TideSegmentFind(const void *address);

/*
 * The structure of this name has moved elsewhere: give its memory back and
 * let nobody allocate it again.  In the postmaster, before any child exists.
 */
extern void TideSegmentAbandon(const TideSegment *segment, const char *name,
							   void *start, Size bytes);

#endif							/* TIDEPOOL_SEGMENT_H */
