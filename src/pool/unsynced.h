/* SPDX-License-Identifier: PostgreSQL */
/*
 * pool/unsynced.h - which files have been written to since they were synced.
 *
 * A page is counted here after it has been written and before it stops being dirty. So whoever finds
 * it clean finds its file here, and a sync that begins then covers it. Two that flush at the same time
 * both sync: neither relies on the other.
 */
#ifndef POOL_UNSYNCED_H
#define POOL_UNSYNCED_H

#include <pthread.h>
#include <stdint.h>

#define UNSYNCED_FILES 1024u

/* In shared memory, guarded by @lock; zeroed memory with an initialised lock is a valid start. */
struct unsynced {
	pthread_mutex_t lock;
	uint64_t clock; /* writes, of all files: no file ever sees a number twice */
	struct unsynced_file {
		uint64_t file;
		uint64_t writes; /* number of the last one; 0 = the place is empty */
		uint64_t synced; /* number of the last one that a sync covered */
	} files[UNSYNCED_FILES];
};

/** unsynced_note() - a page of @file has been written; 1, or 0 when there is no place: sync it now */
int unsynced_note(struct unsynced *unsynced, uint64_t file);

/** unsynced_next() - the next file from place *at on that needs a sync, and its last write; 0 = none */
int unsynced_next(struct unsynced *unsynced, uint32_t *at, uint64_t *file, uint64_t *writes);

/** unsynced_writes() - number of the last write to @file; 0 = none is known */
uint64_t unsynced_writes(struct unsynced *unsynced, uint64_t file);

/** unsynced_done() - @file was synced after its write of this number */
void unsynced_done(struct unsynced *unsynced, uint64_t file, uint64_t writes);

#endif /* POOL_UNSYNCED_H */
