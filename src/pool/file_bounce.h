/* SPDX-License-Identifier: PostgreSQL */
/*
 * pool/file_bounce.h - buffers that pages are written from.
 *
 * A page is looked at by readers while it is written, so its checksum is put into a copy. The
 * copies lie in buffers that are there from the beginning, so that dirty pages can be written, and
 * memory be given back, when no memory is to be had.
 */
#ifndef POOL_FILE_BOUNCE_H
#define POOL_FILE_BOUNCE_H

#include <pthread.h>
#include <stdint.h>

#define BOUNCE_BUFFERS 64u

struct file_bounce {
	pthread_mutex_t lock;
	pthread_cond_t freed;
	uint64_t free; /* under lock: bit i = buffer i is free */
	unsigned char *memory;
	uint32_t page_bytes;
};

/** bounce_open() - 0 or -ENOMEM; buffers are aligned to @page_bytes */
int bounce_open(struct file_bounce *bounce, uint32_t page_bytes);
void bounce_close(struct file_bounce *bounce);

/** bounce_reset() - in a child that was forked, where nobody else uses them: all are free */
void bounce_reset(struct file_bounce *bounce);

/**
 * bounce_take() - a buffer; with none free NULL, or with @wait the next one
 *
 * Whoever has a buffer gives it back without waiting for anything but the kernel, so waiting ends;
 * for that, only who has none may wait.
 */
void *bounce_take(struct file_bounce *bounce, int wait);
void bounce_give(struct file_bounce *bounce, const void *buffer);

#endif /* POOL_FILE_BOUNCE_H */
