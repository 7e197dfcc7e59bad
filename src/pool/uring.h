/* SPDX-License-Identifier: PostgreSQL */
/*
 * pool/uring.h - several transfers at once through io_uring.
 *
 * A small set of rings; a thread takes one that is free for a batch and reaps the whole batch
 * before it lets go, so that no completion is ever seen by another thread. What io_uring does not
 * carry out, for whatever reason, is left to the caller: here is speed, pread and pwrite have the
 * last word.
 */
#ifndef POOL_URING_H
#define POOL_URING_H

#include <liburing.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define URING_RINGS 4u
#define URING_BATCH 64u

/* One transfer. @done: out: bytes that were transferred, from the beginning. */
struct uring_transfer {
	void *memory;
	uint64_t offset;
	int fd;
	int write;
	uint32_t bytes;
	uint32_t done;
};

struct uring_ring {
	pthread_mutex_t lock;
	struct io_uring ring; /* under lock */
	int is_open;	      /* under lock */
};

struct uring {
	atomic_uint n_open;
	struct uring_ring rings[URING_RINGS];
};

/** uring_open() - as many rings as the kernel gives, which may be none */
void uring_open(struct uring *uring);

/** uring_close() - nobody uses them; in a child that was forked it lets go of its copies */
void uring_close(struct uring *uring);

/** uring_is_open() - is there any ring? */
int uring_is_open(const struct uring *uring);

/**
 * uring_run() - carry out at most URING_BATCH transfers, as far as it goes
 *
 * Returns when none of them is under way any more; each says in .done how far it came. With every
 * ring busy or closed that is 0 for all, at once.
 */
void uring_run(struct uring *uring, struct uring_transfer *transfers, uint32_t n);

#endif /* POOL_URING_H */
