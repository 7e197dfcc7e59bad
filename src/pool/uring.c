/* SPDX-License-Identifier: PostgreSQL */
/* pool/uring.c - several transfers at once through io_uring. */
#include "pool/uring.h"

#include <errno.h>
#include <sched.h>

#include "pool/file_prim.h"

static void ring_open(struct uring *uring, struct uring_ring *ring)
{
	ring->is_open = tide_prim_ring_open(URING_BATCH, &ring->ring) == 0;
	if (ring->is_open)
		atomic_fetch_add_explicit(&uring->n_open, 1, memory_order_relaxed);
}

static void ring_close(struct uring *uring, struct uring_ring *ring)
{
	if (!ring->is_open)
		return;
	ring->is_open = 0;
	atomic_fetch_sub_explicit(&uring->n_open, 1, memory_order_relaxed);
	tide_prim_ring_close(&ring->ring);
}

void uring_open(struct uring *uring)
{
	atomic_init(&uring->n_open, 0);
	for (unsigned i = 0; i < URING_RINGS; i++) {
		pthread_mutex_init(&uring->rings[i].lock, NULL);
		ring_open(uring, &uring->rings[i]);
	}
}

void uring_close(struct uring *uring)
{
	for (unsigned i = 0; i < URING_RINGS; i++)
		ring_close(uring, &uring->rings[i]);
}

int uring_is_open(const struct uring *uring)
{
	return atomic_load_explicit(&uring->n_open, memory_order_relaxed) > 0;
}

/* A ring that is free, locked; NULL when there is none. */
static struct uring_ring *take_ring(struct uring *uring)
{
	for (unsigned i = 0; i < URING_RINGS; i++) {
		struct uring_ring *ring = &uring->rings[i];

		if (pthread_mutex_trylock(&ring->lock) != 0)
			continue;
		if (ring->is_open)
			return ring;
		pthread_mutex_unlock(&ring->lock);
	}
	return NULL;
}

/* The ring is empty and has room for a batch, so an entry can always be had. */
static void prepare(struct io_uring *ring, struct uring_transfer *transfer)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	if (transfer->write)
		io_uring_prep_write(sqe, transfer->fd, transfer->memory, transfer->bytes,
				    transfer->offset);
	else
		io_uring_prep_read(sqe, transfer->fd, transfer->memory, transfer->bytes,
				   transfer->offset);
	io_uring_sqe_set_data(sqe, transfer);
}

/*
 * Give everything to the kernel. It may take a part only; how much it took is read from the ring
 * and not from the return value, which is an error even when some were taken.
 */
static void submit(struct io_uring *ring)
{
	unsigned left = io_uring_sq_ready(ring);

	while (left > 0) {
		int rc = tide_prim_ring_submit(ring);
		unsigned still = io_uring_sq_ready(ring);

		if (rc != -EINTR && still == left)
			return;
		left = still;
	}
}

/*
 * Wait for what the kernel took. There is no deadline: until the kernel says that a transfer has
 * ended it may write to the caller's page, as with a pread that hangs. When waiting itself fails
 * the completions come all the same, so look again until they are there.
 */
static void reap(struct io_uring *ring, unsigned n)
{
	while (n > 0) {
		struct io_uring_cqe *cqe = NULL;
		struct uring_transfer *transfer;

		if (tide_prim_ring_wait(ring, &cqe) != 0) {
			sched_yield();
			continue;
		}
		transfer = io_uring_cqe_get_data(cqe);
		if (cqe->res > 0)
			transfer->done = (uint32_t)cqe->res;
		io_uring_cqe_seen(ring, cqe);
		n--;
	}
}

void uring_run(struct uring *uring, struct uring_transfer *transfers, uint32_t n)
{
	struct uring_ring *taken;
	unsigned left;

	for (uint32_t i = 0; i < n; i++)
		transfers[i].done = 0;
	taken = take_ring(uring);
	if (!taken)
		return;
	for (uint32_t i = 0; i < n; i++)
		prepare(&taken->ring, &transfers[i]);
	submit(&taken->ring);
	left = io_uring_sq_ready(&taken->ring);
	reap(&taken->ring, n - left);
	if (left > 0) {
		/* Entries that stayed behind would go out with the next batch: throw them away. */
		ring_close(uring, taken);
		ring_open(uring, taken);
	}
	pthread_mutex_unlock(&taken->lock);
}
