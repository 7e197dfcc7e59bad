/* SPDX-License-Identifier: PostgreSQL */
/*
 * raw_write - plain pwrite of blocks in block order, timed.
 *
 *   raw_write FOLDER BLOCKS STRIDE SEGMENT_BLOCKS
 *
 * Writes BLOCKS blocks of 8 kB, every STRIDE-th of a relation that lies in FOLDER as the files
 * 0, 1, 2 ... of SEGMENT_BLOCKS blocks each, and prints the microseconds. The files exist and are
 * in the page cache, as those of a table that has just been read. Not synced: neither is what a
 * shrink writes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

int main(int argc, char **argv)
{
	static char block[BLOCK];
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
	memset(block, 'x', sizeof(block));

	start = now_us();
	for (uint64_t i = 0; i < blocks; i++) {
		uint64_t at = i * stride;

		if (at / segment_blocks >= n_segments)
			break;
		if (pwrite(fds[at / segment_blocks], block, BLOCK,
			   (off_t)(at % segment_blocks * BLOCK)) != BLOCK)
			fail("cannot write");
	}
	printf("%llu\n", (unsigned long long)(now_us() - start));
	return 0;
}
