/* SPDX-License-Identifier: PostgreSQL */
/* rcu/grace_threads.h - grace periods of the threads of one process, by liburcu. */
#ifndef TIDE_RCU_GRACE_THREADS_H
#define TIDE_RCU_GRACE_THREADS_H

#include "rcu/grace_handle.h"

/* Can liburcu be used in this process? Otherwise a private table takes its place. */
int tide_grace_threads_usable(void);

/* 0 or -errno; starts a thread. */
int tide_grace_threads_open(struct tide_grace_threads *threads);
void tide_grace_threads_close(struct tide_grace_threads *threads);

uint64_t tide_grace_threads_start(struct tide_grace_threads *threads);
int tide_grace_threads_poll(const struct tide_grace_threads *threads, uint64_t ticket);

/* Registrations of the calling thread are counted; 0 or -errno. */
int tide_grace_threads_register(void);
void tide_grace_threads_unregister(void);

#endif /* TIDE_RCU_GRACE_THREADS_H */
