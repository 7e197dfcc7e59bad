/* SPDX-License-Identifier: PostgreSQL */
/*
 * grace_actor.h - readers that do what they are told: threads or forked processes.
 *
 * An actor answers each command when it has been carried out, so that a test knows at every moment
 * who is in a section.
 */
#ifndef TIDE_TESTS_GRACE_ACTOR_H
#define TIDE_TESTS_GRACE_ACTOR_H

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tidepool/grace.h>

#include "rcu/grace_handle.h"

#define FAR_NS (60 * 1000000000ull) /* of a wait that must not run into its limit */

enum actor_kind {
	ACTOR_THREAD,
	ACTOR_PROCESS,
};

enum actor_command {
	ACTOR_ENTER = 'e',
	ACTOR_LEAVE = 'l',
	ACTOR_REGISTER = 'r',
	ACTOR_UNREGISTER = 'u',
	ACTOR_END = 'x', /* without another word: registered, in a section or not */
};

struct actor {
	enum actor_kind kind;
	struct tide_grace *grace;
	int fd, far_fd;
	pid_t process_id;	   /* ACTOR_PROCESS */
	pthread_t thread;	   /* ACTOR_THREAD */
	struct tide_reader reader; /* ACTOR_THREAD: to be looked at */
};

static inline void *actor_run(void *argument)
{
	struct actor *actor = argument;
	char command;

	while (read(actor->far_fd, &command, 1) == 1 && command != ACTOR_END) {
		int code = 0;

		if (command == ACTOR_ENTER)
			tide_reader_enter(&actor->reader);
		else if (command == ACTOR_LEAVE)
			tide_reader_leave(&actor->reader);
		else if (command == ACTOR_REGISTER)
			code = tide_reader_register(actor->grace, &actor->reader, NULL);
		else
			tide_reader_unregister(&actor->reader);
		if (write(actor->far_fd, &(signed char){(signed char)code}, 1) != 1)
			break;
	}
	return NULL;
}

/* The answer: 0 or a code. */
static inline int actor_do(struct actor *actor, enum actor_command command)
{
	char byte = (char)command;
	signed char answer = 1;

	ck_assert_int_eq(write(actor->fd, &byte, 1), 1);
	ck_assert_int_eq(read(actor->fd, &answer, 1), 1);
	return answer;
}

/* Start an actor that is no participant yet. */
static inline void actor_start(struct actor *actor, enum actor_kind kind, struct tide_grace *grace)
{
	int fds[2];

	memset(actor, 0, sizeof(*actor));
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	actor->kind = kind;
	actor->grace = grace;
	actor->fd = fds[0];
	actor->far_fd = fds[1];
	if (kind == ACTOR_THREAD) {
		ck_assert_int_eq(pthread_create(&actor->thread, NULL, actor_run, actor), 0);
		return;
	}
	actor->process_id = fork();
	ck_assert_int_ge(actor->process_id, 0);
	if (actor->process_id == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(actor->fd);
		actor_run(actor);
		_exit(0);
	}
	close(actor->far_fd);
}

/* Start an actor that is a participant. */
static inline void actor_join(struct actor *actor, enum actor_kind kind, struct tide_grace *grace)
{
	actor_start(actor, kind, grace);
	ck_assert_int_eq(actor_do(actor, ACTOR_REGISTER), 0);
}

/* Let it end as it is, and wait for that. */
static inline void actor_end(struct actor *actor)
{
	char byte = ACTOR_END;

	ck_assert_int_eq(write(actor->fd, &byte, 1), 1);
	if (actor->kind == ACTOR_THREAD) {
		pthread_join(actor->thread, NULL);
		close(actor->far_fd);
	} else {
		ck_assert_int_eq(waitpid(actor->process_id, NULL, 0), actor->process_id);
	}
	close(actor->fd);
}

static inline void actor_leave_all(struct actor *actor)
{
	ck_assert_int_eq(actor_do(actor, ACTOR_UNREGISTER), 0);
	actor_end(actor);
}

/* A process dies; a zombie is left. */
static inline void actor_kill(struct actor *actor)
{
	siginfo_t info;

	ck_assert_int_eq(kill(actor->process_id, SIGKILL), 0);
	ck_assert_int_eq(waitid(P_PID, (id_t)actor->process_id, &info, WEXITED | WNOWAIT), 0);
}

static inline void actor_bury(struct actor *actor)
{
	ck_assert_int_eq(waitpid(actor->process_id, NULL, 0), actor->process_id);
	close(actor->fd);
}

/* --- tables and handles ----------------------------------------------------------------------- */

/* Memory for a table, zeroed and shared with children. */
static inline struct tide_grace_table *table_memory(uint32_t readers)
{
	void *memory = mmap(NULL, tide_grace_table_bytes(readers), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(memory, MAP_FAILED);
	return memory;
}

static inline struct tide_grace_table *table_new(uint32_t readers)
{
	struct tide_grace_table *table = table_memory(readers);

	ck_assert_int_eq(tide_grace_table_init(table, readers, NULL), 0);
	return table;
}

static inline void table_free(struct tide_grace_table *table, uint32_t readers)
{
	munmap(table, tide_grace_table_bytes(readers));
}

static inline struct tide_grace *grace_new(enum tide_grace_kind kind,
					   struct tide_grace_table *table)
{
	struct tide_grace *grace = NULL;
	struct tide_reason why = {0};
	int code = tide_grace_open(kind, table, &grace, &why);

	ck_assert_msg(code == 0, "open: %s: %s", tide_code_name(code), why.message);
	ck_assert_ptr_nonnull(grace);
	return grace;
}

/* Poll until @ticket has passed. A test that should fail here runs into its time limit. */
static inline void grace_until_passed(struct tide_grace *grace, uint64_t ticket)
{
	while (!tide_grace_poll(grace, ticket))
		usleep(100);
}

/* Poll for so long that a waiter that is wrong has every chance to say so. */
static inline void grace_never_passes(struct tide_grace *grace, uint64_t ticket)
{
	for (int i = 0; i < 30; i++) {
		ck_assert_int_eq(tide_grace_poll(grace, ticket), 0);
		usleep(1000);
	}
}

static inline int run_suite(Suite *suite)
{
	SRunner *runner = srunner_create(suite);
	int failed;

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}

#endif /* TIDE_TESTS_GRACE_ACTOR_H */
