/* SPDX-License-Identifier: PostgreSQL */
/*
 * eater.c
 *	  For tests only: takes huge pages of 2 MB until none is left, but not more
 *	  than argv[1] MB, gives argv[2] MB of them back, says so in one line, and
 *	  keeps the rest until it is told to end.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>

#define PAGE ((off_t) 2 << 20)

int
main(int argc, char **argv)
{
	off_t		most = argc == 3 ? (off_t) atoll(argv[1]) << 20 : 0;
	off_t		leave = argc == 3 ? (off_t) atoll(argv[2]) << 20 : 0;
	off_t		ate = 0;
	int			fd = memfd_create("eaten", MFD_CLOEXEC | MFD_HUGETLB);

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (fd < 0 || ftruncate(fd, most) != 0)
		return 1;
	while (ate < most && fallocate(fd, 0, ate, PAGE) == 0)
		ate += PAGE;
	if (ate == most || ate < leave ||
		(leave > 0 &&
		 fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, ate - leave, leave) != 0))
	{
		printf("not all of them\n");
		return 1;
	}
	printf("ate %lld MB\n", (long long) ((ate - leave) >> 20));
	fflush(stdout);
	pause();
	return 0;
}
