/* SPDX-License-Identifier: PostgreSQL */
/* pool/file_table.c - the open descriptors of a file storage. */
#include "pool/file_table.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "memory/prim.h"
#include "pool/file_prim.h"

static void clear_slots(struct file_table *table)
{
	memset(table->slots, 0, sizeof(table->slots));
	for (unsigned i = 0; i < TABLE_SLOTS; i++)
		table->slots[i].fd = -1;
	table->clock = 0;
	pthread_mutex_init(&table->lock, NULL);
	pthread_cond_init(&table->changed, NULL);
}

static void close_slots(struct file_table *table)
{
	for (unsigned i = 0; i < TABLE_SLOTS; i++)
		if (table->slots[i].fd >= 0)
			tide_prim_close(table->slots[i].fd);
}

void table_open(struct file_table *table, int directory, int flags)
{
	table->directory = directory;
	table->flags = flags;
	clear_slots(table);
}

void table_close(struct file_table *table)
{
	close_slots(table);
	tide_prim_close(table->directory);
}

void table_reset(struct file_table *table)
{
	close_slots(table);
	clear_slots(table);
}

/* Caller must hold the lock. */
static struct file_slot *find_locked(struct file_table *table, uint64_t file)
{
	for (unsigned i = 0; i < TABLE_SLOTS; i++)
		if (table->slots[i].fd >= 0 && table->slots[i].file == file)
			return &table->slots[i];
	return NULL;
}

/* Which slot is to be emptied first? An empty one, then one that needs no sync, then the older. */
static int is_better(const struct file_slot *a, const struct file_slot *b)
{
	if (!b || a->fd < 0)
		return 1;
	if (b->fd < 0)
		return 0;
	if (a->is_unsynced != b->is_unsynced)
		return !a->is_unsynced;
	return a->used_at < b->used_at;
}

/*
 * The slot to be emptied; NULL when there is none. *n_busy counts those that will be free later.
 * Caller must hold the lock.
 */
static struct file_slot *find_victim_locked(struct file_table *table, unsigned *n_busy)
{
	struct file_slot *victim = NULL;

	*n_busy = 0;
	for (unsigned i = 0; i < TABLE_SLOTS; i++) {
		struct file_slot *slot = &table->slots[i];

		if (slot->users > 0)
			++*n_busy;
		else if (slot->untold_error == 0 && is_better(slot, victim))
			victim = slot;
	}
	return victim;
}

/* Caller must hold the lock. */
static void put_locked(struct file_table *table, struct file_slot *slot, enum table_use use)
{
	/* Here and not in get: a sync that ran between the two did not see the write. */
	if (use == TABLE_WRITE)
		slot->is_unsynced = 1;
	slot->users--;
	pthread_cond_broadcast(&table->changed);
}

static int fdatasync_whole(int fd)
{
	int rc;

	do
		rc = tide_prim_fdatasync(fd);
	while (rc == -EINTR);
	return rc;
}

/* Caller must hold the lock, which is let go of meanwhile. */
static void sync_victim_locked(struct file_table *table, struct file_slot *victim)
{
	int rc;

	victim->users++;
	victim->is_syncing = 1;
	victim->is_unsynced = 0;
	pthread_mutex_unlock(&table->lock);
	rc = fdatasync_whole(victim->fd);
	pthread_mutex_lock(&table->lock);
	if (rc != 0) {
		victim->is_unsynced = 1;
		victim->untold_error = -rc;
	}
	victim->is_syncing = 0;
	put_locked(table, victim, TABLE_READ);
}

/*
 * An empty slot. Returns 0 with *out, -EAGAIN with @wait 0, or -EIO when waiting would have no end.
 * Caller must hold the lock; 1 = it was let go of, so look again whether the file is open by now.
 */
static int make_room_locked(struct file_table *table, int wait, struct file_slot **out)
{
	unsigned n_busy;
	struct file_slot *victim = find_victim_locked(table, &n_busy);

	if (!victim) {
		if (!wait)
			return -EAGAIN;
		if (n_busy == 0)
			return -EIO;
		pthread_cond_wait(&table->changed, &table->lock);
		return 1;
	}
	if (victim->fd >= 0 && victim->is_unsynced) {
		sync_victim_locked(table, victim);
		return 1;
	}
	if (victim->fd >= 0)
		tide_prim_close(victim->fd);
	memset(victim, 0, sizeof(*victim));
	victim->fd = -1;
	*out = victim;
	return 0;
}

/* Into an empty slot. Caller must hold the lock. */
static int open_locked(const struct file_table *table, uint64_t file, enum table_use use,
		       struct file_slot *slot)
{
	const int create = use == TABLE_WRITE ? O_CREAT : 0;
	char name[24];
	int fd, rc;

	(void)snprintf(name, sizeof(name), "%" PRIu64, file);
	do
		rc = tide_prim_open_at(table->directory, name, O_RDWR | create | table->flags, &fd);
	while (rc == -EINTR);
	if (rc != 0)
		return rc;
	slot->fd = fd;
	slot->file = file;
	return 0;
}

/* Caller must hold the lock. */
static int get_locked(struct file_table *table, uint64_t file, enum table_use use, int wait,
		      struct file_slot **out)
{
	struct file_slot *slot = find_locked(table, file);
	int rc = 1;

	while (!slot && rc == 1) {
		rc = make_room_locked(table, wait, &slot);
		if (rc == 0)
			rc = open_locked(table, file, use, slot);
		else if (rc == 1)
			slot = find_locked(table, file);
		if (rc < 0)
			return rc;
	}
	slot->users++;
	slot->used_at = ++table->clock;
	*out = slot;
	return 0;
}

int table_get(struct file_table *table, uint64_t file, enum table_use use, int wait,
	      struct file_slot **out)
{
	int rc;

	pthread_mutex_lock(&table->lock);
	rc = get_locked(table, file, use, wait, out);
	pthread_mutex_unlock(&table->lock);
	return rc;
}

void table_put(struct file_table *table, struct file_slot *slot, enum table_use use)
{
	pthread_mutex_lock(&table->lock);
	put_locked(table, slot, use);
	pthread_mutex_unlock(&table->lock);
}

/* The file's bytes, and its name if nobody has made that durable yet. */
static int sync_slot(const struct file_table *table, const struct file_slot *slot, int is_named)
{
	int rc = fdatasync_whole(slot->fd);

	while (rc == 0 && !is_named) {
		rc = tide_prim_fsync(table->directory);
		if (rc != -EINTR)
			break;
		rc = 0;
	}
	return rc;
}

/*
 * @rc is how a sync ended that began when @n_failed of this file had failed. Caller must hold the
 * lock.
 */
static int settle_locked(struct file_table *table, struct file_slot *slot, int rc,
			 uint32_t n_failed)
{
	const int error = rc != 0 ? -rc : slot->untold_error;

	if (rc == 0)
		slot->is_named = 1;
	else
		slot->is_unsynced = 1;
	if (error != 0) {
		slot->last_error = error;
		slot->n_failed_syncs++;
		rc = -error;
	} else if (slot->n_failed_syncs != n_failed) {
		rc = -slot->last_error;
	}
	slot->untold_error = 0;
	slot->is_syncing = 0;
	put_locked(table, slot, TABLE_READ);
	return rc;
}

int table_sync(struct file_table *table, uint64_t file)
{
	struct file_slot *slot;
	uint32_t n_failed;
	int is_named;
	int rc;

	pthread_mutex_lock(&table->lock);
	rc = get_locked(table, file, TABLE_READ, 1, &slot);
	if (rc == 0) {
		n_failed = slot->n_failed_syncs;
		while (slot->is_syncing)
			pthread_cond_wait(&table->changed, &table->lock);
		slot->is_syncing = 1;
		slot->is_unsynced = 0;
		is_named = slot->is_named;
		pthread_mutex_unlock(&table->lock);
		rc = sync_slot(table, slot, is_named);
		pthread_mutex_lock(&table->lock);
		rc = settle_locked(table, slot, rc, n_failed);
	}
	pthread_mutex_unlock(&table->lock);
	return rc;
}
