/* SPDX-License-Identifier: PostgreSQL */
/*
 * raw_memory - the bare system calls that commit memory and give it back, timed.
 *
 *   raw_memory hugetlb|base populate|fallocate MIB THREADS
 *
 * One memfd, mapped once at a 1 GiB boundary, is committed by THREADS threads on disjoint parts and
 * punched with one call. Prints "COMMIT_US PUNCH_US". The calls are the kernel's, nothing of the
 * library is used: this is what the library is measured against.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MIB (1ull << 20)
#define GIB (1ull << 30)
#define HUGE_PAGE (2 * MIB)
#define THREADS_MAX 64

struct part {
	int fd;
	int populate;
	char *base;
	uint64_t offset;
	uint64_t bytes;
	int error;
	pthread_t thread;
};

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void fail(const char *what, int error)
{
	fprintf(stderr, "raw_memory: %s: %s\n", what, strerror(error));
	exit(1);
}

static void *commit_part(void *argument)
{
	struct part *part = argument;
	int rc;

	do {
		rc = part->populate
			     ? madvise(part->base + part->offset, part->bytes, MADV_POPULATE_WRITE)
			     : fallocate(part->fd, 0, (off_t)part->offset, (off_t)part->bytes);
	} while (rc != 0 && errno == EINTR);
	part->error = rc != 0 ? errno : 0;
	return NULL;
}

/* Address space as the pool has it: aligned so that processes can share page tables. */
static char *map_aligned(int fd, uint64_t bytes)
{
	char *reserve = mmap(NULL, bytes + GIB, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *base;

	if (reserve == MAP_FAILED)
		fail("cannot reserve", errno);
	base = (char *)(((uintptr_t)reserve + GIB - 1) & ~(uintptr_t)(GIB - 1));
	if (mmap(base, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd,
		 0) == MAP_FAILED)
		fail("cannot map", errno);
	return base;
}

static void commit(struct part *parts, unsigned n_parts)
{
	for (unsigned i = 1; i < n_parts; i++) {
		int error = pthread_create(&parts[i].thread, NULL, commit_part, &parts[i]);

		if (error != 0)
			fail("cannot start a thread", error);
	}
	commit_part(&parts[0]);
	for (unsigned i = 1; i < n_parts; i++)
		pthread_join(parts[i].thread, NULL);
	for (unsigned i = 0; i < n_parts; i++)
		if (parts[i].error != 0)
			fail("cannot commit", parts[i].error);
}

static void split(struct part *parts, unsigned n_parts, int fd, int populate, char *base,
		  uint64_t bytes)
{
	uint64_t pages = bytes / HUGE_PAGE;

	for (unsigned i = 0; i < n_parts; i++) {
		uint64_t first = pages * i / n_parts;
		uint64_t end = pages * (i + 1) / n_parts;

		parts[i] = (struct part){.fd = fd, .populate = populate, .base = base};
		parts[i].offset = first * HUGE_PAGE;
		parts[i].bytes = (end - first) * HUGE_PAGE;
	}
}

int main(int argc, char **argv)
{
	struct part parts[THREADS_MAX];
	uint64_t bytes, start, committed, punched;
	unsigned threads;
	int fd;

	if (argc != 5) {
		fprintf(stderr, "usage: raw_memory hugetlb|base populate|fallocate MIB THREADS\n");
		return 2;
	}
	bytes = strtoull(argv[3], NULL, 10) * MIB / HUGE_PAGE * HUGE_PAGE;
	threads = (unsigned)strtoul(argv[4], NULL, 10);
	if (bytes == 0 || threads < 1 || threads > THREADS_MAX) {
		fprintf(stderr, "raw_memory: at least 2 MiB and 1 to %d threads\n", THREADS_MAX);
		return 2;
	}
	fd = memfd_create("raw memory", strcmp(argv[1], "hugetlb") == 0 ? MFD_HUGETLB : 0);
	if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
		fail("cannot make a memfd", errno);
	split(parts, threads, fd, strcmp(argv[2], "populate") == 0, map_aligned(fd, bytes), bytes);

	start = now_us();
	commit(parts, threads);
	committed = now_us();
	if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes) != 0)
		fail("cannot punch", errno);
	punched = now_us();
	printf("%llu %llu\n", (unsigned long long)(committed - start),
	       (unsigned long long)(punched - committed));
	return 0;
}
