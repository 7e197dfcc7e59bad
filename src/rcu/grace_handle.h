/* SPDX-License-Identifier: PostgreSQL */
/*
 * rcu/grace_handle.h - a process's handle on a domain of grace periods.
 *
 * Locks of a handle are private to the process and ranked below the registration lock of the table.
 * None is held while a function of the caller runs. A child that inherits a handle by fork() may find
 * them held by threads that it does not have: tide_grace_adopt() makes them anew.
 */
#ifndef TIDE_RCU_GRACE_HANDLE_H
#define TIDE_RCU_GRACE_HANDLE_H

#include <pthread.h>

#include <tidepool/grace.h>

#include "rcu/grace_table.h"

#if defined(__SANITIZE_THREAD__)
#define TIDE_GRACE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TIDE_GRACE_TSAN 1
#endif
#endif
#ifndef TIDE_GRACE_TSAN
#define TIDE_GRACE_TSAN 0
#endif

/*
 * A slot that was in the way.
 * @who:      its owner; together with @epoch it names one section
 * @first_ns: when a poll of this process saw it first
 * @look_ns:  when its owner was looked for last, or @first_ns
 * @dead:     it was found dead, which is for ever
 */
struct tide_grace_sighting {
	struct tide_participant who;
	uint64_t epoch;
	uint64_t first_ns;
	uint64_t look_ns;
	int dead;
};

struct tide_grace_call {
	uint64_t ticket;
	void (*function)(void *argument);
	void *argument;
};

/* The calls that wait: numbers @first to @next - 1, number n in place n modulo the size. */
struct tide_grace_deferred {
	pthread_mutex_t lock;
	uint64_t first, next;
	struct tide_grace_call calls[TIDE_GRACE_DEFERRED_MAX];
};

/* Tickets for threads, handed out by counting; see grace_threads.c. */
struct tide_grace_threads {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	pthread_t worker;
	uint64_t requested;
	_Atomic uint64_t passed;
	int stop;
};

/*
 * @table:      NULL = liburcu. TIDE_GRACE_THREADS has a private one where liburcu cannot be used
 * @opened_by:  process id
 * @user:       process whose @deferred and @sighting_lock these are, times two; odd = in the making
 * @membarrier: 1 = waiters of this process can use membarrier(2)
 * @ordered:    a barrier of this process came after the epoch became this, or a later one
 * @passed:     the grace periods of all tickets up to this one have passed
 */
struct tide_grace {
	enum tide_grace_kind kind;
	uint32_t opened_by;
	struct tide_grace_table *table;
	int membarrier;
	_Atomic uint64_t user;
	_Atomic uint64_t ordered;
	_Atomic uint64_t passed;
	pthread_mutex_t sighting_lock;
	struct tide_grace_sighting *sightings; /* one for each slot */
	struct tide_grace_threads threads;
	struct tide_grace_deferred deferred;
};

/* Before any lock of the handle is taken: make them ours when they came by fork(). */
void tide_grace_adopt(struct tide_grace *grace);

/*
 * 1 = a handle of TIDE_GRACE_THREADS that came by fork(). Its participants are threads that are not
 * here, so every grace period has passed and nobody can become one.
 */
int tide_grace_is_left_behind(const struct tide_grace *grace);

/* One attempt at tide_grace_barrier(): 1 = done, 0 = the kernel refused it. */
int tide_grace_try_barrier(struct tide_grace *grace);

/* CLOCK_MONOTONIC */
uint64_t tide_grace_now_ns(void);

/*
 * Is the section that slot @index entered in @epoch still in the way, as far as the life of its owner
 * is concerned? 1 and who it is, or 0.
 */
int tide_grace_sight(struct tide_grace *grace, uint32_t index, uint64_t epoch,
		     struct tide_grace_blocker *out);

#endif /* TIDE_RCU_GRACE_HANDLE_H */
