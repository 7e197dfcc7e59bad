/* SPDX-License-Identifier: PostgreSQL */
/* storage_fixture.h - what tests of storages stand on: pages with known contents, folders. */
#ifndef TIDE_TESTS_STORAGE_FIXTURE_H
#define TIDE_TESTS_STORAGE_FIXTURE_H

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tidepool/pool.h>

#define PAGE_BYTES 8192u
#define CHECKSUM_AT 24u
#define NO_CHECKSUM UINT32_MAX

static inline void fixture_folder(char folder[PATH_MAX])
{
	const char *parent = getenv("TMPDIR");

	snprintf(folder, PATH_MAX, "%s/tidepool-test-XXXXXX", parent ? parent : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(folder));
}

static inline int fixture_remove_one(const char *path, const struct stat *status, int type,
				     struct FTW *walk)
{
	(void)status;
	(void)type;
	(void)walk;
	return remove(path);
}

static inline void fixture_remove(const char *folder)
{
	(void)nftw(folder, fixture_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Memory for @n pages, aligned to one; given back with free(). */
static inline unsigned char *fixture_pages(uint32_t n, uint32_t page_bytes)
{
	unsigned char *pages = aligned_alloc(page_bytes, (size_t)n * page_bytes);

	ck_assert_ptr_nonnull(pages);
	memset(pages, 0x5a, (size_t)n * page_bytes);
	return pages;
}

/* Contents that depend on every argument; the place of the checksum is left alone. */
static inline void fixture_fill(void *page, uint32_t page_bytes, uint64_t file, uint64_t number,
				uint64_t version)
{
	uint64_t x = file * 1000003 + number * 7919 + version * 104729 + 1;
	unsigned char *bytes = page;

	for (uint32_t i = 0; i < page_bytes; i += 8) {
		x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		if (i != CHECKSUM_AT)
			memcpy(bytes + i, &x, 8);
	}
}

/* Are [from, to) of the page what fixture_fill() puts there? */
static inline int fixture_holds(const void *page, uint32_t page_bytes, uint32_t from, uint32_t to,
				uint64_t file, uint64_t number, uint64_t version)
{
	unsigned char *expected = fixture_pages(1, page_bytes);
	int same;

	memcpy(expected, page, page_bytes);
	fixture_fill(expected, page_bytes, file, number, version);
	same = memcmp(expected + from, (const unsigned char *)page + from, to - from) == 0;
	free(expected);
	return same;
}

static inline int fixture_is_zero(const void *page, uint32_t page_bytes)
{
	const unsigned char *bytes = page;

	for (uint32_t i = 0; i < page_bytes; i++)
		if (bytes[i] != 0)
			return 0;
	return 1;
}

static inline struct tide_io fixture_io(uint64_t file, uint64_t page, void *memory, int write)
{
	return (struct tide_io){.id = {file, page}, .page = memory, .write = write, .code = 12345};
}

static inline int fixture_transfer(struct tide_storage *storage, struct tide_io *ios, uint32_t n,
				   struct tide_reason *why)
{
	*why = (struct tide_reason){0};
	return storage->ops->transfer(storage->self, ios, n, why);
}

/* Write, or read, one page; the code, which is also that of the transfer. */
static inline int fixture_one(struct tide_storage *storage, uint64_t file, uint64_t page,
			      void *memory, int write, struct tide_reason *why)
{
	struct tide_io io = fixture_io(file, page, memory, write);
	int code = fixture_transfer(storage, &io, 1, why);

	ck_assert_int_eq(io.code, code);
	ck_assert_int_eq(why->code, code);
	return code;
}

static inline int fixture_write(struct tide_storage *storage, uint64_t file, uint64_t page,
				void *memory)
{
	struct tide_reason why;

	return fixture_one(storage, file, page, memory, 1, &why);
}

static inline int fixture_read(struct tide_storage *storage, uint64_t file, uint64_t page,
			       void *memory)
{
	struct tide_reason why;

	return fixture_one(storage, file, page, memory, 0, &why);
}

static inline int fixture_sync(struct tide_storage *storage, uint64_t file)
{
	struct tide_reason why = {0};

	return storage->ops->sync(storage->self, file, &why);
}

static inline struct tide_storage fixture_file_storage(const char *folder, uint32_t checksum_at,
						       int io_uring)
{
	struct tide_file_config config = {.directory = folder,
					  .page_bytes = PAGE_BYTES,
					  .checksum_offset = checksum_at,
					  .io_uring = io_uring};
	struct tide_storage storage;
	struct tide_reason why = {0};
	int code = tide_file_open(&config, &storage, &why);

	ck_assert_msg(code == 0, "open: %s: %s", tide_code_name(code), why.message);
	return storage;
}

static inline int fixture_open_raw(const char *folder, uint64_t file)
{
	char path[PATH_MAX + 32];
	int fd;

	snprintf(path, sizeof(path), "%s/%" PRIu64, folder, file);
	fd = open(path, O_RDWR | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	return fd;
}

/* Change the bytes of a file past the storage. */
static inline void fixture_flip(const char *folder, uint64_t file, uint64_t offset)
{
	int fd = fixture_open_raw(folder, file);
	unsigned char byte;

	ck_assert_int_eq(pread(fd, &byte, 1, (off_t)offset), 1);
	byte ^= 1;
	ck_assert_int_eq(pwrite(fd, &byte, 1, (off_t)offset), 1);
	close(fd);
}

static inline void fixture_truncate(const char *folder, uint64_t file, uint64_t bytes)
{
	int fd = fixture_open_raw(folder, file);

	ck_assert_int_eq(ftruncate(fd, (off_t)bytes), 0);
	close(fd);
}

static inline pid_t fixture_thread_id(void)
{
	return (pid_t)syscall(SYS_gettid);
}

/* Returns when a thread of this process sleeps in the kernel. */
static inline void fixture_wait_asleep(pid_t thread)
{
	char path[64], text[256], state = 'R';

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)thread);
	while (state != 'S') {
		FILE *file = fopen(path, "r");

		ck_assert_ptr_nonnull(file);
		if (fgets(text, sizeof(text), file) && strrchr(text, ')'))
			state = strrchr(text, ')')[2];
		fclose(file);
		sched_yield();
	}
}

/* Open file descriptors of this process. */
static inline int fixture_files(void)
{
	int count = 0;

	for (int fd = 0; fd < 512; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* The status with which a child ended; it is there already or comes. */
static inline int fixture_status(pid_t child)
{
	int status = -1;

	ck_assert_int_eq(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

static inline int fixture_run(Suite *suite)
{
	SRunner *runner = srunner_create(suite);
	int failed;

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}

#endif /* TIDE_TESTS_STORAGE_FIXTURE_H */
