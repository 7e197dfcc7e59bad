/* SPDX-License-Identifier: PostgreSQL */
/*
 * rcu/prim.h - the system calls of grace periods, behind one thin layer.
 *
 * Each returns 0 or -errno and does nothing else. The functions are weak: a test program defines its
 * own of the same name to refuse one or to play another kernel. Files of /proc are read, and threads
 * and mappings made, through memory/prim.h.
 */
#ifndef TIDE_RCU_PRIM_H
#define TIDE_RCU_PRIM_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

int tide_rcu_prim_membarrier(int command);

/* -ESRCH: process @process_id has no thread @thread_id; whatever else: it has, or we may not know. */
int tide_rcu_prim_probe(uint32_t process_id, uint32_t thread_id);

/* The PID namespace of this process, as a number that names it. */
int tide_rcu_prim_namespace(uint64_t *inode);

/* A robust mutex between processes. */
int tide_rcu_prim_mutex(pthread_mutex_t *mutex);

/* Remember for the calling thread that @value is what the destructor of @key gets when it ends. */
int tide_rcu_prim_thread_value(pthread_key_t key, const void *value);

void *tide_rcu_prim_zalloc(size_t bytes);

#endif /* TIDE_RCU_PRIM_H */
