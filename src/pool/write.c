/* SPDX-License-Identifier: PostgreSQL */
/* write.c - writing dirty pages out. */
#include "pool/write.h"

#include <assert.h>

#include "pool/latch.h"
#include "pool/pause.h"

_Static_assert(SLOT_HOLDS <= TIDE_IO_BATCH, "one transfer takes all holds");

/* Become the writer of a page that we keep others from changing. */
static int become_writer(struct tide_session *session, struct descriptor *d)
{
	const uint64_t me = session->me << STATE_WRITER_SHIFT;
	uint64_t state = descriptor_state(d);

	while ((state & STATE_DIRTY) && state_writer(state) == 0)
		if (descriptor_swap(d, &state, state | me))
			return 1;
	return 0;
}

/* Show our hold, and look whether it holds; inside a read section. */
static int keep_unchanged(struct tide_session *session, uint32_t buffer, uint32_t at)
{
	struct descriptor *d = &session->pool->descriptors[buffer];
	uint64_t state = descriptor_state(d);

	for (;;) {
		if (!(state & STATE_DIRTY) || state_writer(state) != 0)
			return 0;
		if (latch_own_read_keeps(session, buffer, state)) {
			session_show(session, at, entry_make(buffer, TIDE_FIX_READ));
			return 1;
		}
		if (!state_is_open(state))
			return 0;
		if (!(state & STATE_BIAS) && !descriptor_swap(d, &state, state | STATE_BIAS))
			continue;
		session_show(session, at, entry_make(buffer, TIDE_FIX_READ));
		state = descriptor_state(d);
		if (state_is_open(state) && (state & STATE_BIAS))
			return 1;
		session_forget(session, at);
	}
}

/*
 * Hold a dirty page as its only writer: two that wrote it at once, one of them in vain, would leave a
 * page that is clean here and torn there. The entry comes first, so that the reaper finds the writer.
 */
static int hold(struct tide_session *session, uint32_t buffer, uint32_t at)
{
	if (!keep_unchanged(session, buffer, at))
		return 0;
	if (become_writer(session, &session->pool->descriptors[buffer]))
		return 1;
	session_forget(session, at);
	return 0;
}

static int sync_file(struct tide_session *session, uint64_t file, struct tide_reason *why)
{
	const struct tide_storage *storage = &session->pool->storage;

	return storage->ops->sync(storage->self, file, why);
}

/* A page has been written: may it count as clean? */
static int settle(struct tide_session *session, uint64_t file, struct tide_reason *why)
{
	if (unsynced_note(&session->pool->shared->unsynced, file))
		return TIDE_OK;
	return sync_file(session, file, why);
}

/* Hold those that are dirty. Return: how many; @held: which. */
static uint32_t hold_all(struct tide_session *session, const uint32_t *buffers, uint32_t n,
			 struct tide_io *ios, uint32_t *held)
{
	struct tide_pool *pool = session->pool;
	uint32_t n_held = 0;

	tide_reader_enter(&session->reader);
	for (uint32_t i = 0; i < n; i++) {
		if (!pool_chunk_readable(pool, pool_chunk(pool, buffers[i])) ||
		    !hold(session, buffers[i], TIDE_SESSION_FIXES + n_held))
			continue;
		ios[n_held] = (struct tide_io){.id = descriptor_id(&pool->descriptors[buffers[i]]),
					       .page = pool_page(pool, buffers[i]),
					       .write = 1};
		held[n_held++] = i;
	}
	tide_reader_leave(&session->reader);
	return n_held;
}

int write_out(struct tide_session *session, const uint32_t *buffers, uint32_t n,
	      struct written *out, struct tide_reason *why)
{
	struct tide_pool *pool = session->pool;
	const struct tide_storage *storage = &pool->storage;
	struct tide_io ios[SLOT_HOLDS];
	uint32_t held[SLOT_HOLDS];
	uint32_t n_held;
	int code = TIDE_OK;

	assert(n <= SLOT_HOLDS);
	*out = (struct written){0};
	n_held = hold_all(session, buffers, n, ios, held);
	if (n_held > 0)
		code = storage->ops->transfer(storage->self, ios, n_held, why);
	pool_pause(POOL_PAUSE_WRITTEN);
	for (uint32_t k = 0; k < n_held; k++) {
		if (ios[k].code == TIDE_OK)
			ios[k].code = settle(session, ios[k].id.file, why);
		if (code == TIDE_OK)
			code = ios[k].code;
		/* Our hold keeps others from changing it: what is clean now is what was written. */
		atomic_fetch_and_explicit(
			&pool->descriptors[buffers[held[k]]].state,
			~(ios[k].code == TIDE_OK ? STATE_WRITER | STATE_DIRTY : STATE_WRITER),
			memory_order_seq_cst);
		if (ios[k].code == TIDE_OK)
			out->done |= UINT64_C(1) << held[k];
		else
			out->failed |= UINT64_C(1) << held[k];
		session_forget(session, TIDE_SESSION_FIXES + k);
	}
	session_count(session, SLOT_WRITTEN, (uint64_t)__builtin_popcountll(out->done));
	return code;
}

int write_sync(struct tide_session *session, uint64_t file, struct tide_reason *why)
{
	struct unsynced *unsynced = &session->pool->shared->unsynced;
	uint64_t writes;
	uint32_t at = 0;
	int code = TIDE_OK;

	if (file != TIDE_ALL_FILES) {
		writes = unsynced_writes(unsynced, file);
		code = sync_file(session, file, why);
		if (code == TIDE_OK)
			unsynced_done(unsynced, file, writes);
		return code;
	}
	while (unsynced_next(unsynced, &at, &file, &writes)) {
		struct tide_reason other;
		int one = sync_file(session, file, code == TIDE_OK ? why : &other);

		if (one == TIDE_OK)
			unsynced_done(unsynced, file, writes);
		else if (code == TIDE_OK)
			code = one;
	}
	return code;
}
