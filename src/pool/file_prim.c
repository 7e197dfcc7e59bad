/* SPDX-License-Identifier: PostgreSQL */
/* pool/file_prim.c - every system call of the storages, behind one thin layer. */
#include "pool/file_prim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PRIM __attribute__((weak))

#define NS_PER_S 1000000000ull

PRIM int tide_prim_open_directory(const char *path, int *fd)
{
	*fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *fd < 0 ? -errno : 0;
}

PRIM int tide_prim_open_at(int directory, const char *name, int flags, int *fd)
{
	*fd = openat(directory, name, flags | O_CLOEXEC, 0600);
	return *fd < 0 ? -errno : 0;
}

PRIM int64_t tide_prim_pread(int fd, void *to, size_t bytes, uint64_t offset)
{
	ssize_t n = pread(fd, to, bytes, (off_t)offset);

	return n < 0 ? -errno : n;
}

PRIM int64_t tide_prim_pwrite(int fd, const void *from, size_t bytes, uint64_t offset)
{
	ssize_t n = pwrite(fd, from, bytes, (off_t)offset);

	return n < 0 ? -errno : n;
}

PRIM int tide_prim_fdatasync(int fd)
{
	return fdatasync(fd) != 0 ? -errno : 0;
}

PRIM int tide_prim_fsync(int fd)
{
	return fsync(fd) != 0 ? -errno : 0;
}

PRIM int tide_prim_allocate(size_t alignment, size_t bytes, void **out)
{
	*out = aligned_alloc(alignment, bytes);
	if (!*out)
		return -ENOMEM;
	memset(*out, 0, bytes);
	return 0;
}

PRIM void tide_prim_sleep(uint64_t ns)
{
	struct timespec left = {(time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S)};

	while (nanosleep(&left, &left) != 0 && errno == EINTR)
		;
}

PRIM int tide_prim_ring_open(unsigned entries, struct io_uring *ring)
{
	return io_uring_queue_init(entries, ring, 0);
}

PRIM void tide_prim_ring_close(struct io_uring *ring)
{
	io_uring_queue_exit(ring);
}

PRIM int tide_prim_ring_submit(struct io_uring *ring)
{
	return io_uring_submit(ring);
}

PRIM int tide_prim_ring_wait(struct io_uring *ring, struct io_uring_cqe **cqe)
{
	return io_uring_wait_cqe(ring, cqe);
}
