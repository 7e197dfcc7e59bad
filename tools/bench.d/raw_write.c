/* SPDX-License-Identifier: PostgreSQL */
/*
 * raw_write - plain pwrite of blocks in block order, timed.
 *
 *   raw_write FOLDER BLOCKS STRIDE SEGMENT_BLOCKS
 *
 * Writes BLOCKS blocks of 8 kB, every STRIDE-th of a relation that lies in FOLDER as the files
 * 0, 1, 2 ... of SEGMENT_BLOCKS blocks each, and prints the microseconds. The files exist and are
 * in the page cache, as those of a table that has just been read. Each block is written from memory
 * of its own, as pages of a pool are. Not synced: neither is what a shrink writes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 8192
#define SEGMENTS_MAX 64

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void fail(const char *what)
{
	fprintf(stderr, "raw_write: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* Opens the files in order; returns how many there are. */
static unsigned open_segments(const char *folder, int *fds)
{
	unsigned n = 0;

	for (; n < SEGMENTS_MAX; n++) {
		char path[4096];

		snprintf(path, sizeof(path), "%s/%u", folder, n);
		fds[n] = open(path, O_RDWR);
		if (fds[n] < 0)
			break;
	}
	if (n == 0)
		fail(folder);
	return n;
}

static char *make_blocks(uint64_t blocks)
{
	uint64_t bytes = (blocks + 1) * BLOCK;
	char *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		fail("cannot map");
	(void)madvise(memory, bytes, MADV_HUGEPAGE);
	memset(memory, 'x', bytes);
	return memory;
}

int main(int argc, char **argv)
{
	const char *memory;
	int fds[SEGMENTS_MAX];
	uint64_t blocks, stride, segment_blocks, start;
	unsigned n_segments;

	if (argc != 5) {
		fprintf(stderr, "usage: raw_write FOLDER BLOCKS STRIDE SEGMENT_BLOCKS\n");
		return 2;
	}
	blocks = strtoull(argv[2], NULL, 10);
	stride = strtoull(argv[3], NULL, 10);
	segment_blocks = strtoull(argv[4], NULL, 10);
	if (stride == 0 || segment_blocks == 0) {
		fprintf(stderr, "raw_write: a stride and a segment have at least one block\n");
		return 2;
	}
	n_segments = open_segments(argv[1], fds);
	memory = make_blocks(blocks);

	start = now_us();
	for (uint64_t i = 0; i < blocks; i++) {
		uint64_t at = i * stride;

		if (at / segment_blocks >= n_segments) {
			fprintf(stderr, "raw_write: the files have fewer blocks\n");
			return 1;
		}
		if (pwrite(fds[at / segment_blocks], memory + i * BLOCK, BLOCK,
			   (off_t)(at % segment_blocks * BLOCK)) != BLOCK)
			fail("cannot write");
	}
	printf("%llu\n", (unsigned long long)(now_us() - start));
	return 0;
}
