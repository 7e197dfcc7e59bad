/* SPDX-License-Identifier: PostgreSQL */
/* pool/file_page.c - one page on its way to or from a file. */
#include "pool/file_page.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "pool/checksum.h"
#include "pool/file_prim.h"

#define SECTOR_BYTES 512u

static enum table_use use_of(const struct tide_io *io)
{
	return io->write ? TABLE_WRITE : TABLE_READ;
}

static int never_written(const struct file_storage *file, const struct tide_io *io)
{
	memset(io->page, 0, file->page_bytes);
	return 0;
}

int page_begin(struct file_storage *file, struct tide_io *io, int wait, struct file_page *page)
{
	int rc;

	if (io->id.page >= (uint64_t)INT64_MAX / file->page_bytes)
		return io->write ? -EFBIG : never_written(file, io);
	rc = table_get(&file->table, io->id.file, use_of(io), wait, &page->slot);
	if (rc == -ENOENT && !io->write)
		return never_written(file, io);
	if (rc != 0)
		return rc;
	page->io = io;
	page->offset = io->id.page * file->page_bytes;
	page->memory = io->page;
	page->done = 0;
	if (!io->write || file->checksum_offset == CHECKSUM_NONE)
		return 1;
	page->memory = bounce_take(&file->bounce, wait);
	if (!page->memory) {
		table_put(&file->table, page->slot, use_of(io));
		return -EAGAIN;
	}
	/* Copied first: the page may change meanwhile, its copy does not. */
	memcpy(page->memory, io->page, file->page_bytes);
	checksum_put(page->memory, file->checksum_offset,
		     checksum_of(page->memory, file->page_bytes, file->checksum_offset, &io->id));
	return 1;
}

void page_end(struct file_storage *file, const struct file_page *page)
{
	if (page->memory != page->io->page)
		bounce_give(&file->bounce, page->memory);
	table_put(&file->table, page->slot, use_of(page->io));
}

/*
 * A direct read that ends within a sector has met the end of the file, and could not be continued
 * from there.
 */
static int is_at_end(const struct file_storage *file, const struct file_page *page)
{
	return file->direct && !page->io->write && page->done % SECTOR_BYTES != 0;
}

int page_move(const struct file_storage *file, struct file_page *page, uint32_t bytes)
{
	while (page->done < bytes && !is_at_end(file, page)) {
		unsigned char *memory = (unsigned char *)page->memory + page->done;
		uint64_t offset = page->offset + page->done;
		uint32_t left = bytes - page->done;
		int64_t n;

		if (page->io->write)
			n = tide_prim_pwrite(page->slot->fd, memory, left, offset);
		else
			n = tide_prim_pread(page->slot->fd, memory, left, offset);
		if (n == -EINTR)
			continue;
		if (n < 0)
			return (int)n;
		if (n == 0)
			return page->io->write ? -EIO : 0;
		page->done += (uint32_t)n;
	}
	return 0;
}

int page_check(const struct file_storage *file, const struct file_page *page,
	       struct tide_reason *why)
{
	const struct tide_io *io = page->io;
	uint64_t expected, found;

	memset((unsigned char *)io->page + page->done, 0, file->page_bytes - page->done);
	if (file->checksum_offset == CHECKSUM_NONE) {
		if (page->done == file->page_bytes || checksum_is_hole(io->page, file->page_bytes))
			return TIDE_OK;
		tide_reason_set(why, TIDE_PAGE_CORRUPT, 0,
				"page %" PRIu64 " of file %" PRIu64
				" is torn: the file ends after %u of its %u bytes",
				io->id.page, io->id.file, page->done, file->page_bytes);
	} else {
		found = checksum_get(io->page, file->checksum_offset);
		expected = checksum_of(io->page, file->page_bytes, file->checksum_offset, &io->id);
		if (found == expected || checksum_is_hole(io->page, file->page_bytes))
			return TIDE_OK;
		tide_reason_set(why, TIDE_PAGE_CORRUPT, 0,
				"page %" PRIu64 " of file %" PRIu64 " has checksum %016" PRIx64
				", expected %016" PRIx64 "%s",
				io->id.page, io->id.file, found, expected,
				page->done < file->page_bytes ? "; the file ends within it" : "");
	}
	tide_reason_hint(why, "restore the page from a backup or a log; a write may have been torn "
			      "by a crash, or the device has returned wrong data");
	return TIDE_PAGE_CORRUPT;
}

void page_hint(const struct file_storage *file, int error, struct tide_reason *why)
{
	if (error == ENOSPC || error == EDQUOT)
		tide_reason_hint(why, "free space on the file system, or raise the quota");
	else if (error == EIO)
		tide_reason_hint(why, "the kernel's log tells what the device reported");
	else if (error == EMFILE || error == ENFILE)
		tide_reason_hint(why, "raise the limit of open files (RLIMIT_NOFILE, fs.file-max)");
	else if (error == EACCES || error == EPERM || error == EROFS)
		tide_reason_hint(why, "the process must be allowed to read and write the file");
	else if (error == EINVAL && file->direct)
		tide_reason_hint(why, "the file system may refuse O_DIRECT: set direct = 0");
}

int page_failed(const struct file_storage *file, const struct tide_io *io, int error,
		struct tide_reason *why)
{
	tide_reason_set(why, TIDE_IO_ERROR, error,
			"page %" PRIu64 " of file %" PRIu64 " could not be %s", io->id.page,
			io->id.file, io->write ? "written" : "read");
	page_hint(file, error, why);
	return TIDE_IO_ERROR;
}
