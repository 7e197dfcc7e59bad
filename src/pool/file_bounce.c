/* SPDX-License-Identifier: PostgreSQL */
/* pool/file_bounce.c - buffers that pages are written from. */
#include "pool/file_bounce.h"

#include <stdlib.h>

#include "pool/file_prim.h"

_Static_assert(BOUNCE_BUFFERS == 64, "one bit of a word for each");

void bounce_reset(struct file_bounce *bounce)
{
	pthread_mutex_init(&bounce->lock, NULL);
	pthread_cond_init(&bounce->freed, NULL);
	bounce->free = UINT64_MAX;
}

int bounce_open(struct file_bounce *bounce, uint32_t page_bytes)
{
	void *memory;
	int rc = tide_prim_allocate(page_bytes, (size_t)BOUNCE_BUFFERS * page_bytes, &memory);

	if (rc != 0)
		return rc;
	bounce->memory = memory;
	bounce->page_bytes = page_bytes;
	bounce_reset(bounce);
	return 0;
}

void bounce_close(struct file_bounce *bounce)
{
	free(bounce->memory);
}

void *bounce_take(struct file_bounce *bounce, int wait)
{
	void *buffer = NULL;

	pthread_mutex_lock(&bounce->lock);
	while (wait && bounce->free == 0)
		pthread_cond_wait(&bounce->freed, &bounce->lock);
	if (bounce->free != 0) {
		unsigned i = (unsigned)__builtin_ctzll(bounce->free);

		bounce->free &= ~(UINT64_C(1) << i);
		buffer = bounce->memory + (size_t)i * bounce->page_bytes;
	}
	pthread_mutex_unlock(&bounce->lock);
	return buffer;
}

void bounce_give(struct file_bounce *bounce, const void *buffer)
{
	size_t i = (size_t)((const unsigned char *)buffer - bounce->memory) / bounce->page_bytes;

	pthread_mutex_lock(&bounce->lock);
	bounce->free |= UINT64_C(1) << i;
	pthread_cond_signal(&bounce->freed);
	pthread_mutex_unlock(&bounce->lock);
}
