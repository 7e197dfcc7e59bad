/* SPDX-License-Identifier: PostgreSQL */
/*
 * pool/memory_storage.c - storage in a memfd, for tests and benchmarks.
 *
 * A transfer is a copy, without a lock: that a page is not read and written at the same time is the
 * business of the caller, as a pool transfers a page only once at a time. Nothing else is shared
 * that ever changes.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <tidepool/pool.h>

#include "memory/prim.h"
#include "pool/file_prim.h"
#include "pool/storage.h"

#define BYTES_MAX (UINT64_C(1) << 46) /* no address space is larger */

struct memory_storage {
	uint64_t n_files;
	uint64_t n_pages; /* of each file */
	uint32_t page_bytes;
	int fd;
	unsigned char *base;
};

static int transfer_one(const struct memory_storage *memory, const struct tide_io *io,
			struct tide_reason *why)
{
	unsigned char *stored;

	if (io->id.file >= memory->n_files || io->id.page >= memory->n_pages)
		return tide_reason_set(why, TIDE_IO_ERROR, 0,
				       "page %" PRIu64 " of file %" PRIu64
				       " lies outside of the memory storage, which has %" PRIu64
				       " files of %" PRIu64 " pages",
				       io->id.page, io->id.file, memory->n_files, memory->n_pages);
	stored = memory->base + (io->id.file * memory->n_pages + io->id.page) * memory->page_bytes;
	if (io->write)
		memcpy(stored, io->page, memory->page_bytes);
	else
		memcpy(io->page, stored, memory->page_bytes);
	return TIDE_OK;
}

static int memory_transfer(void *storage, struct tide_io *ios, uint32_t n, struct tide_reason *why)
{
	int code = TIDE_OK;

	for (uint32_t i = 0; i < n; i++) {
		/* Only the first failure is told. */
		ios[i].code = transfer_one(storage, &ios[i], code == TIDE_OK ? why : NULL);
		if (code == TIDE_OK)
			code = ios[i].code;
	}
	return code;
}

/* Nothing outlives the memory anyway. */
static int memory_sync(void *storage, uint64_t file, struct tide_reason *why)
{
	(void)storage;
	(void)file;
	(void)why;
	return TIDE_OK;
}

static const struct tide_storage_ops memory_ops = {.transfer = memory_transfer,
						   .sync = memory_sync};

static int check_size(uint64_t n_files, uint64_t n_pages, uint32_t page_bytes,
		      struct tide_reason *why)
{
	uint64_t bytes;

	if (storage_check_page_bytes(page_bytes, why) != TIDE_OK)
		return TIDE_BAD_REQUEST;
	if (n_files == 0 || n_pages == 0 || __builtin_mul_overflow(n_files, n_pages, &bytes) ||
	    __builtin_mul_overflow(bytes, page_bytes, &bytes) || bytes > BYTES_MAX)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "%" PRIu64 " files of %" PRIu64
				       " pages are no possible size of a memory storage",
				       n_files, n_pages);
	return TIDE_OK;
}

static int create(struct memory_storage *memory, struct tide_reason *why)
{
	const uint64_t bytes = memory->n_files * memory->n_pages * memory->page_bytes;
	const char *what = "created";
	void *mapped;
	int rc;

	rc = tide_prim_memfd("tidepool-storage", MFD_CLOEXEC, &memory->fd);
	if (rc == 0) {
		what = "extended";
		rc = tide_prim_truncate(memory->fd, bytes);
	}
	if (rc == 0) {
		what = "mapped";
		rc = tide_prim_map(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
				   memory->fd, &mapped);
	}
	if (rc == 0) {
		memory->base = mapped;
		return TIDE_OK;
	}
	tide_reason_set(why, rc == -ENOMEM ? TIDE_NOT_ENOUGH_MEMORY : TIDE_SYSTEM_ERROR, -rc,
			"a memory storage of %" PRIu64 " bytes could not be %s", bytes, what);
	tide_reason_bytes(why, bytes, 0);
	return rc == -ENOMEM ? TIDE_NOT_ENOUGH_MEMORY : TIDE_SYSTEM_ERROR;
}

static void release(struct memory_storage *memory)
{
	if (memory->base)
		(void)tide_prim_unmap(memory->base,
				      memory->n_files * memory->n_pages * memory->page_bytes);
	if (memory->fd >= 0)
		tide_prim_close(memory->fd);
	free(memory);
}

int tide_memory_open(uint64_t n_files, uint64_t n_pages, uint32_t page_bytes,
		     struct tide_storage *out, struct tide_reason *why)
{
	struct memory_storage *memory;
	void *allocated;
	int code;

	if (!out)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0, "no place for the storage");
	*out = (struct tide_storage){0};
	code = check_size(n_files, n_pages, page_bytes, why);
	if (code != TIDE_OK)
		return code;
	if (tide_prim_allocate(_Alignof(struct memory_storage), sizeof(*memory), &allocated) != 0)
		return tide_reason_set(why, TIDE_NOT_ENOUGH_MEMORY, ENOMEM,
				       "no memory for a storage");
	memory = allocated;
	*memory = (struct memory_storage){n_files, n_pages, page_bytes, -1, NULL};
	code = create(memory, why);
	if (code != TIDE_OK) {
		release(memory);
		return code;
	}
	*out = (struct tide_storage){&memory_ops, memory};
	return TIDE_OK;
}

void tide_memory_close(struct tide_storage *storage)
{
	if (!storage || !storage->self)
		return;
	release(storage->self);
	*storage = (struct tide_storage){0};
}
