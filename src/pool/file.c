/* SPDX-License-Identifier: PostgreSQL */
/*
 * pool/file.c - storage in ordinary files.
 *
 * Several pages at once go through io_uring (pool/uring.h), as far as it will; whatever it leaves,
 * and single pages, go through pread and pwrite. What a transfer needs are a slot of the table of
 * descriptors and, to write a checksum, a buffer. A batch waits for these only while it has none,
 * and otherwise carries out what it has got so far: so nobody waits for somebody who waits.
 */
#include "pool/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "memory/prim.h"
#include "pool/checksum.h"
#include "pool/file_page.h"
#include "pool/file_prim.h"
#include "pool/storage.h"

_Static_assert(TIDE_IO_BATCH <= URING_BATCH, "a batch goes into a ring");

/* --- after fork ------------------------------------------------------------------------------- */

/*
 * A child that was forked inherits locks and buffers that threads of its parent held, which do not
 * exist in the child, and rings that are not its own. The first of its threads to come here makes
 * all of it anew, before anything is taken.
 */
static void put_in_order(struct file_storage *file)
{
	table_reset(&file->table);
	if (file->checksum_offset != CHECKSUM_NONE)
		bounce_reset(&file->bounce);
	if (file->use_uring) {
		uring_close(&file->uring);
		uring_open(&file->uring);
	}
}

static void own(struct file_storage *file)
{
	const int self = (int)getpid();
	/* (A) pairs with (B): who sees the owner sees what it put in order. */
	int owner = atomic_load_explicit(&file->owner, memory_order_acquire);

	while (owner != self) {
		if (owner == -self) {
			/* Another thread of this process is at it. */
			sched_yield();
			owner = atomic_load_explicit(&file->owner, memory_order_acquire); /* (A) */
		} else if (atomic_compare_exchange_strong_explicit(&file->owner, &owner, -self,
								   memory_order_acquire,
								   memory_order_acquire)) {
			put_in_order(file);
			atomic_store_explicit(&file->owner, self, memory_order_release); /* (B) */
			return;
		}
	}
}

/* --- transfers -------------------------------------------------------------------------------- */

/* Codes and the first reason of a call. */
struct outcome {
	int code;
	struct tide_reason *why;
};

/* Where the next failure writes its reason: only the first is told. */
static struct tide_reason *reason_of(const struct outcome *outcome)
{
	return outcome->code == TIDE_OK ? outcome->why : NULL;
}

static void settle(struct outcome *outcome, struct tide_io *io, int code)
{
	io->code = code;
	if (outcome->code == TIDE_OK)
		outcome->code = code;
}

/* Begin as many transfers as slots and buffers can be had for; returns how many are dealt with. */
static uint32_t begin(struct file_storage *file, struct tide_io *ios, uint32_t n,
		      struct file_page *pages, uint32_t *n_pages, struct outcome *outcome)
{
	uint32_t i;

	*n_pages = 0;
	for (i = 0; i < n && *n_pages < TIDE_IO_BATCH; i++) {
		const int is_first = *n_pages == 0;
		int rc = page_begin(file, &ios[i], is_first, &pages[*n_pages]);

		if (rc == -EAGAIN && !is_first)
			break;
		if (rc < 0)
			settle(outcome, &ios[i],
			       page_failed(file, &ios[i], -rc, reason_of(outcome)));
		else if (rc == 0)
			settle(outcome, &ios[i], TIDE_OK);
		else
			++*n_pages;
	}
	return i;
}

static void move_together(struct file_storage *file, struct file_page *pages, uint32_t n)
{
	struct uring_transfer transfers[TIDE_IO_BATCH];

	for (uint32_t i = 0; i < n; i++)
		transfers[i] = (struct uring_transfer){.fd = pages[i].slot->fd,
						       .write = pages[i].io->write,
						       .memory = pages[i].memory,
						       .bytes = file->page_bytes,
						       .offset = pages[i].offset};
	uring_run(&file->uring, transfers, n);
	for (uint32_t i = 0; i < n; i++)
		pages[i].done = transfers[i].done;
}

static int finish(struct file_storage *file, struct file_page *page, struct tide_reason *why)
{
	int rc = page_move(file, page, file->page_bytes);
	int code = TIDE_OK;

	if (rc != 0)
		code = page_failed(file, page->io, -rc, why);
	else if (!page->io->write)
		code = page_check(file, page, why);
	page_end(file, page);
	return code;
}

static int file_transfer(void *storage, struct tide_io *ios, uint32_t n, struct tide_reason *why)
{
	struct file_storage *file = storage;
	struct outcome outcome = {TIDE_OK, why};
	struct file_page pages[TIDE_IO_BATCH];
	uint32_t n_pages;

	own(file);
	for (uint32_t i = 0; i < n;) {
		i += begin(file, ios + i, n - i, pages, &n_pages, &outcome);
		if (n_pages > 1 && file->use_uring)
			move_together(file, pages, n_pages);
		for (uint32_t p = 0; p < n_pages; p++)
			settle(&outcome, pages[p].io, finish(file, &pages[p], reason_of(&outcome)));
	}
	return outcome.code;
}

/*
 * After an error the kernel may have thrown away what it could not write, or count it as written,
 * and tells of it once: the next sync may return 0 and nothing is on the device. So the host must
 * take every page of the file that it has written since the last sync that returned 0 as not
 * durable: write it again from memory, or recover it from a log.
 */
static int file_sync(void *storage, uint64_t number, struct tide_reason *why)
{
	struct file_storage *file = storage;
	int rc;

	own(file);
	rc = table_sync(&file->table, number);
	if (rc == 0 || rc == -ENOENT)
		return TIDE_OK; /* no such file: nothing was written to it */
	tide_reason_set(why, TIDE_IO_ERROR, -rc, "file %" PRIu64 " could not be synced", number);
	page_hint(file, -rc, why);
	return TIDE_IO_ERROR;
}

static const struct tide_storage_ops file_ops = {.transfer = file_transfer, .sync = file_sync};

int file_is(const struct tide_storage *storage)
{
	return storage->ops == &file_ops;
}

int file_tear(const struct tide_storage *storage, const struct tide_io *io, struct tide_reason *why)
{
	struct file_storage *file = storage->self;
	struct tide_io copy = *io;
	struct file_page page;
	int rc;

	own(file);
	rc = page_begin(file, &copy, 1, &page);
	if (rc == 1) {
		rc = page_move(file, &page, file->page_bytes / 2);
		page_end(file, &page);
	}
	return rc == 0 ? TIDE_OK : page_failed(file, io, -rc, why);
}

/* --- opening ---------------------------------------------------------------------------------- */

static int check_config(const struct tide_file_config *config, struct tide_reason *why)
{
	const uint32_t bytes = config->page_bytes;
	const uint32_t offset = config->checksum_offset;

	if (!config->directory)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0, "file storage needs a directory");
	if (storage_check_page_bytes(bytes, why) != TIDE_OK)
		return TIDE_BAD_REQUEST;
	if (offset != CHECKSUM_NONE &&
	    (offset % sizeof(uint64_t) != 0 || offset > bytes - sizeof(uint64_t)))
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "a checksum at %u is not within a page of %u bytes, at a "
				       "multiple of 8",
				       offset, bytes);
	return TIDE_OK;
}

/* Does the file system take O_DIRECT? Asked of a nameless file, if it has such. */
static int check_direct(int directory, struct tide_reason *why)
{
	int fd;
	int rc = tide_prim_open_at(directory, ".", O_TMPFILE | O_RDWR, &fd);

	if (rc != 0)
		return TIDE_OK;
	tide_prim_close(fd);
	rc = tide_prim_open_at(directory, ".", O_TMPFILE | O_RDWR | O_DIRECT, &fd);
	if (rc == -EINVAL) {
		tide_reason_set(why, TIDE_BAD_REQUEST, EINVAL,
				"the file system of the directory does not support O_DIRECT");
		tide_reason_hint(why, "set direct = 0, or use another file system");
		return TIDE_BAD_REQUEST;
	}
	if (rc == 0)
		tide_prim_close(fd);
	return TIDE_OK;
}

/* The handle owns @directory also when this fails. */
static int open_parts(struct file_storage *file, const struct tide_file_config *config,
		      int directory, struct tide_reason *why)
{
	file->page_bytes = config->page_bytes;
	file->checksum_offset = config->checksum_offset;
	file->direct = config->direct;
	table_open(&file->table, directory, config->direct ? O_DIRECT : 0);
	if (file->checksum_offset != CHECKSUM_NONE &&
	    bounce_open(&file->bounce, file->page_bytes) != 0)
		return tide_reason_set(why, TIDE_NOT_ENOUGH_MEMORY, ENOMEM,
				       "no memory for %u buffers of %u bytes", BOUNCE_BUFFERS,
				       file->page_bytes);
	file->use_uring = config->io_uring;
	if (file->use_uring)
		uring_open(&file->uring);
	atomic_init(&file->owner, (int)getpid());
	return TIDE_OK;
}

static void close_parts(struct file_storage *file)
{
	if (file->use_uring)
		uring_close(&file->uring);
	if (file->checksum_offset != CHECKSUM_NONE)
		bounce_close(&file->bounce);
	table_close(&file->table);
	free(file);
}

int tide_file_open(const struct tide_file_config *config, struct tide_storage *out,
		   struct tide_reason *why)
{
	struct file_storage *file;
	void *memory;
	int directory;
	int code, rc;

	if (!config || !out)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "no configuration or no place for the storage");
	*out = (struct tide_storage){0};
	code = check_config(config, why);
	if (code != TIDE_OK)
		return code;
	rc = tide_prim_open_directory(config->directory, &directory);
	if (rc != 0) {
		tide_reason_set(why, TIDE_IO_ERROR, -rc, "directory %s cannot be opened",
				config->directory);
		tide_reason_hint(why, "it must exist, and the process be allowed to use it");
		return TIDE_IO_ERROR;
	}
	code = config->direct ? check_direct(directory, why) : TIDE_OK;
	if (code == TIDE_OK &&
	    tide_prim_allocate(_Alignof(struct file_storage), sizeof(*file), &memory) != 0)
		code = tide_reason_set(why, TIDE_NOT_ENOUGH_MEMORY, ENOMEM,
				       "no memory for a storage");
	if (code != TIDE_OK) {
		tide_prim_close(directory);
		return code;
	}
	file = memory;
	code = open_parts(file, config, directory, why);
	if (code != TIDE_OK) {
		close_parts(file);
		return code;
	}
	*out = (struct tide_storage){&file_ops, file};
	return TIDE_OK;
}

void tide_file_close(struct tide_storage *storage)
{
	if (!storage || !storage->self)
		return;
	close_parts(storage->self);
	*storage = (struct tide_storage){0};
}

int tide_file_uses_io_uring(const struct tide_storage *storage)
{
	const struct file_storage *file = storage->self;

	return file->use_uring && uring_is_open(&file->uring);
}
