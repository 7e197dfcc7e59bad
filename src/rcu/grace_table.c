/* SPDX-License-Identifier: PostgreSQL */
/* rcu/grace_table.c - the table of participants in shared memory. */
#include "rcu/grace_table.h"

#include <errno.h>
#include <inttypes.h>

#include "rcu/prim.h"

size_t tide_grace_table_bytes(uint32_t max_readers)
{
	return sizeof(struct tide_grace_table) +
	       (size_t)max_readers * sizeof(struct tide_grace_slot);
}

static int bad_namespace(int rc, struct tide_reason *why)
{
	if (rc == -EXDEV)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "/proc shows another PID namespace than this process's");
	return tide_reason_set(why, TIDE_SYSTEM_ERROR, -rc,
			       "the PID namespace of this process cannot be read in /proc");
}

int tide_grace_table_init(struct tide_grace_table *table, uint32_t max_readers,
			  struct tide_reason *why)
{
	int rc;

	if (!table || (uintptr_t)table % TIDE_GRACE_LINE != 0)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "a table of readers needs memory aligned to %d bytes",
				       TIDE_GRACE_LINE);
	if (max_readers == 0 || max_readers > TIDE_GRACE_READERS_MAX)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "%" PRIu32 " readers: a table holds 1 to %u", max_readers,
				       TIDE_GRACE_READERS_MAX);
	rc = tide_participant_namespace(&table->pid_namespace);
	if (rc != 0)
		return bad_namespace(rc, why);
	rc = tide_rcu_prim_mutex(&table->registration);
	if (rc != 0)
		return tide_reason_set(why, TIDE_SYSTEM_ERROR, -rc,
				       "no robust mutex between processes can be had");
	table->version = TIDE_GRACE_VERSION;
	table->bytes = tide_grace_table_bytes(max_readers);
	table->n_slots = max_readers;
	atomic_init(&table->epoch, 1); /* 0 in a slot means no section */
	/* Last, for a process that looks too early: it finds no table. */
	atomic_store_explicit(&table->magic, TIDE_GRACE_MAGIC, memory_order_release);
	return TIDE_OK;
}

int tide_grace_table_check(const struct tide_grace_table *table, struct tide_reason *why)
{
	uint64_t here;
	int rc;

	if (!table || (uintptr_t)table % TIDE_GRACE_LINE != 0)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "no table of readers, or one that is not aligned");
	if (atomic_load_explicit(&table->magic, memory_order_acquire) != TIDE_GRACE_MAGIC ||
	    table->version != TIDE_GRACE_VERSION)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "this memory holds no table of readers of layout version %u",
				       TIDE_GRACE_VERSION);
	if (table->n_slots == 0 || table->n_slots > TIDE_GRACE_READERS_MAX ||
	    table->bytes != tide_grace_table_bytes(table->n_slots))
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "the table of readers says that %" PRIu32
				       " of them take %" PRIu64 " bytes",
				       table->n_slots, table->bytes);
	rc = tide_participant_namespace(&here);
	if (rc != 0)
		return bad_namespace(rc, why);
	if (here != table->pid_namespace)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "the table of readers belongs to PID namespace %" PRIu64
				       ", this process lives in %" PRIu64,
				       table->pid_namespace, here);
	return TIDE_OK;
}

int tide_grace_table_lock(struct tide_grace_table *table)
{
	int error = pthread_mutex_lock(&table->registration);

	if (error == EOWNERDEAD)
		error = pthread_mutex_consistent(&table->registration);
	return -error;
}

void tide_grace_table_unlock(struct tide_grace_table *table)
{
	(void)pthread_mutex_unlock(&table->registration);
}

int tide_grace_table_owner(const struct tide_grace_table *table, uint32_t index,
			   struct tide_participant *out)
{
	const struct tide_grace_slot *slot = &table->slots[index];
	uint64_t owner;

	/* (D) pairs with the store of the owner (E): who sees the owner sees its start time. */
	owner = atomic_load_explicit(&slot->owner, memory_order_acquire);
	out->process_id = (uint32_t)(owner >> 32);
	out->thread_id = (uint32_t)owner;
	out->start_time = atomic_load_explicit(&slot->start_time, memory_order_acquire);
	/* The same owner before and after: the start time is its own. */
	return owner != 0 && atomic_load_explicit(&slot->owner, memory_order_relaxed) == owner;
}

uint32_t tide_grace_table_take_locked(struct tide_grace_table *table,
				      const struct tide_participant *who, int fenced)
{
	struct tide_grace_slot *slot = table->slots;
	uint32_t index = 0;

	/* The lowest one: waiters look at every slot below the highest ever taken. */
	while (index < table->n_slots &&
	       atomic_load_explicit(&slot->owner, memory_order_acquire) != 0) {
		index++;
		slot++;
	}
	if (index == table->n_slots)
		return TIDE_GRACE_NO_SLOT;
	if (index >= atomic_load_explicit(&table->high_water, memory_order_relaxed))
		atomic_store_explicit(&table->high_water, index + 1, memory_order_release);
	atomic_store_explicit(&slot->start_time, who->start_time, memory_order_release);
	atomic_store_explicit(&slot->fenced, fenced ? 1 : 0, memory_order_relaxed);
	/* (E) pairs with (D) */
	atomic_store_explicit(&slot->owner, (uint64_t)who->process_id << 32 | who->thread_id,
			      memory_order_release);
	return index;
}

void tide_grace_slot_free(struct tide_grace_slot *slot)
{
	/*
	 * The start time stays: a reaper that still sees the owner must not see another start time
	 * with it, and take a thread that unregisters for a dead one.
	 */
	atomic_store_explicit(&slot->epoch, 0, memory_order_release);
	/* (E) pairs with (D): who finds the slot free finds it in no section. */
	atomic_store_explicit(&slot->owner, 0, memory_order_release);
}

uint32_t tide_grace_table_reap_locked(struct tide_grace_table *table,
				      void (*dead)(void *context, uint32_t index), void *context)
{
	uint32_t n = atomic_load_explicit(&table->high_water, memory_order_acquire);
	struct tide_participant who;
	uint32_t count = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (!tide_grace_table_owner(table, i, &who) || !tide_participant_is_dead(&who))
			continue;
		if (dead)
			dead(context, i);
		tide_grace_slot_free(&table->slots[i]);
		count++;
	}
	return count;
}
