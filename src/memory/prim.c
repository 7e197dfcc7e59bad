/* SPDX-License-Identifier: PostgreSQL */
/* prim.c - every system call of the memory layer, behind one thin layer. */
#include "memory/prim.h"

#include <errno.h>
#include <fcntl.h>
#include <numaif.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define PRIM __attribute__((weak))

/* A helper only loops over system calls; the default of 8 MiB would count against RLIMIT_AS. */
#define THREAD_STACK_BYTES (256u << 10)

PRIM int tide_prim_memfd(const char *name, unsigned flags, int *fd)
{
	*fd = memfd_create(name, flags);
	return *fd < 0 ? -errno : 0;
}

PRIM int tide_prim_dup(int fd, int *copy)
{
	*copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return *copy < 0 ? -errno : 0;
}

PRIM void tide_prim_close(int fd)
{
	close(fd);
}

PRIM int tide_prim_stat(int fd, struct stat *out)
{
	return fstat(fd, out) != 0 ? -errno : 0;
}

PRIM int tide_prim_statfs(int fd, struct statfs *out)
{
	return fstatfs(fd, out) != 0 ? -errno : 0;
}

PRIM int tide_prim_truncate(int fd, uint64_t bytes)
{
	return ftruncate(fd, (off_t)bytes) != 0 ? -errno : 0;
}

PRIM int tide_prim_map(void *address, uint64_t bytes, int protection, int flags, int fd, void **out)
{
	*out = mmap(address, bytes, protection, flags, fd, 0);
	return *out == MAP_FAILED ? -errno : 0;
}

PRIM int tide_prim_unmap(void *address, uint64_t bytes)
{
	return munmap(address, bytes) != 0 ? -errno : 0;
}

PRIM int tide_prim_advise(void *address, uint64_t bytes, int advice)
{
	return madvise(address, bytes, advice) != 0 ? -errno : 0;
}

PRIM int tide_prim_fallocate(int fd, int mode, uint64_t offset, uint64_t bytes)
{
	return fallocate(fd, mode, (off_t)offset, (off_t)bytes) != 0 ? -errno : 0;
}

PRIM int tide_prim_bind(void *address, uint64_t bytes, int mode, const unsigned long *mask,
			unsigned long mask_bits)
{
	return mbind(address, bytes, mode, mask, mask_bits, 0) != 0 ? -errno : 0;
}

/* The policy of the calling thread. */
PRIM int tide_prim_get_policy(int *mode, unsigned long *mask, unsigned long mask_bits)
{
	return get_mempolicy(mode, mask, mask_bits, NULL, 0) != 0 ? -errno : 0;
}

PRIM int tide_prim_set_policy(int mode, const unsigned long *mask, unsigned long mask_bits)
{
	return set_mempolicy(mode, mask, mask_bits) != 0 ? -errno : 0;
}

PRIM int tide_prim_address_limit(uint64_t *bytes)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_AS, &limit) != 0)
		return -errno;
	*bytes = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
	return 0;
}

/* The new thread inherits the mask: every signal stays with the threads of the host. */
PRIM int tide_prim_thread(pthread_t *out, void *(*run)(void *), void *argument)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	int error;

	error = pthread_attr_init(&attributes);
	if (error)
		return -error;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_attr_setstacksize(&attributes, THREAD_STACK_BYTES);
	if (!error)
		error = pthread_create(out, &attributes, run, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return -error;
}

PRIM int tide_prim_read(const char *path, char *text, size_t size)
{
	size_t used = 0;
	ssize_t got = 1;
	int error = 0;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while (got > 0 && used < size - 1) {
		got = read(fd, text + used, size - 1 - used);
		if (got > 0)
			used += (size_t)got;
		else if (got < 0 && errno == EINTR)
			got = 1;
		else if (got < 0)
			error = errno;
	}
	text[used] = '\0';
	close(fd);
	return -error;
}
