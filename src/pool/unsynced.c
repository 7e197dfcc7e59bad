/* SPDX-License-Identifier: PostgreSQL */
/* unsynced.c - which files have been written to since they were synced. */
#include "pool/unsynced.h"

#include <stddef.h>

#include "pool/lock.h"

static struct unsynced_file *find(struct unsynced *unsynced, uint64_t file)
{
	const uint32_t home = (uint32_t)(file * UINT64_C(0x9e3779b97f4a7c15) >> 32);

	for (uint32_t i = 0; i < UNSYNCED_FILES; i++) {
		struct unsynced_file *place = &unsynced->files[(home + i) % UNSYNCED_FILES];

		if (place->writes > 0 && place->file == file)
			return place;
	}
	return NULL;
}

/* A file that needs no sync any more gives its place to another one. */
static struct unsynced_file *find_room(struct unsynced *unsynced)
{
	for (uint32_t i = 0; i < UNSYNCED_FILES; i++)
		if (unsynced->files[i].writes == unsynced->files[i].synced)
			return &unsynced->files[i];
	return NULL;
}

int unsynced_note(struct unsynced *unsynced, uint64_t file)
{
	struct unsynced_file *place;

	lock_take(&unsynced->lock);
	place = find(unsynced, file);
	if (!place) {
		place = find_room(unsynced);
		if (place)
			*place = (struct unsynced_file){.file = file};
	}
	if (place)
		place->writes = ++unsynced->clock;
	lock_release(&unsynced->lock);
	return place != NULL;
}

int unsynced_next(struct unsynced *unsynced, uint32_t *at, uint64_t *file, uint64_t *writes)
{
	int found = 0;

	lock_take(&unsynced->lock);
	for (; !found && *at < UNSYNCED_FILES; ++*at) {
		const struct unsynced_file *place = &unsynced->files[*at];

		if (place->writes == place->synced)
			continue;
		*file = place->file;
		*writes = place->writes;
		found = 1;
	}
	lock_release(&unsynced->lock);
	return found;
}

uint64_t unsynced_writes(struct unsynced *unsynced, uint64_t file)
{
	const struct unsynced_file *place;
	uint64_t writes = 0;

	lock_take(&unsynced->lock);
	place = find(unsynced, file);
	if (place)
		writes = place->writes;
	lock_release(&unsynced->lock);
	return writes;
}

void unsynced_done(struct unsynced *unsynced, uint64_t file, uint64_t writes)
{
	struct unsynced_file *place;

	lock_take(&unsynced->lock);
	place = find(unsynced, file);
	if (place && place->synced < writes && writes <= place->writes)
		place->synced = writes;
	lock_release(&unsynced->lock);
}
