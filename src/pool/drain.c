/* SPDX-License-Identifier: PostgreSQL */
/* drain.c - emptying a chunk: what is worth it moves, the rest goes, dirty pages after they were written. */
#include "pool/buffer.h"
#include "pool/latch.h"
#include "pool/pause.h"
#include "pool/resizer.h"
#include "pool/write.h"

/* Some buffers of one chunk. */
struct part {
	struct claims claims;
	uint32_t cold[CLAIM_BATCH]; /* dirty, and not worth moving: to be written */
	uint32_t n_cold;
	uint32_t left, pinned, dirty;
	int again; /* what is left may go in the next pass */
};

#define PASSES 8 /* over a part, while it says again */

/* A free buffer of a chunk that goes. */
static int retire_free(struct tide_pool *pool, uint32_t buffer, uint64_t state)
{
	if (!descriptor_swap(&pool->descriptors[buffer], &state,
			     state & ~(STATE_FLAGS | STATE_OWNER)))
		return 0;
	if (!(state & STATE_HINT))
		buffer_uncount_free(pool, buffer);
	return 1;
}

static void busy(struct part *part)
{
	part->left++;
	part->pinned++;
}

static void look(struct tide_resizer *resizer, struct part *part, uint32_t buffer)
{
	struct tide_session *session = resizer->session;
	const uint64_t state = descriptor_state(&session->pool->descriptors[buffer]);

	if (!(state & STATE_USABLE))
		return;
	if (state_is_free(state)
		    ? retire_free(session->pool, buffer, state)
		    : state_owner(state) == 0 && claim_try(session, &part->claims, buffer, state))
		return;
	busy(part);
}

static void give_back(struct tide_resizer *resizer, const struct claims *claims, uint32_t i)
{
	latch_release(resizer->session->pool, claims->buffer[i], 0, STATE_EVICT);
	claim_end(resizer->session, claims, i);
}

static void evict(struct tide_resizer *resizer, struct claims *claims, uint32_t i)
{
	struct tide_session *session = resizer->session;

	claim_forget_page(session, claims->buffer[i], claims->hash[i], 1);
	latch_release(session->pool, claims->buffer[i], 0, STATE_FLAGS);
	claim_end(session, claims, i);
	session_count(session, SLOT_EVICTION, 1);
}

/* A page that nobody has fixed, and that is ours. */
static void decide(struct tide_resizer *resizer, struct part *part, uint32_t i, int may_move,
		   struct drained *out)
{
	const struct claims *claims = &part->claims;
	const struct descriptor *d = &resizer->session->pool->descriptors[claims->buffer[i]];
	const struct replace_page page = descriptor_worth(d);
	const uint64_t state = descriptor_state(d);
	const int worth = (int)replace_worth(&page);
	const int keep = !(state & STATE_TORN) && worth > resizer->cut;
	/* Of pages that are worth as much as those that go, as many stay as find a free buffer. */
	const int may_stay = !(state & STATE_TORN) && worth == resizer->cut && may_move &&
			     resizer->stock.n > resizer->stock.n_cold;

	if ((may_stay || (keep && may_move)) && relocate_page(resizer, &part->claims, i))
		return;
	if (keep && !may_move) {
		give_back(resizer, claims, i);
		busy(part);
	} else if (keep && !resizer->stock.exhausted) {
		give_back(resizer, claims, i);
		part->left++;
		part->again = 1;
	} else if (state & STATE_DIRTY) {
		give_back(resizer, claims, i);
		part->cold[part->n_cold++] = claims->buffer[i];
	} else {
		evict(resizer, &part->claims, i);
		out->work.evicted_pages++;
	}
}

/* Write what may be written; it goes in the next pass. */
static void write_cold(struct tide_resizer *resizer, struct part *part, uint64_t *write_bytes,
		       struct drained *out, struct tide_reason *why)
{
	const uint64_t bytes = resizer->session->pool->page_bytes;
	uint32_t n = part->n_cold;
	struct written written = {0};
	uint64_t n_written;
	int code;

	if (n > *write_bytes / bytes)
		n = (uint32_t)(*write_bytes / bytes);
	if (n > 0) {
		code = write_out(resizer->session, part->cold, n, &written, why);
		if (code != TIDE_OK)
			out->code = code;
	}
	n_written = (uint64_t)__builtin_popcountll(written.done);
	*write_bytes -= n_written * bytes;
	part->left += part->n_cold;
	part->dirty += part->n_cold - (uint32_t)n_written;
	part->again |= n_written > 0;
}

/* Pages that are worth more than the cut. */
static uint32_t count_kept(const struct tide_resizer *resizer, const struct claims *claims)
{
	const struct tide_pool *pool = resizer->session->pool;
	uint32_t n = 0;

	for (uint32_t i = 0; i < claims->n; i++) {
		const struct descriptor *d = &pool->descriptors[claims->buffer[i]];
		const struct replace_page page = descriptor_worth(d);

		n += !(descriptor_state(d) & STATE_TORN) &&
		     (int)replace_worth(&page) > resizer->cut;
	}
	return n;
}

static void drain_part(struct tide_resizer *resizer, struct part *part, uint32_t first, uint32_t n,
		       uint64_t *write_bytes, struct drained *out, struct tide_reason *why)
{
	uint32_t pinned;
	int may_move;

	*part = (struct part){0};
	stock_fill(resizer);
	/* The chunk is on its way out by our own hand: its descriptors stay while we look. */
	for (uint32_t i = 0; i < n; i++)
		look(resizer, part, first + i);
	pinned = claim_settle(resizer->session, &part->claims);
	part->left += pinned;
	part->pinned += pinned;
	may_move = relocate_allowed(resizer);
	if (may_move)
		stock_make(resizer, count_kept(resizer, &part->claims), write_bytes);
	for (uint32_t i = 0; i < part->claims.n; i++)
		decide(resizer, part, i, may_move, out);
	if (part->n_cold > 0)
		write_cold(resizer, part, write_bytes, out, why);
}

void drain_chunk(struct tide_resizer *resizer, uint32_t chunk, uint64_t *write_bytes,
		 struct drained *out, struct tide_reason *why)
{
	const struct tide_pool *pool = resizer->session->pool;
	const uint32_t n = pool->shared->layout.chunk_buffers;
	const uint32_t step = pool_step(pool, CLAIM_BATCH);
	const uint32_t first = chunk << pool->chunk_shift;
	struct part part;

	*out = (struct drained){0};
	for (uint32_t i = 0; i < n; i += step) {
		int pass = 0;

		do {
			drain_part(resizer, &part, first + i, step, write_bytes, out, why);
		} while (part.again && ++pass < PASSES);
		out->report.left += part.left;
		out->report.pinned += part.pinned;
		out->report.dirty += part.dirty;
	}
	if (out->report.left == 0)
		pool_pause(POOL_PAUSE_DRAINED);
}
