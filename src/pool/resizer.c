/* SPDX-License-Identifier: PostgreSQL */
/* resizer.c - whoever resizes: the lock, the engine, and what has to be tidied up besides. */
#include "pool/resizer.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pool/arrays.h"
#include "pool/buffer.h"
#include "pool/clock.h"
#include "pool/lock.h"

#define TABLE_STEPS 4096u
#define WAIT_MAX_NS UINT64_C(1000000)
#define TRIM_WAIT_NS UINT64_C(100000)
#define TRIM_LIMIT_NS UINT64_C(20000000)

int resizer_fit_tables(struct tide_resizer *resizer, uint32_t n_buffers, struct tide_reason *why)
{
	struct tide_pool *pool = resizer->session->pool;
	int code;

	do {
		code = tide_lookup_resize(pool->lookup, n_buffers, TABLE_STEPS, why);
	} while (code > 0);
	if (code == TIDE_OK)
		ghost_resize(&pool->ghosts, n_buffers);
	return code;
}

static int repair(struct tide_resizer *resizer, struct tide_reason *why)
{
	struct tide_pool *pool = resizer->session->pool;
	uint32_t repaired;
	int code = TIDE_OK;

	(void)session_reap(resizer->session);
	if (atomic_load_explicit(&pool->shared->unsettled, memory_order_acquire)) {
		code = arrays_settle(pool, why);
		if (code == TIDE_OK)
			code = tide_engine_recover(resizer->engine, &repaired, why);
	}
	if (code == TIDE_OK)
		atomic_store_explicit(&pool->shared->unsettled, 1, memory_order_release);
	return code;
}

static int open_engine(struct tide_resizer *resizer, struct tide_reason *why)
{
	struct tide_pool *pool = resizer->session->pool;
	const struct tide_engine_config config = {
		.table = pool->chunks, .min_bytes = pool->shared->min_bytes, .compact = 1};

	resizer->ticket = calloc(pool->shared->layout.n_chunks, sizeof(*resizer->ticket));
	if (!resizer->ticket)
		return tide_reason_set(why, TIDE_NOT_ENOUGH_MEMORY, ENOMEM,
				       "no memory for a resizer");
	return tide_engine_open(&config, &resizer_ops, resizer, &resizer->engine, why);
}

static void free_resizer(struct tide_resizer *resizer)
{
	if (resizer->engine)
		tide_engine_close(resizer->engine);
	free(resizer->ticket);
	free(resizer);
}

/* Arrays that are larger than the pool needs: a resizer ended before it could give the end back. */
static void resume_trim(struct tide_resizer *resizer)
{
	struct tide_pool *pool = resizer->session->pool;
	const uint32_t n_buffers = arrays_backed(pool);

	if (atomic_load_explicit(&pool->shared->n_arrays, memory_order_relaxed) <= n_buffers ||
	    resizer_fit_tables(resizer, n_buffers, NULL) != TIDE_OK)
		return;
	resizer->trim_ticket = tide_grace_start(pool->grace);
	resizer->trim_to = n_buffers;
}

int tide_resizer_open(struct tide_session *session, struct tide_resizer **out,
		      struct tide_reason *why)
{
	struct tide_resizer *resizer;
	struct shared *shared;
	int code;

	if (!session || !out)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "no session, or no place for the resizer");
	*out = NULL;
	shared = session->pool->shared;
	resizer = calloc(1, sizeof(*resizer));
	if (!resizer)
		return tide_reason_set(why, TIDE_NOT_ENOUGH_MEMORY, ENOMEM,
				       "no memory for a resizer");
	resizer->session = session;
	if (!lock_try(&shared->resize_lock)) {
		free(resizer);
		return tide_reason_set(why, TIDE_OP_IN_PROGRESS, 0,
				       "another session is resizing the pool");
	}
	atomic_store_explicit(&shared->cancel, 0, memory_order_relaxed);
	code = open_engine(resizer, why);
	if (code == TIDE_OK)
		code = repair(resizer, why);
	if (code != TIDE_OK) {
		lock_release(&shared->resize_lock);
		free_resizer(resizer);
		return code;
	}
	*out = resizer;
	return TIDE_OK;
}

struct tide_engine *tide_resizer_engine(struct tide_resizer *resizer)
{
	return resizer->engine;
}

/* Return: 1 while the end of the arrays still waits. */
static int trim(struct tide_resizer *resizer)
{
	struct tide_pool *pool = resizer->session->pool;
	_Atomic uint64_t *shown = &pool->shared->quiesce_ticket;

	if (resizer->trim_ticket == 0)
		return 0;
	if (!tide_grace_poll(pool->grace, resizer->trim_ticket)) {
		atomic_store_explicit(shown, resizer->trim_ticket, memory_order_relaxed);
		return 1;
	}
	resizer->trim_ticket = 0;
	atomic_store_explicit(shown, 0, memory_order_relaxed);
	(void)arrays_trim(pool, resizer->trim_to, NULL);
	return 0;
}

int tide_resizer_step(struct tide_resizer *resizer, uint64_t *wait_ns)
{
	struct shared *shared = resizer->session->pool->shared;
	int running;

	if (atomic_exchange_explicit(&shared->cancel, 0, memory_order_acq_rel))
		tide_engine_cancel(resizer->engine, TIDE_CANCELLED,
				   "somebody asked the resize to stop");
	running = tide_engine_step(resizer->engine, wait_ns);
	if (!running && !resizer->tidy) {
		resizer->tidy = 1;
		resume_trim(resizer);
	}
	if (!trim(resizer))
		return running;
	if (*wait_ns > TRIM_WAIT_NS)
		*wait_ns = TRIM_WAIT_NS;
	return 1;
}

void tide_resizer_close(struct tide_resizer *resizer)
{
	struct shared *shared;
	struct tide_progress progress;

	if (!resizer)
		return;
	shared = resizer->session->pool->shared;
	/* Others would not find what moving pages left free. */
	buffer_drop_hints(resizer->session);
	tide_engine_progress(resizer->engine, &progress);
	/* What an operation that runs leaves half done is the next one's to repair. */
	if (tide_op_state_ended(progress.state))
		atomic_store_explicit(&shared->unsettled, 0, memory_order_release);
	atomic_store_explicit(&shared->quiesce_ticket, 0, memory_order_relaxed);
	lock_release(&shared->resize_lock);
	free_resizer(resizer);
}

static void wait_a_little(uint64_t wait_ns)
{
	struct timespec nap = {0};

	if (wait_ns > WAIT_MAX_NS)
		wait_ns = WAIT_MAX_NS;
	nap.tv_nsec = (long)wait_ns;
	if (wait_ns > 0)
		nanosleep(&nap, NULL);
}

/* To the end of the operation, and a little longer for the rest of the memory. */
static void run(struct tide_resizer *resizer, struct tide_progress *progress)
{
	uint64_t wait_ns, ended_ns = 0;

	while (tide_resizer_step(resizer, &wait_ns)) {
		tide_engine_progress(resizer->engine, progress);
		if (tide_op_state_ended(progress->state)) {
			const uint64_t now_ns = clock_ns();

			if (ended_ns == 0)
				ended_ns = now_ns;
			if (now_ns - ended_ns > TRIM_LIMIT_NS)
				break;
		}
		wait_a_little(wait_ns);
	}
	tide_engine_progress(resizer->engine, progress);
}

int tide_pool_resize(struct tide_session *session, const struct tide_request *request,
		     struct tide_progress *progress, struct tide_reason *why)
{
	struct tide_resizer *resizer;
	int code;

	memset(progress, 0, sizeof(*progress));
	if (session->free_entries != UINT64_MAX)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "this session has pages fixed: the resize could wait for "
				       "them for ever");
	code = tide_resizer_open(session, &resizer, why);
	if (code != TIDE_OK)
		return code;
	assert(resizer);
	code = tide_engine_submit(resizer->engine, request, 0, why);
	if (code == TIDE_OK)
		run(resizer, progress);
	tide_resizer_close(resizer);
	return code;
}

void tide_pool_resize_cancel(struct tide_pool *pool)
{
	atomic_store_explicit(&pool->shared->cancel, 1, memory_order_release);
}
