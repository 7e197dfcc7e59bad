/* SPDX-License-Identifier: PostgreSQL */
/* lock.c - locks in shared memory that survive their holder. */
#include "pool/lock.h"

#include <assert.h>
#include <errno.h>

int lock_init(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attributes;
	int rc = pthread_mutexattr_init(&attributes);

	if (rc != 0)
		return rc;
	rc = pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	if (rc == 0)
		rc = pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	if (rc == 0)
		rc = pthread_mutex_init(lock, &attributes);
	(void)pthread_mutexattr_destroy(&attributes);
	return rc;
}

void lock_take(pthread_mutex_t *lock)
{
	int rc = pthread_mutex_lock(lock);

	if (rc == EOWNERDEAD)
		rc = pthread_mutex_consistent(lock);
	assert(rc == 0);
}

int lock_try(pthread_mutex_t *lock)
{
	int rc = pthread_mutex_trylock(lock);

	if (rc == EOWNERDEAD)
		rc = pthread_mutex_consistent(lock);
	return rc == 0;
}

void lock_release(pthread_mutex_t *lock)
{
	int rc = pthread_mutex_unlock(lock);

	assert(rc == 0);
	(void)rc;
}
