/* SPDX-License-Identifier: PostgreSQL */
/*
 * faulty_file_prim.h - the storages' system calls, counted, and made to fail on demand.
 *
 * Included by the one source file of a test program. The real functions are compiled in under other
 * names; those defined here take the place of the weak ones of the library.
 */
#ifndef TIDE_TESTS_FAULTY_FILE_PRIM_H
#define TIDE_TESTS_FAULTY_FILE_PRIM_H

#include <stdatomic.h>

#define tide_prim_open_directory real_open_directory
#define tide_prim_open_at real_open_at
#define tide_prim_pread real_pread
#define tide_prim_pwrite real_pwrite
#define tide_prim_fdatasync real_fdatasync
#define tide_prim_fsync real_fsync
#define tide_prim_allocate real_allocate
#define tide_prim_sleep real_sleep
#define tide_prim_ring_open real_ring_open
#define tide_prim_ring_close real_ring_close
#define tide_prim_ring_submit real_ring_submit
#define tide_prim_ring_wait real_ring_wait
#include "pool/file_prim.c"
#undef tide_prim_open_directory
#undef tide_prim_open_at
#undef tide_prim_pread
#undef tide_prim_pwrite
#undef tide_prim_fdatasync
#undef tide_prim_fsync
#undef tide_prim_allocate
#undef tide_prim_sleep
#undef tide_prim_ring_open
#undef tide_prim_ring_close
#undef tide_prim_ring_submit
#undef tide_prim_ring_wait

enum file_call {
	FILE_OPEN_DIRECTORY,
	FILE_OPEN_AT,
	FILE_PREAD,
	FILE_PWRITE,
	FILE_FDATASYNC,
	FILE_FSYNC,
	FILE_ALLOCATE,
	FILE_SLEEP,
	FILE_RING_OPEN,
	FILE_RING_SUBMIT,
	FILE_RING_WAIT,
	FILE_CALLS,
	FILE_ANY = FILE_CALLS
};

/* What becomes of a call that is to fail. */
enum file_failure {
	FILE_FAILS, /* -error and nothing is done */
	FILE_PART,  /* half is done and reported (pread, pwrite, completions); submit: and -error */
	FILE_NOTHING /* pread, pwrite, completions: 0 bytes, no error */
};

/* Calls number @first to @last of @call (or of all of them) go wrong. */
static struct {
	enum file_call call;
	unsigned first, last;
	int error;
	enum file_failure failure;
} file_plan;

static atomic_uint file_counts[FILE_CALLS + 1];

/* Called before every call, in the thread that makes it. */
static void (*file_observer)(enum file_call call);

static inline void file_plan_set(enum file_call call, unsigned first, unsigned last, int error,
				 enum file_failure failure)
{
	for (int i = 0; i <= FILE_CALLS; i++)
		atomic_store(&file_counts[i], 0);
	file_plan.call = call;
	file_plan.first = first;
	file_plan.last = last;
	file_plan.error = error;
	file_plan.failure = failure;
}

static inline void file_plan_clear(void)
{
	file_plan_set(FILE_ANY, 0, 0, 0, FILE_FAILS);
}

static inline unsigned file_count(enum file_call call)
{
	return atomic_load(&file_counts[call]);
}

static int file_goes_wrong(enum file_call call)
{
	unsigned total = atomic_fetch_add(&file_counts[FILE_ANY], 1) + 1;
	unsigned of_call = atomic_fetch_add(&file_counts[call], 1) + 1;
	unsigned number = file_plan.call == FILE_ANY ? total : of_call;

	if (file_observer)
		file_observer(call);
	if (file_plan.call != FILE_ANY && file_plan.call != call)
		return 0;
	return number >= file_plan.first && number <= file_plan.last;
}

#define FILE_WRAP(call, name, parameters, arguments)                                     \
	int tide_prim_##name parameters                                                  \
	{                                                                                \
		return file_goes_wrong(call) ? -file_plan.error : real_##name arguments; \
	}

FILE_WRAP(FILE_OPEN_DIRECTORY, open_directory, (const char *path, int *fd), (path, fd))
FILE_WRAP(FILE_OPEN_AT, open_at, (int directory, const char *name, int flags, int *fd),
	  (directory, name, flags, fd))
FILE_WRAP(FILE_FDATASYNC, fdatasync, (int fd), (fd))
FILE_WRAP(FILE_FSYNC, fsync, (int fd), (fd))
FILE_WRAP(FILE_ALLOCATE, allocate, (size_t alignment, size_t bytes, void **out),
	  (alignment, bytes, out))
FILE_WRAP(FILE_RING_OPEN, ring_open, (unsigned entries, struct io_uring *ring), (entries, ring))

int64_t tide_prim_pread(int fd, void *to, size_t bytes, uint64_t offset)
{
	if (!file_goes_wrong(FILE_PREAD))
		return real_pread(fd, to, bytes, offset);
	if (file_plan.failure == FILE_FAILS)
		return -file_plan.error;
	return file_plan.failure == FILE_PART ? real_pread(fd, to, (bytes + 1) / 2, offset) : 0;
}

int64_t tide_prim_pwrite(int fd, const void *from, size_t bytes, uint64_t offset)
{
	if (!file_goes_wrong(FILE_PWRITE))
		return real_pwrite(fd, from, bytes, offset);
	if (file_plan.failure == FILE_FAILS)
		return -file_plan.error;
	return file_plan.failure == FILE_PART ? real_pwrite(fd, from, (bytes + 1) / 2, offset) : 0;
}

void tide_prim_sleep(uint64_t ns)
{
	(void)file_goes_wrong(FILE_SLEEP);
	real_sleep(ns);
}

void tide_prim_ring_close(struct io_uring *ring)
{
	real_ring_close(ring);
}

/* A kernel that takes a part of the entries is played by hiding the others from it. */
int tide_prim_ring_submit(struct io_uring *ring)
{
	unsigned tail = ring->sq.sqe_tail;

	if (!file_goes_wrong(FILE_RING_SUBMIT))
		return real_ring_submit(ring);
	if (file_plan.failure == FILE_PART) {
		ring->sq.sqe_tail -= (io_uring_sq_ready(ring) + 1) / 2;
		(void)real_ring_submit(ring);
		ring->sq.sqe_tail = tail;
	}
	return -file_plan.error;
}

/* FILE_FAILS: waiting itself fails. Otherwise a completion becomes one of half or of nothing. */
int tide_prim_ring_wait(struct io_uring *ring, struct io_uring_cqe **cqe)
{
	int wrong = file_goes_wrong(FILE_RING_WAIT);
	int rc;

	if (wrong && file_plan.failure == FILE_FAILS)
		return -file_plan.error;
	rc = real_ring_wait(ring, cqe);
	if (rc == 0 && wrong)
		(*cqe)->res = file_plan.failure == FILE_PART ? (*cqe)->res / 2 : -file_plan.error;
	return rc;
}

#endif /* TIDE_TESTS_FAULTY_FILE_PRIM_H */
