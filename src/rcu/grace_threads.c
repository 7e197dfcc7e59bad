/* SPDX-License-Identifier: PostgreSQL */
/*
 * rcu/grace_threads.c - grace periods of the threads of one process, by liburcu.
 *
 * liburcu 0.13 waits but cannot be polled. A thread of each handle waits instead: tickets are
 * counted, one synchronize_rcu() that begins after a ticket was given serves it and all before it.
 * call_rcu() would do the same, but its thread sleeps 10 ms between two rounds and ends the process
 * when it cannot be made.
 *
 * A thread that ends while it is registered would leave a dangling node in liburcu's list: the
 * destructor of a thread-specific value takes it out. Neither liburcu's list nor our thread survive
 * fork(), so a process whose parent used them uses them no more.
 */
#include "rcu/grace_threads.h"

#include <linux/membarrier.h>
#include <unistd.h>
#include <urcu/urcu-memb.h>

#include "memory/prim.h"
#include "rcu/prim.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t at_thread_end;
static int have_key;
static pid_t user; /* the one process that uses liburcu */

static _Thread_local uint32_t registrations;

static void end_of_thread(void *unused)
{
	(void)unused;
	/* In a child these are what its parent's thread had. */
	if (registrations == 0 || user != getpid())
		return;
	while (urcu_memb_read_ongoing())
		urcu_memb_read_unlock();
	urcu_memb_unregister_thread();
	registrations = 0;
}

static void set_up(void)
{
	user = getpid();
	have_key = pthread_key_create(&at_thread_end, end_of_thread) == 0;
}

int tide_grace_threads_usable(void)
{
	/* liburcu 0.13 has no annotations for ThreadSanitizer: it reports races in correct programs. */
	if (TIDE_GRACE_TSAN)
		return 0;
	(void)pthread_once(&once, set_up);
	/* Without membarrier liburcu works, but nothing orders its readers for tide_grace_barrier(). */
	return have_key && user == getpid() &&
	       tide_rcu_prim_membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0 &&
	       tide_rcu_prim_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
}

static void *serve(void *argument)
{
	struct tide_grace_threads *threads = argument;
	uint64_t target;

	pthread_mutex_lock(&threads->lock);
	for (;;) {
		target = threads->requested;
		if (target != atomic_load_explicit(&threads->passed, memory_order_relaxed)) {
			pthread_mutex_unlock(&threads->lock);
			urcu_memb_synchronize_rcu();
			pthread_mutex_lock(&threads->lock);
			/* (F) pairs with the load in tide_grace_threads_poll(). */
			atomic_store_explicit(&threads->passed, target, memory_order_release);
		} else if (threads->stop) {
			break;
		} else {
			pthread_cond_wait(&threads->wake, &threads->lock);
		}
	}
	pthread_mutex_unlock(&threads->lock);
	return NULL;
}

int tide_grace_threads_open(struct tide_grace_threads *threads)
{
	int rc;

	pthread_mutex_init(&threads->lock, NULL);
	pthread_cond_init(&threads->wake, NULL);
	rc = tide_prim_thread(&threads->worker, serve, threads);
	if (rc != 0) {
		pthread_cond_destroy(&threads->wake);
		pthread_mutex_destroy(&threads->lock);
	}
	return rc;
}

void tide_grace_threads_close(struct tide_grace_threads *threads)
{
	pthread_mutex_lock(&threads->lock);
	threads->stop = 1;
	pthread_cond_signal(&threads->wake);
	pthread_mutex_unlock(&threads->lock);
	pthread_join(threads->worker, NULL);
	pthread_cond_destroy(&threads->wake);
	pthread_mutex_destroy(&threads->lock);
}

uint64_t tide_grace_threads_start(struct tide_grace_threads *threads)
{
	uint64_t ticket;

	pthread_mutex_lock(&threads->lock);
	ticket = ++threads->requested;
	pthread_cond_signal(&threads->wake);
	pthread_mutex_unlock(&threads->lock);
	return ticket;
}

int tide_grace_threads_poll(const struct tide_grace_threads *threads, uint64_t ticket)
{
	/* (F) */
	return atomic_load_explicit(&threads->passed, memory_order_acquire) >= ticket;
}

int tide_grace_threads_register(void)
{
	int rc;

	if (registrations == 0) {
		rc = tide_rcu_prim_thread_value(at_thread_end, &have_key);
		if (rc != 0)
			return rc;
		urcu_memb_register_thread();
	}
	registrations++;
	return 0;
}

void tide_grace_threads_unregister(void)
{
	if (registrations > 0 && --registrations == 0)
		urcu_memb_unregister_thread();
}

void tide_reader_enter_liburcu(void)
{
	urcu_memb_read_lock();
}

void tide_reader_leave_liburcu(void)
{
	urcu_memb_read_unlock();
}
