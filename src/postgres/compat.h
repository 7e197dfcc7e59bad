/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  Everything in which the supported server versions differ, in one place.
 *
 * The extension is written against the names of the newest server; older
 * servers get those names here.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TIDEPOOL_COMPAT_H
#define TIDEPOOL_COMPAT_H

#include "postgres.h"

#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "utils/wait_event.h"

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 190000
#error "tidepool supports PostgreSQL 15 to 18"
#endif

#if PG_VERSION_NUM < 160000

typedef RelFileNode RelFileLocator;
#define BufTagGetRelFileLocator(tag) ((tag)->rnode)
#define BufTagGetForkNum(tag) ((tag)->forkNum)
#define BufTagGetRelNumber(tag) ((tag)->rnode.relNode)
#define BufTagGetSpcOid(tag) ((tag)->rnode.spcNode)
#define BufTagGetDbOid(tag) ((tag)->rnode.dbNode)
#define ClearBufferTag(tag) CLEAR_BUFFERTAG(*(tag))
#define BufferTagsEqual(a, b) BUFFERTAGS_EQUAL(*(a), *(b))

#else

#define BufTagGetSpcOid(tag) ((tag)->spcOid)
#define BufTagGetDbOid(tag) ((tag)->dbOid)

#endif

/*
 * Give up what a failed write of a buffer left behind.  From 16 on the
 * resource owner knows of the I/O, before that the buffer manager has to be
 * told.
 */
static inline void
TideAbortBufferIO(void)
{
#if PG_VERSION_NUM < 160000
	AbortBufferIO();
#endif
}

/*
 * Declared in libpq/libpq.h, which cannot be included without the headers of
 * the Kerberos library that the server was built with.
 */
extern bool pq_check_connection(void);

/* Wait events have names of their own from 17 on. */
#if PG_VERSION_NUM >= 170000
#define TIDE_WAIT_EVENT(cache, name) \
	((cache) != 0 ? (cache) : ((cache) = WaitEventExtensionNew(name)))
#else
#define TIDE_WAIT_EVENT(cache, name) ((void) (cache), PG_WAIT_EXTENSION)
#endif

/*
 * Buffers that one backend may hold pinned at the same time.  Before read
 * streams a scan held a handful; a stream looks ahead as far as the I/O
 * concurrency allows, one combined read at a time.
 */
#define TIDE_PINS_PER_BACKEND 16

#if PG_VERSION_NUM >= 180000
#define TIDE_PINS_PER_STREAM \
	((Max(effective_io_concurrency, maintenance_io_concurrency) + 1) * io_combine_limit)
#elif PG_VERSION_NUM >= 170000
#define TIDE_PINS_PER_STREAM \
	((Max(effective_io_concurrency, maintenance_io_concurrency) + 1) * io_combine_limit)
#else
#define TIDE_PINS_PER_STREAM 0
#endif

#endif							/* TIDEPOOL_COMPAT_H */
