/* SPDX-License-Identifier: PostgreSQL */
/*
 * shortage.c
 *	  For tests only, preloaded into a server: memory that cannot be had.
 *
 * The file $TIDE_SHORTAGE holds "ROUND N ERRNO": from the N-th call of this
 * process in this round on, committing memory fails with ERRNO, after half of
 * the pages were committed, as the kernel does it.  An empty or missing file
 * means that there is memory.  A new ROUND counts from the beginning.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGE (2ul << 20)

static int
shortage(void)
{
	static int	seen_round;
	static int	calls;
	const char *path = getenv("TIDE_SHORTAGE");
	FILE	   *file = path ? fopen(path, "re") : NULL;
	int			round,
				first,
				error = 0;

	if (file == NULL)
		return 0;
	if (fscanf(file, "%d %d %d", &round, &first, &error) == 3)
	{
		calls = round == seen_round ? calls + 1 : 1;
		seen_round = round;
		if (calls < first)
			error = 0;
	}
	fclose(file);
	return error;
}

/* Whole huge pages of the first half. */
static size_t
half(size_t length)
{
	return length / 2 / PAGE * PAGE;
}

int
madvise(void *address, size_t length, int advice)
{
	int			(*next) (void *, size_t, int) = dlsym(RTLD_NEXT, "madvise");
	int			error = advice == MADV_POPULATE_WRITE ? shortage() : 0;

	if (error == 0)
		return next(address, length, advice);
	if (half(length) > 0)
		(void) next(address, half(length), advice);
	errno = error;
	return -1;
}

int
fallocate(int fd, int mode, off_t offset, off_t length)
{
	int			(*next) (int, int, off_t, off_t) = dlsym(RTLD_NEXT, "fallocate");
	int			error = mode & FALLOC_FL_PUNCH_HOLE ? 0 : shortage();

	if (error == 0)
		return next(fd, mode, offset, length);
	if (half((size_t) length) > 0)
		(void) next(fd, mode, offset, (off_t) half((size_t) length));
	errno = error;
	return -1;
}
