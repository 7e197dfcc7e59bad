/* SPDX-License-Identifier: PostgreSQL */
/*
 * rcu/grace_table.h - the table of participants in shared memory.
 *
 * The registration lock is held while a slot is taken or taken back from the dead. A slot is given
 * back by its own thread without it. The owner is stored last when a slot is taken and cleared last
 * when it becomes free, so a process that dies holding the lock leaves nothing to repair.
 */
#ifndef TIDE_RCU_GRACE_TABLE_H
#define TIDE_RCU_GRACE_TABLE_H

#include <pthread.h>
#include <stdalign.h>

#include <tidepool/grace.h>

#include "rcu/participant.h"

#define TIDE_GRACE_LINE 64
#define TIDE_GRACE_MAGIC 0x63617267u /* "grac" */
#define TIDE_GRACE_VERSION 1u
#define TIDE_GRACE_READERS_MAX (1u << 20)

/*
 * @pid_namespace: in which the ids of all owners mean something
 * @fenced_only:   1 = no participant is TIDE_READER_PLAIN nor ever will be again, because some
 *                 process that waits for grace periods cannot use membarrier(2); under @registration
 * @high_water:    one more than the highest slot ever taken
 * @epoch:         of the domain; a section carries the one that it saw, a ticket is the one it made
 * @fence:         exchanged by waiters, to be ordered against fenced participants
 */
struct tide_grace_table {
	_Atomic uint32_t magic;
	uint32_t version;
	uint64_t bytes;
	uint32_t n_slots;
	uint32_t unused;
	uint64_t pid_namespace;
	_Atomic uint32_t fenced_only;
	_Atomic uint32_t high_water;
	alignas(TIDE_GRACE_LINE) pthread_mutex_t registration;
	alignas(TIDE_GRACE_LINE) _Atomic uint64_t epoch;
	alignas(TIDE_GRACE_LINE) _Atomic uint64_t fence;
	alignas(TIDE_GRACE_LINE) struct tide_grace_slot slots[];
};

_Static_assert(sizeof(struct tide_grace_slot) == TIDE_GRACE_LINE, "one cache line each");
_Static_assert(sizeof(struct tide_grace_table) % TIDE_GRACE_LINE == 0, "slots are aligned");

/* Is this a table that this process can use? 0, TIDE_BAD_REQUEST or TIDE_SYSTEM_ERROR. */
int tide_grace_table_check(const struct tide_grace_table *table, struct tide_reason *why);

/* The registration lock; 0 or -errno. */
int tide_grace_table_lock(struct tide_grace_table *table);
void tide_grace_table_unlock(struct tide_grace_table *table);

/* Whose slot @index is; 0 when it is free or changes hands at this moment. */
int tide_grace_table_owner(const struct tide_grace_table *table, uint32_t index,
			   struct tide_participant *out);

/* Give slot @index to @who; caller holds the lock. TIDE_GRACE_NO_SLOT when every one is taken. */
#define TIDE_GRACE_NO_SLOT UINT32_MAX
uint32_t tide_grace_table_take_locked(struct tide_grace_table *table,
				      const struct tide_participant *who, int fenced);

/* Make a slot free: by its owner, or by the reaper, which holds the lock. */
void tide_grace_slot_free(struct tide_grace_slot *slot);

/* Take back the slots of the dead, after @dead was called for each; caller holds the lock. */
uint32_t tide_grace_table_reap_locked(struct tide_grace_table *table,
				      void (*dead)(void *context, uint32_t index), void *context);

#endif /* TIDE_RCU_GRACE_TABLE_H */
