/* SPDX-License-Identifier: PostgreSQL */
/* rcu/grace_reader.c - participants come, go and die. */
#include <inttypes.h>
#include <linux/membarrier.h>
#include <string.h>
#include <unistd.h>

#include "rcu/grace_handle.h"
#include "rcu/grace_threads.h"
#include "rcu/prim.h"

static int register_with_liburcu(struct tide_reader *out, struct tide_reason *why)
{
	int rc = tide_grace_threads_register();

	if (rc != 0)
		return tide_reason_set(why, TIDE_SYSTEM_ERROR, -rc,
				       "the end of this thread cannot be watched");
	out->mode = TIDE_READER_LIBURCU;
	return TIDE_OK;
}

/* An id means something to the others only in their PID namespace; fork() may have left it. */
static int identify(const struct tide_grace_table *table, struct tide_participant *out,
		    struct tide_reason *why)
{
	uint64_t here = 0;
	int rc = tide_participant_namespace(&here);

	if (rc == 0)
		rc = tide_participant_self(out);
	if (rc != 0)
		return tide_reason_set(why, TIDE_SYSTEM_ERROR, -rc,
				       "this thread cannot be found in /proc");
	if (here != table->pid_namespace)
		return tide_reason_set(why, TIDE_SYSTEM_ERROR, 0,
				       "this process moved to another PID namespace than that of "
				       "the table of readers");
	return TIDE_OK;
}

/*
 * A child has the memory of its parent but perhaps not its registration with membarrier, so every
 * participant renews it; again is cheap. Must come before a slot is taken: from then on waiters rely
 * on it.
 */
static int can_be_plain(const struct tide_grace *grace)
{
	return grace->membarrier &&
	       tide_rcu_prim_membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
}

static int register_in_table(struct tide_grace *grace, struct tide_reader *out,
			     struct tide_reason *why)
{
	struct tide_grace_table *table = grace->table;
	struct tide_participant self;
	int fenced = !can_be_plain(grace);
	int rc;

	rc = identify(table, &self, why);
	if (rc != TIDE_OK)
		return rc;
	rc = tide_grace_table_lock(table);
	if (rc != 0)
		return tide_reason_set(why, TIDE_SYSTEM_ERROR, -rc,
				       "the registration lock of the table of readers is broken");
	fenced |= atomic_load_explicit(&table->fenced_only, memory_order_relaxed) != 0;
	out->index = tide_grace_table_take_locked(table, &self, fenced);
	/* Threads hold nothing that the caller would have to take back first. */
	if (out->index == TIDE_GRACE_NO_SLOT && grace->kind == TIDE_GRACE_THREADS &&
	    tide_grace_table_reap_locked(table, NULL, NULL) > 0)
		out->index = tide_grace_table_take_locked(table, &self, fenced);
	tide_grace_table_unlock(table);
	if (out->index == TIDE_GRACE_NO_SLOT) {
		memset(out, 0, sizeof(*out));
		return tide_reason_set(why, TIDE_LIMIT_REACHED, 0,
				       "all %" PRIu32 " places for readers are taken",
				       table->n_slots);
	}
	out->slot = &table->slots[out->index];
	out->now = &table->epoch;
	out->mode = fenced ? TIDE_READER_FENCED : TIDE_READER_PLAIN;
	if (grace->kind == TIDE_GRACE_THREADS)
		out->index = 0;
	return TIDE_OK;
}

int tide_reader_register(struct tide_grace *grace, struct tide_reader *out, struct tide_reason *why)
{
	int code;

	memset(out, 0, sizeof(*out));
	if (tide_grace_is_left_behind(grace))
		return tide_reason_set(
			why, TIDE_SYSTEM_ERROR, 0,
			"these grace periods belong to the threads of process %" PRIu32
			", from which this one was forked",
			grace->opened_by);
	code = grace->table ? register_in_table(grace, out, why) : register_with_liburcu(out, why);
	if (code == TIDE_OK) {
		out->grace = grace;
		out->process_id = (uint32_t)getpid();
	}
	return code;
}

void tide_reader_unregister(struct tide_reader *reader)
{
	if (reader->grace && reader->process_id == (uint32_t)getpid()) {
		if (reader->slot)
			tide_grace_slot_free(reader->slot);
		else
			tide_grace_threads_unregister();
	}
	memset(reader, 0, sizeof(*reader));
}

uint32_t tide_grace_reap(struct tide_grace *grace, void (*dead)(void *context, uint32_t index),
			 void *context)
{
	uint32_t count;

	if (grace->kind == TIDE_GRACE_THREADS || tide_grace_table_lock(grace->table) != 0)
		return 0;
	count = tide_grace_table_reap_locked(grace->table, dead, context);
	tide_grace_table_unlock(grace->table);
	return count;
}

int tide_grace_alive(struct tide_grace *grace, uint32_t index)
{
	struct tide_participant who;

	return grace->kind == TIDE_GRACE_SHARED && index < grace->table->n_slots &&
	       tide_grace_table_owner(grace->table, index, &who) && !tide_participant_is_dead(&who);
}

const struct tide_grace_slot *tide_grace_slots(struct tide_grace *grace, uint32_t *n)
{
	*n = 0;
	if (grace->kind == TIDE_GRACE_THREADS)
		return NULL;
	*n = atomic_load_explicit(&grace->table->high_water, memory_order_acquire);
	return grace->table->slots;
}
