/* SPDX-License-Identifier: PostgreSQL */
/* load.c - bringing a page into the pool. */
#include "pool/load.h"

#include "pool/buffer.h"
#include "pool/latch.h"
#include "pool/pause.h"

int load_begin(struct tide_session *session, const struct tide_page_id *id, uint64_t hash,
	       struct load *load, struct tide_reason *why)
{
	struct tide_pool *pool = session->pool;
	struct shared *shared = pool->shared;
	uint32_t existing;
	int code;

	*load = (struct load){.id = *id, .hash = hash};
	/* The ghost first: it decides whose place the page takes. */
	load->stamp = atomic_fetch_add_explicit(&shared->stamp, 1, memory_order_relaxed) + 1;
	load->ghost = ghost_take(
		&pool->ghosts, hash, load->stamp,
		replace_reach(atomic_load_explicit(&shared->n_usable, memory_order_relaxed)));
	code = buffer_take(session, load->ghost, &load->buffer, &load->place, why);
	if (code != TIDE_OK)
		return code;
	descriptor_set_id(&pool->descriptors[load->buffer], id);
	code = tide_lookup_insert(pool->lookup, hash, load->buffer, &existing, why);
	if (code == TIDE_OK && existing == TIDE_LOOKUP_NONE) {
		pool_pause(POOL_PAUSE_ENTERED);
		return 1;
	}
	buffer_give(session, load->buffer, load->place);
	return code;
}

/* New in its queue; before the page is valid, as a hand may come by at once. */
static void enqueue(struct tide_session *session, const struct load *load)
{
	struct tide_pool *pool = session->pool;
	const struct replace_page page = replace_new(load->ghost, load->stamp);

	descriptor_set_worth(&pool->descriptors[load->buffer], &page);
	if (page.queue == REPLACE_SMALL)
		atomic_fetch_add_explicit(&pool->shared->n_small, 1, memory_order_relaxed);
	if (load->ghost)
		session_count(session, SLOT_GHOST_HIT, 1);
	(void)replace_recent(&session->recent, load->buffer);
}

void load_end(struct tide_session *session, const struct load *load, uint64_t set)
{
	struct tide_pool *pool = session->pool;
	struct descriptor *d = &pool->descriptors[load->buffer];
	uint64_t state;

	pool_pause(POOL_PAUSE_LOADED);
	enqueue(session, load);
	if (set & STATE_X) {
		state = descriptor_state(d);
		while (!descriptor_swap(d, &state, (state & ~STATE_LOAD) | STATE_VALID | set))
			;
	} else {
		latch_release(pool, load->buffer, STATE_VALID | set, STATE_LOAD);
	}
	session_unclaim(session, load->place);
}

void load_fail(struct tide_session *session, const struct load *load)
{
	(void)tide_lookup_remove(session->pool->lookup, load->hash, load->buffer);
	buffer_give(session, load->buffer, load->place);
}
