/*-------------------------------------------------------------------------
 *
 * flush.h
 *	  The dirty pages found by a pass over chunks, written in block order.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TIDEPOOL_FLUSH_H
#define TIDEPOOL_FLUSH_H

#include "compat.h"

/* Pages to write; a fixed number of places, allocated once. */
typedef struct TideFlushList
{
	struct TideFlushItem *items;
	int			capacity;
	int			count;
	int			next;			/* items before it have been dealt with */
} TideFlushList;

typedef enum TideFlushResult
{
	TIDE_FLUSH_WRITTEN,			/* written; the buffer is no longer pinned by us */
	TIDE_FLUSH_GONE,			/* the buffer holds another page by now, or none */
	TIDE_FLUSH_LOCKED,			/* somebody holds its content lock */
} TideFlushResult;

extern void TideFlushListInit(TideFlushList *list, int capacity);
extern void TideFlushListClear(TideFlushList *list);

/* Note a dirty buffer; false when the list is full. */
extern bool TideFlushListAdd(TideFlushList *list, int buf_id);

/* Sort what was noted by file and block. */
extern void TideFlushListSort(TideFlushList *list);

/* Write the next page of the list.  Errors of the storage are raised. */
extern TideFlushResult TideFlushListWriteNext(TideFlushList *list, int *buf_id);

static inline bool
TideFlushListEmpty(const TideFlushList *list)
{
	return list->next >= list->count;
}

#endif							/* TIDEPOOL_FLUSH_H */
