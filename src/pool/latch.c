/* SPDX-License-Identifier: PostgreSQL */
/* latch.c - fixing a buffer that was found, letting go of it, and waiting for its owner. */
#include "pool/latch.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "pool/pause.h"

#define SPINS 100
#define ROUNDS_SPINNING 4u
#define ROUNDS_YIELDING 8u
#define SLEEP_NS 2000000L /* a section must not last longer: memory waits for it */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "the lower half of the state comes first");

static uint32_t *futex_word(struct descriptor *d)
{
	return (uint32_t *)(void *)&d->state;
}

static void futex_wait(struct descriptor *d, uint64_t state)
{
	const struct timespec limit = {.tv_nsec = SLEEP_NS};

	(void)syscall(SYS_futex, futex_word(d), FUTEX_WAIT, (uint32_t)state, &limit, NULL, 0);
}

static void futex_wake(struct descriptor *d)
{
	(void)syscall(SYS_futex, futex_word(d), FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static inline void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#else
	atomic_signal_fence(memory_order_seq_cst);
#endif
}

uint64_t latch_release(struct tide_pool *pool, uint32_t b, uint64_t set, uint64_t clear)
{
	struct descriptor *d = &pool->descriptors[b];
	uint64_t state = descriptor_state(d);
	uint64_t wanted;

	do {
		wanted = (state & ~(clear | STATE_OWNER | STATE_WAIT)) | set;
	} while (!descriptor_swap(d, &state, wanted));
	if (state & STATE_WAIT)
		futex_wake(d);
	return wanted;
}

void latch_wait(struct tide_session *session, uint32_t b, uint64_t state, unsigned round)
{
	struct descriptor *d = &session->pool->descriptors[b];
	const uint64_t owner = state & STATE_OWNER;

	for (int i = 0; i < SPINS; i++) {
		if ((descriptor_state(d) & STATE_OWNER) != owner)
			return;
		relax();
	}
	if (round < ROUNDS_SPINNING)
		return;
	if (round < ROUNDS_YIELDING) {
		sched_yield();
		return;
	}
	state = descriptor_state(d);
	if ((state & STATE_OWNER) != owner || owner == 0)
		return;
	if (!(state & STATE_WAIT) && !descriptor_swap(d, &state, state | STATE_WAIT))
		return;
	futex_wait(d, state | STATE_WAIT);
}

int latch_owner_died(struct tide_session *session, uint64_t state)
{
	const uint32_t owner = state_owner(state);

	if (owner == 0 || owner == session->me || tide_grace_alive(session->pool->grace, owner - 1))
		return 0;
	return session_reap(session) > 0;
}

/*
 * (H) pairs with (G): we became owner, then we look; the reader showed its entry, then looks.
 *
 * A session that reads already may take the page again, into an entry that we have passed, and let go of
 * the one that we have not reached. It counts that first: look again when the count has moved.
 */
static int reads(const struct slot *slot, uint64_t wanted)
{
	const uint32_t used = atomic_load_explicit(&slot->used, memory_order_acquire);
	uint32_t moves = atomic_load_explicit(&slot->moves, memory_order_seq_cst), before;

	do {
		before = moves;
		for (uint32_t k = 0; k < used; k++) {
			if (atomic_load_explicit(&slot->entry[k], memory_order_seq_cst) == wanted)
				return 1;
			pool_pause(POOL_PAUSE_PASSED);
		}
		moves = atomic_load_explicit(&slot->moves, memory_order_seq_cst);
	} while (moves != before);
	return 0;
}

static int find_reader(struct tide_session *session, uint32_t b, uint32_t *index)
{
	const struct tide_pool *pool = session->pool;
	const uint64_t wanted = entry_make(b, TIDE_FIX_READ);
	uint32_t n_slots;

	(void)tide_grace_slots(pool->grace, &n_slots);
	for (*index = 0; *index < n_slots; ++*index)
		if (reads(&pool->slots[*index], wanted))
			return 1;
	return 0;
}

void latch_wait_readers(struct tide_session *session, uint32_t b)
{
	struct tide_pool *pool = session->pool;
	const struct timespec nap = {.tv_nsec = 50000};
	uint32_t index;

	for (unsigned round = 0; find_reader(session, b, &index); round++) {
		if (round < 50)
			relax();
		else if (round < 60)
			sched_yield();
		else
			nanosleep(&nap, NULL);
		if (round >= 80 && round % 40 == 0 && !tide_grace_alive(pool->grace, index))
			(void)session_reap(session);
	}
	atomic_fetch_and_explicit(&pool->descriptors[b].state, ~STATE_BIAS, memory_order_seq_cst);
}

enum latch_outcome latch_refuse(const struct tide_session *session, uint64_t state)
{
	if (state & STATE_TORN)
		return state_owner(state) ? LATCH_BUSY : LATCH_TORN;
	if (state_owner(state) == session->me)
		return LATCH_OWN;
	return state_owner(state) ? LATCH_BUSY : LATCH_MOVED;
}

int latch_own_read_keeps(const struct tide_session *session, uint32_t b, uint64_t state)
{
	return (state & (STATE_VALID | STATE_X)) == (STATE_VALID | STATE_X) &&
	       state_owner(state) != session->me &&
	       session_has_fix(session, b) == 1 + TIDE_FIX_READ;
}

static enum latch_outcome take_read(struct tide_session *session, uint32_t b,
				    const struct tide_page_id *id, uint32_t at, uint64_t *state)
{
	struct descriptor *d = &session->pool->descriptors[b];

	*state = descriptor_state(d);
	for (;;) {
		if (latch_own_read_keeps(session, b, *state) && descriptor_holds(d, id)) {
			atomic_fetch_add_explicit(&session->slot->moves, 1, memory_order_seq_cst);
			session_show(session, at, entry_make(b, TIDE_FIX_READ));
			return LATCH_TAKEN;
		}
		if (!state_is_open(*state))
			return latch_refuse(session, *state);
		if (!descriptor_holds(d, id))
			return LATCH_MOVED;
		if (!(*state & STATE_BIAS) && !descriptor_swap(d, state, *state | STATE_BIAS))
			continue;
		session_show(session, at, entry_make(b, TIDE_FIX_READ));
		*state = descriptor_state(d);
		if (state_is_open(*state) && (*state & STATE_BIAS) && descriptor_holds(d, id))
			return LATCH_TAKEN;
		session_forget(session, at);
	}
}

static enum latch_outcome take_write(struct tide_session *session, uint32_t b,
				     const struct tide_page_id *id, uint32_t at, uint64_t *state)
{
	struct descriptor *d = &session->pool->descriptors[b];
	enum latch_outcome outcome;

	if (session_has_fix(session, b) > 1 + TIDE_FIX_PIN)
		return LATCH_OWN;
	session_note(session, at, entry_make(b, TIDE_FIX_WRITE));
	*state = descriptor_state(d);
	for (;;) {
		if (!state_is_open(*state) || !descriptor_holds(d, id)) {
			outcome =
				state_is_open(*state) ? LATCH_MOVED : latch_refuse(session, *state);
			session_forget(session, at);
			return outcome;
		}
		if (!descriptor_swap(d, state, *state | STATE_X | session->me))
			continue;
		/* It is ours now, whatever it holds: it may have changed hands since we compared. */
		if (descriptor_holds(d, id))
			break;
		*state = latch_release(session->pool, b, 0, STATE_X);
	}
	pool_pause(POOL_PAUSE_LATCHED);
	session_see_all(session);
	return LATCH_TAKEN;
}

enum latch_outcome latch_take(struct tide_session *session, uint32_t b,
			      const struct tide_page_id *id, enum tide_fix_mode mode, uint32_t at,
			      uint64_t *state)
{
	if (mode == TIDE_FIX_PIN)
		return latch_pin(session, b, id, at, state);
	if (mode == TIDE_FIX_READ)
		return take_read(session, b, id, at, state);
	return take_write(session, b, id, at, state);
}
