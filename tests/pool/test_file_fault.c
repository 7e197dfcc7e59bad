/* SPDX-License-Identifier: PostgreSQL */
/* test_file_fault.c - storage in files when the system does not do what it should. */
#include "faulty_file_prim.h"
#include "pool/file.h"
#include "storage_fixture.h"

#include <semaphore.h>

#define BATCH 8u

static char folder[PATH_MAX];
static struct tide_storage storage;
static unsigned char *pages;

static void set_up(void)
{
	fixture_folder(folder);
	file_plan_clear();
	file_observer = NULL;
	pages = fixture_pages(TIDE_IO_BATCH, PAGE_BYTES);
}

static void tear_down(void)
{
	file_plan_clear();
	tide_file_close(&storage);
	fixture_remove(folder);
	free(pages);
}

static int try_open(int io_uring, int direct, struct tide_reason *why)
{
	struct tide_file_config config = {folder, PAGE_BYTES, CHECKSUM_AT, io_uring, direct};

	return tide_file_open(&config, &storage, why);
}

static struct file_storage *opened(void)
{
	return storage.self;
}

/* A batch on two files, to be written with contents of @version, or to be read. */
static void make_batch(struct tide_io *ios, uint32_t n, int write, uint64_t version)
{
	for (uint32_t i = 0; i < n; i++) {
		ios[i] = fixture_io(i % 2, i, pages + (size_t)i * PAGE_BYTES, write);
		memset(ios[i].page, 0, PAGE_BYTES);
		if (write)
			fixture_fill(ios[i].page, PAGE_BYTES, i % 2, i, version);
	}
}

static void write_batch(uint32_t n, uint64_t version)
{
	struct tide_io ios[TIDE_IO_BATCH];
	struct tide_reason why;

	make_batch(ios, n, 1, version);
	ck_assert_int_eq(fixture_transfer(&storage, ios, n, &why), 0);
}

static void read_batch(uint32_t n, uint64_t version)
{
	struct tide_io ios[TIDE_IO_BATCH];
	struct tide_reason why;

	make_batch(ios, n, 0, version);
	ck_assert_int_eq(fixture_transfer(&storage, ios, n, &why), 0);
	for (uint32_t i = 0; i < n; i++) {
		ck_assert_int_eq(ios[i].code, 0);
		ck_assert(fixture_holds(ios[i].page, PAGE_BYTES, 0, PAGE_BYTES, i % 2, i, version));
	}
}

/* Fail call 1, 2, 3 ... of a batch until it passes; each failure is told and leaves nothing. */
static unsigned fail_each(enum file_call call, int error, int write)
{
	struct tide_io ios[TIDE_IO_BATCH];
	struct tide_reason why;
	int files;
	unsigned k;

	for (k = 1;; k++) {
		uint32_t n_failed = 0;
		int code;

		tide_file_close(&storage);
		files = fixture_files();
		ck_assert_int_eq(try_open(0, 0, &why), 0);
		make_batch(ios, BATCH, write, 1);
		file_plan_set(call, k, k, error, FILE_FAILS);
		code = fixture_transfer(&storage, ios, BATCH, &why);
		file_plan_clear();
		for (uint32_t i = 0; i < BATCH; i++)
			n_failed += ios[i].code != 0;
		if (code == 0) {
			ck_assert_uint_eq(n_failed, 0);
			break;
		}
		ck_assert_int_eq(code, TIDE_IO_ERROR);
		ck_assert_int_eq(why.sys_errno, error);
		ck_assert_msg(strstr(why.message, write ? "written" : "read"), "%s", why.message);
		ck_assert_uint_eq(n_failed, 1);
		write_batch(BATCH, 2);
		read_batch(BATCH, 2);
		tide_file_close(&storage);
		ck_assert_int_eq(fixture_files(), files);
	}
	return k - 1;
}

START_TEST(each_call_of_a_batch_fails)
{
	const int errors[] = {EIO, ENOSPC, EDQUOT, EMFILE, ENFILE, EACCES, EROFS, EPERM, EFBIG};
	struct tide_reason why;

	ck_assert_int_eq(try_open(0, 0, &why), 0);
	write_batch(BATCH, 1);
	ck_assert_uint_eq(fail_each(FILE_PREAD, errors[_i], 0), BATCH);
	ck_assert_uint_eq(fail_each(FILE_PWRITE, errors[_i], 1), BATCH);
	/* When the first of a file's pages cannot open it, the next one does. */
	ck_assert_uint_ge(fail_each(FILE_OPEN_AT, errors[_i], 0), 2);
	ck_assert_uint_ge(fail_each(FILE_OPEN_AT, errors[_i], 1), 2);
}
END_TEST

START_TEST(what_can_be_done_is_said)
{
	const struct {
		int error;
		const char *word;
	} cases[] = {
		{ENOSPC, "free space"}, {EDQUOT, "quota"},  {EIO, "log"}, {EMFILE, "RLIMIT_NOFILE"},
		{EACCES, "allowed"},	{EROFS, "allowed"}, {EFBIG, ""}};
	struct tide_reason why;

	ck_assert_int_eq(try_open(0, 0, &why), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		file_plan_set(FILE_PWRITE, 1, 1, cases[i].error, FILE_FAILS);
		ck_assert_int_eq(fixture_one(&storage, 3, 4, pages, 1, &why), TIDE_IO_ERROR);
		ck_assert_msg(strstr(why.hint, cases[i].word), "%s", why.hint);
		ck_assert(strstr(why.message, "page 4 of file 3"));
	}
}
END_TEST

START_TEST(interrupted_and_short_calls_are_continued)
{
	struct tide_reason why;

	ck_assert_int_eq(try_open(0, 0, &why), 0);
	for (uint64_t version = 1; version < 3; version++) {
		file_plan_set(FILE_PWRITE, 1, 3, EINTR, FILE_FAILS);
		write_batch(BATCH, version);
		file_plan_set(FILE_PREAD, 1, 3, EINTR, FILE_FAILS);
		read_batch(BATCH, version);
		file_plan_set(FILE_PWRITE, 1, 9, 0, FILE_PART);
		write_batch(BATCH, version + 20);
		file_plan_set(FILE_PREAD, 1, 9, 0, FILE_PART);
		read_batch(BATCH, version + 20);
		file_plan_set(FILE_OPEN_AT, 1, 2, EINTR, FILE_FAILS);
		ck_assert_int_eq(fixture_write(&storage, 70 + version, 0, pages), 0);
		file_plan_set(FILE_FDATASYNC, 1, 2, EINTR, FILE_FAILS);
		ck_assert_int_eq(fixture_sync(&storage, 70 + version), 0);
		ck_assert_uint_eq(file_count(FILE_FDATASYNC), 3);
		file_plan_clear();
	}
	/* A write that never gets on does not go on for ever. */
	file_plan_set(FILE_PWRITE, 1, 1, 0, FILE_NOTHING);
	ck_assert_int_eq(fixture_one(&storage, 1, 1, pages, 1, &why), TIDE_IO_ERROR);
	ck_assert_int_eq(why.sys_errno, EIO);
}
END_TEST

/* What file_tear() leaves is half a page, and the next read tells. */
START_TEST(torn_write_is_found)
{
	struct tide_reason why;
	struct tide_io io;

	ck_assert_int_eq(try_open(0, 0, &why), 0);
	fixture_fill(pages, PAGE_BYTES, 1, 0, 1);
	ck_assert_int_eq(fixture_write(&storage, 1, 0, pages), 0);
	fixture_fill(pages, PAGE_BYTES, 1, 0, 2);
	io = fixture_io(1, 0, pages, 1);
	ck_assert_int_eq(file_tear(&storage, &io, &why), 0);
	ck_assert_int_eq(fixture_read(&storage, 1, 0, pages), TIDE_PAGE_CORRUPT);
	ck_assert(fixture_holds(pages, PAGE_BYTES, 0, PAGE_BYTES / 2, 1, 0, 2));
	ck_assert(fixture_holds(pages, PAGE_BYTES, PAGE_BYTES / 2, PAGE_BYTES, 1, 0, 1));
	file_plan_set(FILE_PWRITE, 1, 1, EIO, FILE_FAILS);
	ck_assert_int_eq(file_tear(&storage, &io, &why), TIDE_IO_ERROR);
	file_plan_set(FILE_OPEN_AT, 1, 1, EIO, FILE_FAILS);
	io.id.file = 2;
	ck_assert_int_eq(file_tear(&storage, &io, &why), TIDE_IO_ERROR);
}
END_TEST

START_TEST(opening_fails)
{
	const struct {
		enum file_call call;
		unsigned k;
		int error, direct, code;
	} cases[] = {
		{FILE_OPEN_DIRECTORY, 1, EACCES, 0, TIDE_IO_ERROR},
		{FILE_ALLOCATE, 1, ENOMEM, 0, TIDE_NOT_ENOUGH_MEMORY},
		{FILE_ALLOCATE, 2, ENOMEM, 0, TIDE_NOT_ENOUGH_MEMORY},
		{FILE_OPEN_AT, 2, EINVAL, 1, TIDE_BAD_REQUEST},
	};
	int files = fixture_files();
	struct tide_reason why;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		file_plan_set(cases[i].call, cases[i].k, cases[i].k, cases[i].error, FILE_FAILS);
		ck_assert_int_eq(try_open(1, cases[i].direct, &why), cases[i].code);
		ck_assert_int_eq(why.sys_errno, cases[i].error);
		ck_assert_ptr_null(storage.self);
		ck_assert_int_eq(fixture_files(), files);
	}
	/* A file system without nameless files is found out at the first transfer. */
	file_plan_set(FILE_OPEN_AT, 1, 1, EOPNOTSUPP, FILE_FAILS);
	ck_assert_int_eq(try_open(0, 1, &why), 0);
	file_plan_set(FILE_OPEN_AT, 1, 1, EINVAL, FILE_FAILS);
	ck_assert_int_eq(fixture_one(&storage, 1, 1, pages, 1, &why), TIDE_IO_ERROR);
	ck_assert(strstr(why.hint, "direct = 0"));
}
END_TEST

/* --- sync ------------------------------------------------------------------------------------- */

START_TEST(name_is_made_durable_once)
{
	struct tide_reason why;

	ck_assert_int_eq(try_open(0, 0, &why), 0);
	ck_assert_int_eq(fixture_write(&storage, 1, 1, pages), 0);
	file_plan_set(FILE_FSYNC, 1, 1, EIO, FILE_FAILS);
	ck_assert_int_eq(fixture_sync(&storage, 1), TIDE_IO_ERROR);
	file_plan_set(FILE_FSYNC, 1, 2, EINTR, FILE_FAILS);
	ck_assert_int_eq(fixture_sync(&storage, 1), 0);
	ck_assert_uint_eq(file_count(FILE_FSYNC), 3);
	file_plan_clear();
	ck_assert_int_eq(fixture_sync(&storage, 1), 0);
	ck_assert_uint_eq(file_count(FILE_FSYNC), 0);
	ck_assert_uint_eq(file_count(FILE_FDATASYNC), 1);
}
END_TEST

START_TEST(failed_sync_is_told)
{
	struct tide_reason why = {0};

	ck_assert_int_eq(try_open(0, 0, &why), 0);
	ck_assert_int_eq(fixture_write(&storage, 7, 1, pages), 0);
	file_plan_set(FILE_FDATASYNC, 1, 1, EIO, FILE_FAILS);
	ck_assert_int_eq(storage.ops->sync(storage.self, 7, &why), TIDE_IO_ERROR);
	ck_assert_int_eq(why.sys_errno, EIO);
	ck_assert_msg(strstr(why.message, "file 7"), "%s", why.message);
	file_plan_set(FILE_OPEN_AT, 1, 1, EACCES, FILE_FAILS);
	ck_assert_int_eq(fixture_sync(&storage, 8), TIDE_IO_ERROR);
}
END_TEST

static sem_t reached, go_on;
static atomic_int observed_call;

/* Stops every thread that is about to make the observed call, until it may go on. */
static void stop_at_call(enum file_call call)
{
	if ((int)call != atomic_load(&observed_call))
		return;
	sem_post(&reached);
	while (sem_wait(&go_on) != 0)
		;
}

static void observe(enum file_call call)
{
	sem_init(&reached, 0, 0);
	sem_init(&go_on, 0, 0);
	atomic_store(&observed_call, (int)call);
	file_observer = stop_at_call;
}

struct caller {
	pthread_t thread;
	atomic_int id; /* of the thread, when it has begun */
	int sync;      /* 1 = sync, otherwise write */
	uint64_t file;
	int code;
};

static void *call(void *argument)
{
	struct caller *caller = argument;
	unsigned char *page = fixture_pages(1, PAGE_BYTES);

	atomic_store(&caller->id, fixture_thread_id());
	caller->code = caller->sync ? fixture_sync(&storage, caller->file)
				    : fixture_write(&storage, caller->file, 0, page);
	free(page);
	return NULL;
}

static void start(struct caller *caller, int sync, uint64_t file)
{
	caller->sync = sync;
	caller->file = file;
	atomic_store(&caller->id, 0);
	ck_assert_int_eq(pthread_create(&caller->thread, NULL, call, caller), 0);
	while (atomic_load(&caller->id) == 0)
		sched_yield();
}

/* The kernel tells one of two threads; the other waits for it and learns of it, too. */
START_TEST(failed_sync_is_told_to_who_waited_for_it)
{
	struct caller first, second;
	struct tide_reason why;

	ck_assert_int_eq(try_open(0, 0, &why), 0);
	ck_assert_int_eq(fixture_write(&storage, 1, 0, pages), 0);
	file_plan_set(FILE_FDATASYNC, 1, 1, EIO, FILE_FAILS);
	observe(FILE_FDATASYNC);
	start(&first, 1, 1);
	sem_wait(&reached);
	start(&second, 1, 1);
	fixture_wait_asleep(atomic_load(&second.id));
	sem_post(&go_on);
	sem_post(&go_on);
	pthread_join(first.thread, NULL);
	pthread_join(second.thread, NULL);
	ck_assert_int_eq(first.code, TIDE_IO_ERROR);
	ck_assert_int_eq(second.code, TIDE_IO_ERROR);
	file_observer = NULL;
	ck_assert_int_eq(fixture_sync(&storage, 1), 0);
}
END_TEST

/* --- descriptors and buffers ------------------------------------------------------------------ */

static void write_files(uint64_t first, uint64_t n)
{
	for (uint64_t file = first; file < first + n; file++) {
		fixture_fill(pages, PAGE_BYTES, file, 0, 1);
		ck_assert_int_eq(fixture_write(&storage, file, 0, pages), 0);
	}
}

START_TEST(descriptors_without_unsynced_writes_are_closed_first)
{
	struct tide_reason why;

	ck_assert_int_eq(try_open(0, 0, &why), 0);
	write_files(0, TABLE_SLOTS);
	ck_assert_int_eq(fixture_sync(&storage, 20), 0);
	file_plan_clear();
	write_files(1000, 1);
	ck_assert_uint_eq(file_count(FILE_FDATASYNC), 0);
	ck_assert_uint_eq(file_count(FILE_OPEN_AT), 1);
	/* All have some now: the oldest is synced before it is closed. */
	write_files(1001, 1);
	ck_assert_uint_eq(file_count(FILE_FDATASYNC), 1);
	file_plan_clear();
	write_files(1, 1);
	ck_assert_uint_eq(file_count(FILE_OPEN_AT), 0);
	write_files(0, 1);
	ck_assert_uint_eq(file_count(FILE_OPEN_AT), 1);
}
END_TEST

START_TEST(failed_sync_before_closing_is_told_later)
{
	struct tide_reason why;

	ck_assert_int_eq(try_open(0, 0, &why), 0);
	write_files(0, TABLE_SLOTS);
	file_plan_set(FILE_FDATASYNC, 1, 1, EIO, FILE_FAILS);
	write_files(1000, 1);
	ck_assert_uint_eq(file_count(FILE_FDATASYNC), 2);
	file_plan_clear();
	/* Its descriptor stayed, whatever else was opened. */
	write_files(2000, 2 * TABLE_SLOTS);
	file_plan_clear();
	ck_assert_int_eq(fixture_sync(&storage, 0), TIDE_IO_ERROR);
	ck_assert_uint_eq(file_count(FILE_OPEN_AT), 0);
	ck_assert_int_eq(fixture_sync(&storage, 0), 0);
	/* When every sync fails there is no room for another file. */
	write_files(0, TABLE_SLOTS);
	file_plan_set(FILE_FDATASYNC, 1, UINT_MAX, EIO, FILE_FAILS);
	ck_assert_int_eq(fixture_one(&storage, 5000, 0, pages, 1, &why), TIDE_IO_ERROR);
	ck_assert_int_eq(why.sys_errno, EIO);
	ck_assert_int_eq(fixture_sync(&storage, 1), TIDE_IO_ERROR);
	file_plan_clear();
	write_files(5000, 1);
}
END_TEST

/* A batch on more files than there are slots, while some are in use by others, comes in pieces. */
START_TEST(batch_takes_what_it_can_get)
{
	struct file_slot *slots[TABLE_SLOTS];
	struct tide_io ios[TIDE_IO_BATCH];
	struct tide_reason why;

	ck_assert_int_eq(try_open(_i, 0, &why), 0);
	for (uint64_t i = 0; i < TABLE_SLOTS - 5; i++)
		ck_assert_int_eq(table_get(&opened()->table, 100 + i, TABLE_WRITE, 0, &slots[i]),
				 0);
	for (uint32_t i = 0; i < TIDE_IO_BATCH; i++) {
		ios[i] = fixture_io(i, 0, pages + (size_t)i * PAGE_BYTES, 1);
		fixture_fill(ios[i].page, PAGE_BYTES, i, 0, 1);
	}
	ck_assert_int_eq(fixture_transfer(&storage, ios, TIDE_IO_BATCH, &why), 0);
	memset(pages, 0, (size_t)TIDE_IO_BATCH * PAGE_BYTES);
	for (uint32_t i = 0; i < TIDE_IO_BATCH; i++)
		ios[i].write = 0;
	ck_assert_int_eq(fixture_transfer(&storage, ios, TIDE_IO_BATCH, &why), 0);
	for (uint32_t i = 0; i < TIDE_IO_BATCH; i++)
		ck_assert(fixture_holds(ios[i].page, PAGE_BYTES, 0, PAGE_BYTES, i, 0, 1));
	for (uint64_t i = 0; i < TABLE_SLOTS - 5; i++)
		table_put(&opened()->table, slots[i], TABLE_WRITE);
}
END_TEST

START_TEST(thread_waits_for_a_descriptor)
{
	struct file_slot *slots[TABLE_SLOTS];
	struct caller caller;
	struct tide_reason why;

	ck_assert_int_eq(try_open(0, 0, &why), 0);
	for (uint64_t i = 0; i < TABLE_SLOTS; i++)
		ck_assert_int_eq(table_get(&opened()->table, 100 + i, TABLE_WRITE, 0, &slots[i]),
				 0);
	start(&caller, 0, 1);
	fixture_wait_asleep(atomic_load(&caller.id));
	for (uint64_t i = 0; i < TABLE_SLOTS; i++)
		table_put(&opened()->table, slots[i], TABLE_WRITE);
	pthread_join(caller.thread, NULL);
	ck_assert_int_eq(caller.code, 0);
}
END_TEST

START_TEST(thread_waits_for_a_buffer)
{
	const void *buffers[BOUNCE_BUFFERS];
	struct caller caller;
	struct tide_reason why;
	struct tide_io ios[TIDE_IO_BATCH];

	ck_assert_int_eq(try_open(0, 0, &why), 0);
	for (uint32_t i = 0; i < BOUNCE_BUFFERS; i++)
		buffers[i] = bounce_take(&opened()->bounce, 0);
	ck_assert_ptr_null(bounce_take(&opened()->bounce, 0));
	start(&caller, 0, 1);
	fixture_wait_asleep(atomic_load(&caller.id));
	for (uint32_t i = 0; i < BOUNCE_BUFFERS; i++)
		bounce_give(&opened()->bounce, buffers[i]);
	pthread_join(caller.thread, NULL);
	ck_assert_int_eq(caller.code, 0);
	/* A batch makes do with the three that are free. */
	for (uint32_t i = 0; i < BOUNCE_BUFFERS - 3; i++)
		buffers[i] = bounce_take(&opened()->bounce, 0);
	make_batch(ios, TIDE_IO_BATCH, 1, 5);
	ck_assert_int_eq(fixture_transfer(&storage, ios, TIDE_IO_BATCH, &why), 0);
	read_batch(TIDE_IO_BATCH, 5);
	for (uint32_t i = 0; i < BOUNCE_BUFFERS - 3; i++)
		bounce_give(&opened()->bounce, buffers[i]);
}
END_TEST

/* A fork while a thread is in a write: the child finds nothing locked and nothing missing. */
START_TEST(child_of_a_busy_process_starts_anew)
{
	struct caller caller;
	struct tide_reason why;
	pid_t child;

	ck_assert_int_eq(try_open(1, 0, &why), 0);
	write_batch(BATCH, 1);
	observe(FILE_PWRITE);
	start(&caller, 0, 50);
	sem_wait(&reached);
	child = fork();
	if (child == 0) {
		int failed = 0;

		file_observer = NULL;
		failed |= opened()->bounce.free == UINT64_MAX;
		for (uint64_t file = 0; file < 2 * TABLE_SLOTS; file++)
			failed |= fixture_write(&storage, 200 + file, 0, pages);
		failed |= opened()->bounce.free != UINT64_MAX;
		_exit(failed != 0);
	}
	sem_post(&go_on);
	pthread_join(caller.thread, NULL);
	ck_assert_int_eq(caller.code, 0);
	ck_assert_int_eq(fixture_status(child), 0);
	file_observer = NULL;
	read_batch(BATCH, 1);
}
END_TEST

/*
 * As in a child, but in this process: it is put in order by the first thread, while a second one
 * waits.
 */
START_TEST(storage_is_put_in_order_once)
{
	struct caller first, second;
	struct tide_reason why;
	int files;

	ck_assert_int_eq(try_open(1, 0, &why), 0);
	if (!tide_file_uses_io_uring(&storage))
		return;
	files = fixture_files();
	write_files(0, 10);
	file_plan_clear();
	atomic_store(&opened()->owner, 1);
	observe(FILE_RING_OPEN);
	start(&first, 0, 1);
	sem_wait(&reached);
	start(&second, 0, 1);
	for (unsigned i = 0; i < URING_RINGS; i++)
		sem_post(&go_on);
	pthread_join(first.thread, NULL);
	pthread_join(second.thread, NULL);
	ck_assert_int_eq(first.code, 0);
	ck_assert_int_eq(second.code, 0);
	ck_assert_uint_eq(file_count(FILE_RING_OPEN), URING_RINGS);
	/* Of the descriptors only that of the one file was opened again. */
	ck_assert_int_eq(fixture_files(), files + 1);
	file_observer = NULL;
}
END_TEST

/* --- io_uring --------------------------------------------------------------------------------- */

static int has_rings(void)
{
	struct tide_reason why;

	ck_assert_int_eq(try_open(1, 0, &why), 0);
	return tide_file_uses_io_uring(&storage);
}

START_TEST(without_rings_everything_works)
{
	const int errors[] = {ENOSYS, EPERM, ENOMEM};
	struct tide_reason why;

	file_plan_set(FILE_RING_OPEN, 1, UINT_MAX, errors[_i], FILE_FAILS);
	ck_assert_int_eq(try_open(1, 0, &why), 0);
	ck_assert_int_eq(tide_file_uses_io_uring(&storage), 0);
	write_batch(BATCH, 1);
	read_batch(BATCH, 1);
	ck_assert_uint_eq(file_count(FILE_RING_SUBMIT), 0);
}
END_TEST

START_TEST(rings_carry_batches_and_not_single_pages)
{
	if (!has_rings())
		return;
	file_plan_clear();
	write_batch(BATCH, 1);
	read_batch(BATCH, 1);
	ck_assert_uint_eq(file_count(FILE_RING_SUBMIT), 2);
	ck_assert_uint_eq(file_count(FILE_PREAD) + file_count(FILE_PWRITE), 0);
	ck_assert_int_eq(fixture_read(&storage, 1, 1, pages), 0);
	ck_assert_uint_eq(file_count(FILE_RING_SUBMIT), 2);
	ck_assert_uint_eq(file_count(FILE_PREAD), 1);
}
END_TEST

START_TEST(busy_rings_are_not_waited_for)
{
	if (!has_rings())
		return;
	file_plan_clear();
	for (unsigned i = 0; i < URING_RINGS; i++)
		pthread_mutex_lock(&opened()->uring.rings[i].lock);
	write_batch(BATCH, 1);
	read_batch(BATCH, 1);
	for (unsigned i = 0; i < URING_RINGS; i++)
		pthread_mutex_unlock(&opened()->uring.rings[i].lock);
	ck_assert_uint_eq(file_count(FILE_RING_SUBMIT), 0);
	ck_assert_uint_eq(file_count(FILE_PREAD) + file_count(FILE_PWRITE), 2 * BATCH);
}
END_TEST

/* Submitting fails after none, or after half of the entries; and so it does again in the end. */
START_TEST(failed_submit_leaves_nothing_under_way)
{
	const enum file_failure failures[] = {FILE_FAILS, FILE_PART};

	if (!has_rings())
		return;
	for (int f = 0; f < 2; f++)
		for (uint64_t version = 1; version < 4; version++) {
			unsigned last = version == 3 ? UINT_MAX : 1;

			file_plan_set(FILE_RING_SUBMIT, 1, last, EBUSY, failures[f]);
			write_batch(BATCH, version);
			ck_assert_uint_ge(file_count(FILE_RING_SUBMIT), 1);
			read_batch(BATCH, version);
			file_plan_set(FILE_RING_SUBMIT, 1, last, EINTR, failures[f]);
			if (version < 3)
				write_batch(BATCH, version + 10);
			else
				file_plan_clear();
			read_batch(BATCH, version < 3 ? version + 10 : version);
		}
	ck_assert_int_eq(tide_file_uses_io_uring(&storage), 1);
}
END_TEST

START_TEST(ring_that_cannot_be_replaced_is_gone)
{
	if (!has_rings())
		return;
	for (unsigned i = 0; i < URING_RINGS; i++) {
		/* Submitting fails, and then opening. */
		ck_assert_int_eq(tide_file_uses_io_uring(&storage), 1);
		file_plan_set(FILE_ANY, 1, UINT_MAX, EIO, FILE_FAILS);
		uring_run(&opened()->uring,
			  &(struct uring_transfer){.fd = -1, .memory = pages, .bytes = PAGE_BYTES},
			  1);
		file_plan_clear();
	}
	ck_assert_int_eq(tide_file_uses_io_uring(&storage), 0);
	write_batch(BATCH, 1);
	read_batch(BATCH, 1);
	ck_assert_uint_eq(file_count(FILE_RING_SUBMIT), 0);
}
END_TEST

START_TEST(failed_wait_is_repeated)
{
	if (!has_rings())
		return;
	file_plan_set(FILE_RING_WAIT, 1, 5, _i ? EINTR : EIO, FILE_FAILS);
	write_batch(BATCH, 1);
	ck_assert_uint_eq(file_count(FILE_RING_WAIT), BATCH + 5);
	file_plan_set(FILE_RING_WAIT, 3, 5, _i ? EINTR : EIO, FILE_FAILS);
	read_batch(BATCH, 1);
}
END_TEST

/* What a completion says was not done is done by pread and pwrite; they have the last word. */
START_TEST(short_and_failed_completions_are_finished)
{
	struct tide_io ios[BATCH];
	struct tide_reason why;

	if (!has_rings())
		return;
	for (unsigned k = 1; k <= BATCH; k++) {
		file_plan_set(FILE_RING_WAIT, k, k, 0, FILE_PART);
		write_batch(BATCH, k);
		ck_assert_uint_eq(file_count(FILE_PWRITE), 1);
		file_plan_set(FILE_RING_WAIT, k, k, 0, FILE_PART);
		read_batch(BATCH, k);
		ck_assert_uint_eq(file_count(FILE_PREAD), 1);
		file_plan_set(FILE_RING_WAIT, k, BATCH, EAGAIN, FILE_NOTHING);
		write_batch(BATCH, 100 + k);
		file_plan_set(FILE_RING_WAIT, k, BATCH, EIO, FILE_NOTHING);
		read_batch(BATCH, 100 + k);
	}
	/* The ring gives nothing, and pread fails. */
	make_batch(ios, BATCH, 0, 0);
	for (unsigned i = 0; i < URING_RINGS; i++)
		pthread_mutex_lock(&opened()->uring.rings[i].lock);
	file_plan_set(FILE_PREAD, 1, UINT_MAX, EIO, FILE_FAILS);
	ck_assert_int_eq(fixture_transfer(&storage, ios, BATCH, &why), TIDE_IO_ERROR);
	for (unsigned i = 0; i < URING_RINGS; i++)
		pthread_mutex_unlock(&opened()->uring.rings[i].lock);
	for (uint32_t i = 0; i < BATCH; i++)
		ck_assert_int_eq(ios[i].code, TIDE_IO_ERROR);
	ck_assert_msg(strstr(why.message, "page 0 of file 0"), "the first is told: %s",
		      why.message);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("file_fault");
	TCase *tcase = tcase_create("file_fault");

	tcase_add_checked_fixture(tcase, set_up, tear_down);
	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, each_call_of_a_batch_fails, 0, 9);
	tcase_add_test(tcase, what_can_be_done_is_said);
	tcase_add_test(tcase, interrupted_and_short_calls_are_continued);
	tcase_add_test(tcase, torn_write_is_found);
	tcase_add_test(tcase, opening_fails);
	tcase_add_test(tcase, name_is_made_durable_once);
	tcase_add_test(tcase, failed_sync_is_told);
	tcase_add_test(tcase, failed_sync_is_told_to_who_waited_for_it);
	tcase_add_test(tcase, descriptors_without_unsynced_writes_are_closed_first);
	tcase_add_test(tcase, failed_sync_before_closing_is_told_later);
	tcase_add_loop_test(tcase, batch_takes_what_it_can_get, 0, 2);
	tcase_add_test(tcase, thread_waits_for_a_descriptor);
	tcase_add_test(tcase, thread_waits_for_a_buffer);
	tcase_add_test(tcase, child_of_a_busy_process_starts_anew);
	tcase_add_test(tcase, storage_is_put_in_order_once);
	tcase_add_loop_test(tcase, without_rings_everything_works, 0, 3);
	tcase_add_test(tcase, rings_carry_batches_and_not_single_pages);
	tcase_add_test(tcase, busy_rings_are_not_waited_for);
	tcase_add_test(tcase, failed_submit_leaves_nothing_under_way);
	tcase_add_test(tcase, ring_that_cannot_be_replaced_is_gone);
	tcase_add_loop_test(tcase, failed_wait_is_repeated, 0, 2);
	tcase_add_test(tcase, short_and_failed_completions_are_finished);
	suite_add_tcase(suite, tcase);
	return fixture_run(suite);
}
