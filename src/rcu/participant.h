/* SPDX-License-Identifier: PostgreSQL */
/* rcu/participant.h - a thread by what tells it from every other: its ids and its start time. */
#ifndef TIDE_RCU_PARTICIPANT_H
#define TIDE_RCU_PARTICIPANT_H

#include <stdint.h>

/* @start_time: in clock ticks since boot */
struct tide_participant {
	uint32_t process_id;
	uint32_t thread_id;
	uint64_t start_time;
};

/* What a line of /proc/<process>/task/<thread>/stat says; @flags are the kernel's PF_*. */
struct tide_participant_stat {
	char state;
	unsigned flags;
	unsigned long long start_time;
};

/* 0 or -EINVAL */
int tide_participant_parse(const char *line, struct tide_participant_stat *out);

/* The calling thread; 0 or -errno. */
int tide_participant_self(struct tide_participant *out);

/* 1 = certainly dead: it executes nothing any more. 0 = alive, or nothing can be learned. */
int tide_participant_is_dead(const struct tide_participant *participant);

/*
 * The PID namespace of this process: 0, -errno, or -EXDEV when /proc shows another one, so that what
 * it says about a thread id is about somebody else.
 */
int tide_participant_namespace(uint64_t *inode);

#endif /* TIDE_RCU_PARTICIPANT_H */
