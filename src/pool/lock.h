/* SPDX-License-Identifier: PostgreSQL */
/*
 * pool/lock.h - locks in shared memory that survive their holder. None is taken on a hit.
 *
 * Order: resize lock, reap lock, registration lock (grace), lock of a partition (lookup).
 */
#ifndef POOL_LOCK_H
#define POOL_LOCK_H

#include <pthread.h>

/** lock_init() - 0 or a positive errno */
int lock_init(pthread_mutex_t *lock);

/** lock_take() - blocks; what a holder that died left is for the caller to put right */
void lock_take(pthread_mutex_t *lock);

/** lock_try() - 1 = taken, 0 = somebody who lives has it */
int lock_try(pthread_mutex_t *lock);

void lock_release(pthread_mutex_t *lock);

#endif /* POOL_LOCK_H */
