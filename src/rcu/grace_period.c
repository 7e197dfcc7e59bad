/* SPDX-License-Identifier: PostgreSQL */
/*
 * rcu/grace_period.c - when has every section that was running ended?
 *
 * A section writes the epoch that it saw into its slot, leaving it writes 0. A ticket is the epoch
 * that tide_grace_start() made; a slot is in the way of ticket T when its epoch is not 0 and below T.
 *
 * Why that is enough. A waiter removes something (R), makes epoch T, orders (B), and looks at the
 * slots. A reader loads the epoch, stores it into its slot (A), and reads. Where does (B) fall?
 *
 *  1. After the reader's store: the waiter sees the slot, with an epoch below T unless the reader saw T
 *     itself, or it sees that the reader has left since.
 *  2. Before the reader's store, even between the load of an old epoch and the store of it after
 *     the waiter has looked: what the reader reads comes after (B), and so after R. It cannot hold
 *     what was removed, and it need not be waited for. Its slot then says less than T although the
 *     period may have been found passed: later polls of T must not take that back, hence @passed;
 *     for later periods it is only waited for where that would not be necessary.
 *  3. The reader saw T: its reads come after its load (of the header; loads are not reordered with
 *     loads on x86), and the load after R, because T was made after R.
 *
 * Leaving is a release store, which a waiter's acquire load of the slot sees: what a section read was
 * read before the waiter goes on. Numbers are 64 bits and do not wrap.
 *
 * (A) is a plain store, and (B) membarrier(2), which interrupts every running thread of all registered
 * processes; or (A) is an exchange, and (B) the waiter's exchange. A table may hold both kinds.
 *
 * Any process may poll any ticket, and an attempt at (B) may fail, so a process remembers up to
 * which epoch it has ordered itself and looks at no slot before.
 *
 * Progress: start and poll take a bounded number of steps; wait sleeps between polls.
 */
#include <inttypes.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <time.h>
#include <urcu/arch.h>

#include "rcu/grace_handle.h"
#include "rcu/grace_threads.h"
#include "rcu/prim.h"

#define SPIN_POLLS 16u
#define YIELD_POLLS 32u
#define SLEEP_MIN_NS 50000u
#define SLEEP_MAX_NS 1000000u

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Make @word at least @value. (H) pairs with the acquire loads of the same word. */
static void raise_to(_Atomic uint64_t *word, uint64_t value)
{
	uint64_t seen = atomic_load_explicit(word, memory_order_relaxed);

	while (seen < value &&
	       !atomic_compare_exchange_weak_explicit(word, &seen, value, memory_order_acq_rel,
						      memory_order_relaxed))
		;
}

int tide_grace_try_barrier(struct tide_grace *grace)
{
	struct tide_grace_table *table = grace->table;

	if (!table)
		return tide_rcu_prim_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
	/* (B) pairs with the exchange (A) of fenced participants, in the header. */
	(void)atomic_exchange_explicit(&table->fence, 1, memory_order_seq_cst);
	if (atomic_load_explicit(&table->fenced_only, memory_order_relaxed))
		return 1;
	/* (B) pairs with the plain store (A). The slow command needs no memory. */
	return tide_rcu_prim_membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0 ||
	       tide_rcu_prim_membarrier(MEMBARRIER_CMD_GLOBAL) == 0;
}

void tide_grace_barrier(struct tide_grace *grace)
{
	const struct timespec pause = {0, SLEEP_MAX_NS};

	/* tide_grace_open() found it allowed: what fails here is short of memory for a moment. */
	while (!tide_grace_try_barrier(grace))
		(void)nanosleep(&pause, NULL);
}

uint64_t tide_grace_start(struct tide_grace *grace)
{
	uint64_t ticket;

	if (tide_grace_is_left_behind(grace))
		return 0;
	if (!grace->table)
		return tide_grace_threads_start(&grace->threads);
	ticket = atomic_fetch_add_explicit(&grace->table->epoch, 1, memory_order_seq_cst) + 1;
	if (tide_grace_try_barrier(grace))
		raise_to(&grace->ordered, ticket);
	return ticket;
}

/* The epoch up to which this process is ordered; below @ticket when it cannot be now. */
static uint64_t order(struct tide_grace *grace, uint64_t ticket)
{
	uint64_t ordered = atomic_load_explicit(&grace->ordered, memory_order_acquire);
	uint64_t now;

	if (ordered >= ticket)
		return ordered;
	now = atomic_load_explicit(&grace->table->epoch, memory_order_acquire);
	if (!tide_grace_try_barrier(grace))
		return ordered;
	raise_to(&grace->ordered, now);
	return now;
}

/*
 * Who is in the way of @ticket? Fills at most @n, returns how many there are, and lowers *oldest to the
 * oldest epoch of a section that counts.
 */
static uint32_t scan(struct tide_grace *grace, uint64_t ticket, struct tide_grace_blocker *out,
		     uint32_t n, uint64_t *oldest)
{
	const struct tide_grace_slot *slots = grace->table->slots;
	const uint32_t end = atomic_load_explicit(&grace->table->high_water, memory_order_acquire);
	struct tide_grace_blocker blocker;
	uint32_t count = 0;

	for (uint32_t i = 0; i < end; i++) {
		uint64_t epoch = atomic_load_explicit(&slots[i].epoch, memory_order_acquire);

		if (epoch == 0 || (epoch < ticket && !tide_grace_sight(grace, i, epoch, &blocker)))
			continue;
		*oldest = least(*oldest, epoch);
		if (epoch >= ticket)
			continue;
		if (count < n)
			out[count] = blocker;
		count++;
	}
	return count;
}

int tide_grace_poll(struct tide_grace *grace, uint64_t ticket)
{
	uint64_t oldest;

	if (tide_grace_is_left_behind(grace))
		return 1;
	if (!grace->table)
		return tide_grace_threads_poll(&grace->threads, ticket);
	if (ticket <= atomic_load_explicit(&grace->passed, memory_order_acquire))
		return 1;
	oldest = order(grace, ticket);
	if (oldest < ticket)
		return 0;
	/* One look answers for all tickets up to the oldest section, as far as we are ordered. */
	if (scan(grace, ticket, NULL, 0, &oldest) > 0)
		return 0;
	raise_to(&grace->passed, oldest);
	return 1;
}

uint32_t tide_grace_blockers(struct tide_grace *grace, uint64_t ticket,
			     struct tide_grace_blocker *out, uint32_t n)
{
	uint64_t oldest = UINT64_MAX;

	if (grace->kind == TIDE_GRACE_THREADS ||
	    ticket <= atomic_load_explicit(&grace->passed, memory_order_acquire))
		return 0;
	return scan(grace, ticket, out, n, &oldest);
}

static int give_up(struct tide_grace *grace, uint64_t ticket, uint64_t limit_ns,
		   struct tide_reason *why)
{
	struct tide_grace_blocker first;
	uint32_t count = tide_grace_blockers(grace, ticket, &first, 1);

	if (count == 0)
		return tide_reason_set(why, TIDE_PINNED_BUFFERS, 0,
				       "a grace period did not pass within %" PRIu64 " ms",
				       limit_ns / 1000000);
	(void)tide_reason_set(why, TIDE_PINNED_BUFFERS, 0,
			      "process %" PRIu32 ", thread %" PRIu32
			      ", has been in a read section for %" PRIu64 " ms at least",
			      first.process_id, first.thread_id, first.blocked_ns / 1000000);
	tide_reason_hint(why,
			 "%" PRIu32 " readers are in the way: let them go on, or end their "
			 "processes",
			 count);
	return TIDE_PINNED_BUFFERS;
}

static void back_off(unsigned polls, uint64_t *sleep_ns, uint64_t left_ns)
{
	if (polls < SPIN_POLLS) {
		/* Most sections are shorter than a change of threads. */
		caa_cpu_relax();
	} else if (polls < YIELD_POLLS) {
		sched_yield();
	} else {
		struct timespec pause = {0, (long)least(*sleep_ns, left_ns)};

		(void)nanosleep(&pause, NULL);
		*sleep_ns = least(2 * *sleep_ns, SLEEP_MAX_NS);
	}
}

int tide_grace_wait(struct tide_grace *grace, uint64_t limit_ns, struct tide_reason *why)
{
	const uint64_t begin_ns = tide_grace_now_ns();
	const uint64_t ticket = tide_grace_start(grace);
	uint64_t sleep_ns = SLEEP_MIN_NS;
	uint64_t left_ns = UINT64_MAX;

	for (unsigned polls = 0; !tide_grace_poll(grace, ticket); polls++) {
		if (limit_ns != 0) {
			uint64_t spent_ns = tide_grace_now_ns() - begin_ns;

			if (spent_ns >= limit_ns)
				return give_up(grace, ticket, limit_ns, why);
			left_ns = limit_ns - spent_ns;
		}
		back_off(polls, &sleep_ns, left_ns);
	}
	return TIDE_OK;
}
