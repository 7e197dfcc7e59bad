/* SPDX-License-Identifier: PostgreSQL */
/*
 * rcu/grace.c - open and close a domain of grace periods.
 *
 * Processes share a table in shared memory. Threads of one process use liburcu; where that is
 * impossible (see grace_threads.c) they use a table of their own, and nobody notices but by cost.
 *
 * membarrier(2) makes a section cheap, but only if every process that waits can use it. One that
 * cannot (an old kernel, a filter of system calls, ThreadSanitizer, which does not understand it) asks
 * that all participants fence for themselves from then on, and is refused while one lives that does
 * not: nothing could order that one's stores.
 */
#include <errno.h>
#include <inttypes.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "memory/prim.h"
#include "rcu/grace_handle.h"
#include "rcu/grace_threads.h"
#include "rcu/prim.h"

#define PRIVATE_READERS 4096u
#define DRAIN_SLEEP_NS 50000

uint64_t tide_grace_now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int tide_grace_is_left_behind(const struct tide_grace *grace)
{
	return grace->kind == TIDE_GRACE_THREADS && grace->opened_by != (uint32_t)getpid();
}

/* Threads of a child may come here at once; one of them does it. What its parent deferred is not its. */
void tide_grace_adopt(struct tide_grace *grace)
{
	const uint64_t mine = (uint64_t)getpid() << 1;
	uint64_t seen = atomic_load_explicit(&grace->user, memory_order_acquire);

	while (seen != mine) {
		if (seen == (mine | 1)) {
			sched_yield();
			seen = atomic_load_explicit(&grace->user, memory_order_acquire);
		} else if (atomic_compare_exchange_weak_explicit(&grace->user, &seen, mine | 1,
								 memory_order_acquire,
								 memory_order_acquire)) {
			pthread_mutex_init(&grace->sighting_lock, NULL);
			pthread_mutex_init(&grace->deferred.lock, NULL);
			grace->deferred.first = grace->deferred.next;
			/* (G) pairs with the loads above. */
			atomic_store_explicit(&grace->user, mine, memory_order_release);
			return;
		}
	}
}

static int check_arguments(enum tide_grace_kind kind, const struct tide_grace_table *table,
			   struct tide_reason *why)
{
	if (kind == TIDE_GRACE_SHARED)
		return tide_grace_table_check(table, why);
	if (kind != TIDE_GRACE_THREADS)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0, "%d is no kind of grace periods",
				       (int)kind);
	if (table)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "grace periods of threads take no table");
	return TIDE_OK;
}

static int open_private_table(struct tide_grace *grace, struct tide_reason *why)
{
	const size_t bytes = tide_grace_table_bytes(PRIVATE_READERS);
	void *memory;
	int code;
	int rc;

	rc = tide_prim_map(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			   &memory);
	if (rc != 0)
		return tide_reason_set(why, TIDE_NOT_ENOUGH_MEMORY, -rc,
				       "no memory for a table of %u readers", PRIVATE_READERS);
	code = tide_grace_table_init(memory, PRIVATE_READERS, why);
	if (code != TIDE_OK) {
		(void)tide_prim_unmap(memory, bytes);
		return code;
	}
	grace->table = memory;
	return TIDE_OK;
}

static int membarrier_works(void)
{
	return !TIDE_GRACE_TSAN &&
	       tide_rcu_prim_membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0 &&
	       tide_rcu_prim_membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0;
}

/* The lowest slot of a living participant that relies on membarrier; caller holds the lock. */
static uint32_t find_plain_locked(const struct tide_grace_table *table)
{
	const uint32_t n = atomic_load_explicit(&table->high_water, memory_order_acquire);
	struct tide_participant who;

	for (uint32_t i = 0; i < n; i++)
		if (tide_grace_table_owner(table, i, &who) &&
		    atomic_load_explicit(&table->slots[i].fenced, memory_order_relaxed) == 0 &&
		    !tide_participant_is_dead(&who))
			return i;
	return TIDE_GRACE_NO_SLOT;
}

/* Every participant is to fence for itself from now on. */
static int ask_for_fences(struct tide_grace_table *table, struct tide_reason *why)
{
	uint32_t plain;
	int rc;

	rc = tide_grace_table_lock(table);
	if (rc != 0)
		return tide_reason_set(why, TIDE_SYSTEM_ERROR, -rc,
				       "the registration lock of the table of readers is broken");
	plain = find_plain_locked(table);
	if (plain == TIDE_GRACE_NO_SLOT)
		atomic_store_explicit(&table->fenced_only, 1, memory_order_seq_cst);
	tide_grace_table_unlock(table);
	if (plain == TIDE_GRACE_NO_SLOT)
		return TIDE_OK;
	(void)tide_reason_set(why, TIDE_SYSTEM_ERROR, 0,
			      "membarrier(2) is refused to this process, and the reader in slot "
			      "%" PRIu32 " relies on it",
			      plain);
	tide_reason_hint(why, "allow this process membarrier(2), or open the table here before "
			      "other processes register readers");
	return TIDE_SYSTEM_ERROR;
}

static int open_table(struct tide_grace *grace, struct tide_reason *why)
{
	grace->sightings =
		tide_rcu_prim_zalloc(grace->table->n_slots * sizeof(grace->sightings[0]));
	if (!grace->sightings)
		return tide_reason_set(why, TIDE_NOT_ENOUGH_MEMORY, ENOMEM,
				       "no memory to watch %" PRIu32 " readers",
				       grace->table->n_slots);
	grace->membarrier = membarrier_works();
	return grace->membarrier ? TIDE_OK : ask_for_fences(grace->table, why);
}

static int open_liburcu(struct tide_grace *grace, struct tide_reason *why)
{
	int rc = tide_grace_threads_open(&grace->threads);

	grace->membarrier = 1;
	if (rc != 0)
		return tide_reason_set(why, TIDE_SYSTEM_ERROR, -rc,
				       "the thread that waits for grace periods cannot be made");
	return TIDE_OK;
}

static void release(struct tide_grace *grace)
{
	if (grace->kind == TIDE_GRACE_THREADS && grace->table)
		(void)tide_prim_unmap(grace->table, grace->table->bytes);
	free(grace->sightings);
	free(grace);
}

int tide_grace_open(enum tide_grace_kind kind, struct tide_grace_table *table,
		    struct tide_grace **out, struct tide_reason *why)
{
	struct tide_grace *grace;
	int code;

	if (!out)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0, "no place for the handle");
	*out = NULL;
	code = check_arguments(kind, table, why);
	if (code != TIDE_OK)
		return code;
	grace = tide_rcu_prim_zalloc(sizeof(*grace));
	if (!grace)
		return tide_reason_set(why, TIDE_NOT_ENOUGH_MEMORY, ENOMEM,
				       "no memory for a handle of grace periods");
	grace->kind = kind;
	grace->table = table;
	grace->opened_by = (uint32_t)getpid();
	tide_grace_adopt(grace);
	if (kind == TIDE_GRACE_THREADS && tide_grace_threads_usable()) {
		code = open_liburcu(grace, why);
	} else {
		if (kind == TIDE_GRACE_THREADS)
			code = open_private_table(grace, why);
		if (code == TIDE_OK)
			code = open_table(grace, why);
	}
	if (code != TIDE_OK) {
		release(grace);
		return code;
	}
	*out = grace;
	return TIDE_OK;
}

void tide_grace_close(struct tide_grace *grace)
{
	const struct timespec pause = {0, DRAIN_SLEEP_NS};

	if (!grace)
		return;
	while (tide_grace_run(grace) > 0)
		(void)nanosleep(&pause, NULL);
	if (!grace->table && !tide_grace_is_left_behind(grace))
		tide_grace_threads_close(&grace->threads);
	release(grace);
}
