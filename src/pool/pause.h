/* SPDX-License-Identifier: PostgreSQL */
/*
 * pool/pause.h - named points at which a test holds or ends a process.
 *
 * The function is weak and empty; a test program defines its own. Points lie on paths that cost
 * microseconds, never on a hit.
 */
#ifndef POOL_PAUSE_H
#define POOL_PAUSE_H

enum pool_pause {
	POOL_PAUSE_LATCHED, /* owner for writing, readers not waited for yet */
	POOL_PAUSE_PASSED,  /* a writer looks for readers and has passed an entry */
	POOL_PAUSE_TAKEN,   /* a buffer is ours, its page not in the lookup table */
	POOL_PAUSE_ENTERED, /* in the lookup table, not read yet */
	POOL_PAUSE_LOADED,  /* read, not valid yet */
	POOL_PAUSE_CLAIMED, /* buffers are claimed, pins not looked for */
	POOL_PAUSE_REMOVED, /* out of the lookup table, not free yet */
	POOL_PAUSE_WRITTEN, /* on storage, still dirty */
	POOL_PAUSE_COPIED, /* moved page is complete in its new buffer, the table knows the old one */
	POOL_PAUSE_REPLACED, /* the table knows the new one */
	POOL_PAUSE_DRAINED,  /* a chunk is empty, its grace period not begun */
	POOL_PAUSE_ARRAYS,   /* arrays beside the pages are committed, pages are not */
	POOL_PAUSE_RELEASED, /* pages are given back, their descriptors are not */
	POOL_PAUSES
};

void pool_pause(enum pool_pause at);

#endif /* POOL_PAUSE_H */
