/*-------------------------------------------------------------------------
 *
 * flush.c
 *	  The dirty pages found by a pass over chunks, written in block order.
 *
 * An entry is a hint: tag and buffer are checked again under a pin before the
 * page is written, because everything may have changed since it was noted.
 *
 *-------------------------------------------------------------------------
 */
#include "flush.h"

#include "storage/lwlock.h"

#include "pause.h"

typedef struct TideFlushItem
{
	BufferTag	tag;
	int			buf_id;
} TideFlushItem;

void
TideFlushListInit(TideFlushList *list, int capacity)
{
	list->items = palloc(capacity * sizeof(TideFlushItem));
	list->capacity = capacity;
	TideFlushListClear(list);
}

void
TideFlushListClear(TideFlushList *list)
{
	list->count = 0;
	list->next = 0;
}

bool
TideFlushListAdd(TideFlushList *list, int buf_id)
{
	BufferDesc *buf = GetBufferDescriptor(buf_id);
	TideFlushItem *item;
	uint32		state;

	if (list->count == list->capacity)
		return false;
	item = &list->items[list->count++];
	state = LockBufHdr(buf);
	item->tag = buf->tag;
	UnlockBufHdr(buf, state);
	item->buf_id = buf_id;
	return true;
}

static inline int
compare_uint32(uint32 a, uint32 b)
{
	return (a > b) - (a < b);
}

/* The order in which a checkpoint writes. */
static int
compare_items(const void *left, const void *right)
{
	const BufferTag *a = &((const TideFlushItem *) left)->tag;
	const BufferTag *b = &((const TideFlushItem *) right)->tag;
	int			order = compare_uint32(BufTagGetSpcOid(a), BufTagGetSpcOid(b));

	if (order == 0)
		order = compare_uint32(BufTagGetDbOid(a), BufTagGetDbOid(b));
	if (order == 0)
		order = compare_uint32(BufTagGetRelNumber(a), BufTagGetRelNumber(b));
	if (order == 0)
		order = compare_uint32((uint32) BufTagGetForkNum(a), (uint32) BufTagGetForkNum(b));
	if (order == 0)
		order = compare_uint32(a->blockNum, b->blockNum);
	return order;
}

void
TideFlushListSort(TideFlushList *list)
{
	Assert(list->next == 0);
	qsort(list->items, list->count, sizeof(TideFlushItem), compare_items);
}

TideFlushResult
TideFlushListWriteNext(TideFlushList *list, int *buf_id)
{
	TideFlushItem *item = &list->items[list->next++];
	Buffer		buffer = item->buf_id + 1;
	LWLock	   *content = BufferDescriptorGetContentLock(GetBufferDescriptor(item->buf_id));

	*buf_id = item->buf_id;
	if (!ReadRecentBuffer(BufTagGetRelFileLocator(&item->tag), BufTagGetForkNum(&item->tag),
						  item->tag.blockNum, buffer))
		return TIDE_FLUSH_GONE;
	TIDE_PAUSE("flush");
	if (!LWLockConditionalAcquire(content, LW_SHARED))
	{
		ReleaseBuffer(buffer);
		return TIDE_FLUSH_LOCKED;
	}
	FlushOneBuffer(buffer);
	LWLockRelease(content);
	ReleaseBuffer(buffer);
	return TIDE_FLUSH_WRITTEN;
}
