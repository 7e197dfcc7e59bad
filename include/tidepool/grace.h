/* SPDX-License-Identifier: PostgreSQL */
/*
 * tidepool/grace.h - grace periods: when may memory go that a reader could still look at?
 *
 * A reader encloses what it does in a read section. Whoever removed something asks for a grace
 * period and waits, or polls, until every section that was running at that moment has ended.
 *
 * Two kinds behind the same calls:
 *  - TIDE_GRACE_SHARED: participants are threads of any number of processes that share a table in
 *    shared memory, one cache line each. A participant that died is recognised by thread id and start
 *    time and never holds a grace period up.
 *  - TIDE_GRACE_THREADS: threads of one process, by liburcu (urcu-memb).
 *
 * Caveats:
 *  - A struct tide_reader belongs to the thread that registered it. After fork() the child registers
 *    its own; calling tide_reader_unregister() there on one that was inherited only forgets it.
 *  - A thread that ends without unregistering, inside a section or not, counts as dead: its slot is
 *    taken back by tide_grace_reap().
 *  - Sections nest. Nothing in a section may wait for a grace period: that deadlocks.
 *  - All participants of a shared table live in one PID namespace; another one is refused.
 *  - A TIDE_GRACE_THREADS handle does not survive fork(): the child closes it and opens its own. A
 *    TIDE_GRACE_SHARED one works on in the child; calls that the parent deferred stay the parent's.
 *  - exec() keeps process, thread and start time: unregister before, or the new program counts as the
 *    participant.
 *  - A process that may not call membarrier(2) while somebody relies on it is refused by
 *    tide_grace_open(); taken away later, tide_grace_barrier() cannot return. Open after the sandbox is
 *    set up.
 *  - A thread that is registered with liburcu's memb flavour itself must not register a
 *    TIDE_GRACE_THREADS reader.
 *  - Functions are thread-safe unless they say otherwise. Nothing prints, exits or aborts.
 */
#ifndef TIDEPOOL_GRACE_H
#define TIDEPOOL_GRACE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <tidepool/reason.h>

#ifdef __cplusplus
extern "C" {
#endif

enum tide_grace_kind {
	TIDE_GRACE_SHARED,
	TIDE_GRACE_THREADS,
};

/*
 * One participant: one cache line.
 * @epoch:      0 = in no section; otherwise the epoch seen when the section was entered
 * @owner:      process id in the upper, thread id in the lower 32 bits; 0 = free
 * @start_time: of the thread, in clock ticks since boot (/proc/<tid>/stat, field 22)
 * @fenced:     1 = the participant orders its own stores; 0 = tide_grace_barrier() does it
 */
struct tide_grace_slot {
	_Atomic uint64_t epoch;
	_Atomic uint64_t owner;
	_Atomic uint64_t start_time;
	_Atomic uint32_t fenced;
	uint32_t unused[9];
};

/* In shared memory; its layout is private but for its size and alignment (64). */
struct tide_grace_table;

struct tide_grace; /* a process's handle */

/**
 * struct tide_reader - a participant, as its thread sees it
 *
 * Plain memory of the caller; no member is for the caller to touch.
 */
struct tide_reader {
	struct tide_grace_slot *slot;
	const _Atomic uint64_t *now; /* epoch of the domain */
	struct tide_grace *grace;
	uint32_t depth;
	uint32_t index;
	uint32_t mode; /* enum tide_reader_mode */
	uint32_t process_id;
};

enum tide_reader_mode {
	TIDE_READER_PLAIN,  /* plain stores; membarrier(2) on the waiter's side */
	TIDE_READER_FENCED, /* exchanges, where membarrier(2) cannot be had */
	TIDE_READER_LIBURCU,
};

/** tide_grace_table_bytes() - memory needed for a table of @max_readers; a multiple of 64 */
TIDE_PUBLIC size_t tide_grace_table_bytes(uint32_t max_readers);

/**
 * tide_grace_table_init() - lay out a table in zeroed shared memory, before anybody else can see it
 *
 * Return: 0 or TIDE_BAD_REQUEST (0 or more than 2^20 readers), TIDE_SYSTEM_ERROR.
 */
TIDE_PUBLIC TIDE_CHECKED int tide_grace_table_init(struct tide_grace_table *table,
						   uint32_t max_readers, struct tide_reason *why);

/**
 * tide_grace_open() - a handle of this process
 *
 * @table: the shared table, valid as long as the handle; NULL with TIDE_GRACE_THREADS
 *
 * Return: 0 and *out; TIDE_BAD_REQUEST (no valid table, another PID namespace),
 * TIDE_NOT_ENOUGH_MEMORY, TIDE_SYSTEM_ERROR.
 */
TIDE_PUBLIC TIDE_CHECKED int tide_grace_open(enum tide_grace_kind kind,
					     struct tide_grace_table *table,
					     struct tide_grace **out, struct tide_reason *why);

/**
 * tide_grace_close() - free the handle; every reader of this process is unregistered before
 *
 * Deferred calls that wait are carried out after their grace periods: may block for as long.
 */
TIDE_PUBLIC void tide_grace_close(struct tide_grace *grace);

/**
 * tide_reader_register() - make the calling thread a participant
 *
 * Return: 0; TIDE_LIMIT_REACHED (every slot is taken, also after dead participants' slots that were
 * reaped), TIDE_SYSTEM_ERROR. Blocks on the table's registration lock.
 */
TIDE_PUBLIC TIDE_CHECKED int tide_reader_register(struct tide_grace *grace, struct tide_reader *out,
						  struct tide_reason *why);

/** tide_reader_unregister() - the opposite, by the same thread, outside any section */
TIDE_PUBLIC void tide_reader_unregister(struct tide_reader *reader);

/** The two halves of a section for liburcu; not to be called directly. */
TIDE_PUBLIC void tide_reader_enter_liburcu(void);
TIDE_PUBLIC void tide_reader_leave_liburcu(void);

/**
 * tide_reader_enter() - begin a read section; never blocks
 *
 * (A) pairs with (B), the barrier that tide_grace_start() and tide_grace_poll() issue: either they
 * see the section, or what the section reads comes after what was removed before they were called.
 */
static inline void tide_reader_enter(struct tide_reader *reader)
{
	uint64_t now;

	if (reader->depth++ != 0)
		return;
	if (__builtin_expect(reader->mode == TIDE_READER_PLAIN, 1)) {
		now = atomic_load_explicit(reader->now, memory_order_acquire);
		atomic_store_explicit(&reader->slot->epoch, now, memory_order_relaxed);
		atomic_signal_fence(memory_order_seq_cst);
	} else if (reader->mode == TIDE_READER_FENCED) {
		now = atomic_load_explicit(reader->now, memory_order_acquire);
		(void)atomic_exchange_explicit(&reader->slot->epoch, now, memory_order_seq_cst);
	} else {
		tide_reader_enter_liburcu();
	}
}

/** tide_reader_leave() - end a read section */
static inline void tide_reader_leave(struct tide_reader *reader)
{
	if (--reader->depth != 0)
		return;
	if (__builtin_expect(reader->mode != TIDE_READER_LIBURCU, 1))
		atomic_store_explicit(&reader->slot->epoch, 0, memory_order_release);
	else
		tide_reader_leave_liburcu();
}

/** tide_reader_index() - number of the slot, below max_readers; 0 with TIDE_GRACE_THREADS */
static inline uint32_t tide_reader_index(const struct tide_reader *reader)
{
	return reader->index;
}

/**
 * tide_grace_barrier() - the heavy half of an asymmetric fence
 *
 * On return every store that a participant made before this call is visible here, and everything a
 * participant reads from now on sees what the caller stored before. A participant whose mode is
 * TIDE_READER_FENCED orders its own stores. May be called inside a section. Microseconds.
 */
TIDE_PUBLIC void tide_grace_barrier(struct tide_grace *grace);

/**
 * tide_grace_start() - begin a grace period; never blocks
 *
 * Return: a ticket for tide_grace_poll(), valid in this process (TIDE_GRACE_SHARED: in any).
 */
TIDE_PUBLIC uint64_t tide_grace_start(struct tide_grace *grace);

/**
 * tide_grace_poll() - has every section that ran when @ticket was given ended? Never blocks.
 *
 * A participant that is found dead does not count. Return: 1 = passed, 0 = not yet.
 */
TIDE_PUBLIC int tide_grace_poll(struct tide_grace *grace, uint64_t ticket);

/**
 * tide_grace_wait() - start and poll until passed, at most @limit_ns (0 = no limit); not in a section
 *
 * Return: 0, or TIDE_PINNED_BUFFERS with the process in the way named in @why.
 */
TIDE_PUBLIC TIDE_CHECKED int tide_grace_wait(struct tide_grace *grace, uint64_t limit_ns,
					     struct tide_reason *why);

/* Who holds a grace period up. */
struct tide_grace_blocker {
	uint32_t index;
	uint32_t process_id, thread_id;
	uint64_t blocked_ns; /* since a poll of this process found it in the way first */
};

/**
 * tide_grace_blockers() - who is in the way of @ticket; fills at most @n
 *
 * Return: how many there are, which may be more than @n. Always 0 with TIDE_GRACE_THREADS.
 */
TIDE_PUBLIC uint32_t tide_grace_blockers(struct tide_grace *grace, uint64_t ticket,
					 struct tide_grace_blocker *out, uint32_t n);

#define TIDE_GRACE_DEFERRED_MAX 1024u /* waiting calls of one handle */

/**
 * tide_grace_defer() - call @function(@argument) after a grace period, in this process
 *
 * It is called by some later tide_grace_defer(), tide_grace_run() or tide_grace_close(), in the thread
 * that called that, outside every lock.
 *
 * Return: 0, or TIDE_LIMIT_REACHED when TIDE_GRACE_DEFERRED_MAX calls wait.
 */
TIDE_PUBLIC TIDE_CHECKED int tide_grace_defer(struct tide_grace *grace,
					      void (*function)(void *argument), void *argument,
					      struct tide_reason *why);

/** tide_grace_run() - carry out deferred calls whose grace period has passed; returns those left */
TIDE_PUBLIC uint32_t tide_grace_run(struct tide_grace *grace);

/**
 * tide_grace_reap() - take back the slots of participants that died
 *
 * @dead: called for each, with its index, before the slot is free again, so that the caller can take
 *        back whatever else the participant held. May be called again for the same participant when
 *        the reaper dies itself, so it must be repeatable. Called under the registration lock, which
 *        ranks above every lock of the caller: nobody calls reap or register while holding one.
 *        NULL = nothing to do.
 *
 * Return: how many were taken back. Always 0 with TIDE_GRACE_THREADS.
 */
TIDE_PUBLIC uint32_t tide_grace_reap(struct tide_grace *grace,
				     void (*dead)(void *context, uint32_t index), void *context);

/** tide_grace_alive() - 1 when slot @index is taken by a participant that lives; reads /proc */
TIDE_PUBLIC int tide_grace_alive(struct tide_grace *grace, uint32_t index);

/**
 * tide_grace_slots() - the slots, for scanning; *n = one more than the highest index ever taken
 *
 * NULL and 0 with TIDE_GRACE_THREADS.
 */
TIDE_PUBLIC const struct tide_grace_slot *tide_grace_slots(struct tide_grace *grace, uint32_t *n);

#ifdef __cplusplus
}
#endif

#endif /* TIDEPOOL_GRACE_H */
