/* SPDX-License-Identifier: PostgreSQL */
/*
 * pool/file_table.h - the open descriptors of a file storage.
 *
 * At most TABLE_SLOTS files are open at a time. A slot in use is never closed; of the others the
 * one that was used longest ago is, when room is needed. The kernel tells of a failed write-back
 * through the descriptors that were open at that time, and perhaps through no other: so a file with
 * writes that were not synced is synced before its descriptor is closed, and when that fails it
 * stays open until table_sync() has told somebody.
 */
#ifndef POOL_FILE_TABLE_H
#define POOL_FILE_TABLE_H

#include <pthread.h>
#include <stdint.h>

#define TABLE_SLOTS 64u

struct file_slot {
	int fd; /* -1 = empty; constant while the slot is in use */

	/* The rest under the table's lock. */
	uint64_t file;
	uint64_t used_at; /* clock of the table when it was used last */
	uint32_t users;	  /* > 0 = in use */
	int is_unsynced;  /* written to since the last sync that succeeded */
	int is_named;	  /* the directory was synced since it was opened */
	int is_syncing;	  /* one sync at a time */
	int untold_error; /* of a sync before closing, not yet reported; 0 = none */
	int last_error;	  /* of the last sync that failed */
	uint32_t n_failed_syncs;
};

struct file_table {
	int directory; /* descriptor */
	int flags;     /* for open: 0 or O_DIRECT */
	pthread_mutex_t lock;
	pthread_cond_t changed; /* a slot is not in use any more, or a sync has ended */
	uint64_t clock;
	struct file_slot slots[TABLE_SLOTS];
};

/** table_open() - nothing is open yet; the table owns @directory from now on */
void table_open(struct file_table *table, int directory, int flags);

/** table_close() - close every descriptor; nobody uses them */
void table_close(struct file_table *table);

/**
 * table_reset() - in a child that was forked, where nobody else uses it
 *
 * Descriptors are closed, to be opened again on demand: one that is shared with the parent tells
 * only one of the two of a failed write-back.
 */
void table_reset(struct file_table *table);

enum table_use {
	TABLE_READ,
	TABLE_WRITE
};

/**
 * table_get() - an open descriptor of @file, in use until table_put() with the same @use
 *
 * TABLE_WRITE creates the file. With @wait 0 it does not wait for a slot; who has another slot or
 * a buffer in use must not wait.
 *
 * Return: 0; -ENOENT (TABLE_READ: no such file); -EAGAIN (no slot, @wait 0); -errno of open; -EIO:
 * every slot holds a file whose failed sync nobody has been told of.
 */
int table_get(struct file_table *table, uint64_t file, enum table_use use, int wait,
	      struct file_slot **out);
void table_put(struct file_table *table, struct file_slot *slot, enum table_use use);

/**
 * table_sync() - what was written to the file before is durable, and so is its name
 *
 * Fails also when another sync of the same file failed meanwhile: the kernel tells only one of
 * them. 0 or -errno; -ENOENT: there is no such file.
 */
int table_sync(struct file_table *table, uint64_t file);

#endif /* POOL_FILE_TABLE_H */
