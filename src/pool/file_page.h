/* SPDX-License-Identifier: PostgreSQL */
/* pool/file_page.h - one page on its way to or from a file. */
#ifndef POOL_FILE_PAGE_H
#define POOL_FILE_PAGE_H

#include <stdint.h>

#include "pool/file.h"

/* A transfer that has begun: it holds a slot, and a buffer if @memory is not the page. */
struct file_page {
	struct tide_io *io;
	struct file_slot *slot;
	void *memory;
	uint64_t offset; /* in the file */
	uint32_t done;	 /* bytes transferred so far */
};

/**
 * page_begin() - open the file and prepare what is to be written
 *
 * Return: 1 and *page; 0: there is nothing to transfer, the page in memory is zeros; -EAGAIN: no
 * slot or buffer is free, @wait 0; -errno.
 */
int page_begin(struct file_storage *file, struct tide_io *io, int wait, struct file_page *page);

/** page_move() - transfer @bytes, less what is done, or up to the end of the file; 0 or -errno */
int page_move(const struct file_storage *file, struct file_page *page, uint32_t bytes);

/** page_end() - give back what page_begin() took */
void page_end(struct file_storage *file, const struct file_page *page);

/** page_check() - is what was read a page? What lay beyond the end is filled up with zeros. */
int page_check(const struct file_storage *file, const struct file_page *page,
	       struct tide_reason *why);

/** page_failed() - TIDE_IO_ERROR with the reason */
int page_failed(const struct file_storage *file, const struct tide_io *io, int error,
		struct tide_reason *why);

/** page_hint() - add what can be done about @error */
void page_hint(const struct file_storage *file, int error, struct tide_reason *why);

#endif /* POOL_FILE_PAGE_H */
