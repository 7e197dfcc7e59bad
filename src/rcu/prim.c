/* SPDX-License-Identifier: PostgreSQL */
/* rcu/prim.c - the system calls of grace periods, behind one thin layer. */
#include "rcu/prim.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PRIM __attribute__((weak))

PRIM int tide_rcu_prim_membarrier(int command)
{
	return syscall(SYS_membarrier, command, 0, 0) < 0 ? -errno : 0;
}

PRIM int tide_rcu_prim_probe(uint32_t process_id, uint32_t thread_id)
{
	return tgkill((pid_t)process_id, (pid_t)thread_id, 0) != 0 ? -errno : 0;
}

PRIM int tide_rcu_prim_namespace(uint64_t *inode)
{
	struct stat status;

	if (stat("/proc/self/ns/pid", &status) != 0)
		return -errno;
	*inode = status.st_ino;
	return 0;
}

PRIM int tide_rcu_prim_mutex(pthread_mutex_t *mutex)
{
	pthread_mutexattr_t attributes;
	int error;

	error = pthread_mutexattr_init(&attributes);
	if (error)
		return -error;
	error = pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	if (!error)
		error = pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	if (!error)
		error = pthread_mutex_init(mutex, &attributes);
	pthread_mutexattr_destroy(&attributes);
	return -error;
}

PRIM int tide_rcu_prim_thread_value(pthread_key_t key, const void *value)
{
	return -pthread_setspecific(key, value);
}

PRIM void *tide_rcu_prim_zalloc(size_t bytes)
{
	return calloc(1, bytes);
}
