/* SPDX-License-Identifier: PostgreSQL */
/* pool/file.h - storage in files: the handle, and what the fault storage needs of it. */
#ifndef POOL_FILE_H
#define POOL_FILE_H

#include <stdatomic.h>
#include <stdint.h>

#include <tidepool/pool.h>

#include "pool/file_bounce.h"
#include "pool/file_table.h"
#include "pool/uring.h"

struct file_storage {
	uint32_t page_bytes;
	uint32_t checksum_offset; /* CHECKSUM_NONE = pages carry none */
	int use_uring;
	int direct;

	/*
	 * The process that locks, descriptors, buffers and rings are in order for; negative while
	 * that process puts them in order after a fork.
	 */
	atomic_int owner;

	struct file_table table;
	struct file_bounce bounce; /* open when pages carry checksums */
	struct uring uring;	   /* open when use_uring */
};

/** file_is() - is it a storage in files? */
int file_is(const struct tide_storage *storage);

/**
 * file_tear() - write the first half of the page as it would lie in the file, and leave the rest
 *
 * What a crash in the middle of a write does. @storage is one in files. 0 or TIDE_IO_ERROR.
 */
int file_tear(const struct tide_storage *storage, const struct tide_io *io,
	      struct tide_reason *why);

#endif /* POOL_FILE_H */
