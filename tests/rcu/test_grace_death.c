/* SPDX-License-Identifier: PostgreSQL */
/* test_grace_death.c - participants that die, stop, fork, or go without a word. */
#include "grace_actor.h"

#define READERS 4u

static struct tide_grace_table *table;
static struct tide_grace *grace;

static void set_up(void)
{
	table = table_new(READERS);
	grace = grace_new(TIDE_GRACE_SHARED, table);
}

static void tear_down(void)
{
	tide_grace_close(grace);
	table_free(table, READERS);
}

/* What the reaper told: how often for each slot. */
static unsigned reaped[READERS];

static void on_death(void *context, uint32_t index)
{
	ck_assert_ptr_eq(context, reaped);
	ck_assert_uint_lt(index, READERS);
	/* Not free yet: nobody can have taken it. */
	ck_assert_uint_ne(atomic_load(&table->slots[index].owner), 0);
	reaped[index]++;
}

static uint32_t reap(void)
{
	memset(reaped, 0, sizeof(reaped));
	return tide_grace_reap(grace, on_death, reaped);
}

START_TEST(killed_reader_is_in_nobodys_way)
{
	struct actor actor;
	uint64_t before, after;

	set_up();
	actor_join(&actor, ACTOR_PROCESS, grace);
	actor_do(&actor, ACTOR_ENTER);
	before = tide_grace_start(grace);
	ck_assert_int_eq(tide_grace_poll(grace, before), 0);
	actor_kill(&actor);
	if (_i == 1) /* otherwise it stays a zombie */
		actor_bury(&actor);
	after = tide_grace_start(grace);
	grace_until_passed(grace, before);
	grace_until_passed(grace, after);
	ck_assert_int_eq(tide_grace_wait(grace, FAR_NS, NULL), 0);
	ck_assert_int_eq(tide_grace_alive(grace, 0), 0);
	ck_assert_uint_eq(tide_grace_blockers(grace, tide_grace_start(grace), NULL, 0), 0);
	ck_assert_uint_eq(reap(), 1);
	ck_assert_uint_eq(reaped[0], 1);
	ck_assert_uint_eq(reap(), 0);
	ck_assert_uint_eq(atomic_load(&table->slots[0].epoch), 0);
	if (_i == 0)
		actor_bury(&actor);
	tear_down();
}
END_TEST

START_TEST(dead_reader_does_not_hide_a_living_one)
{
	struct tide_grace_blocker blocker[2];
	struct actor dead, living;
	uint64_t ticket;

	set_up();
	actor_join(&dead, ACTOR_PROCESS, grace);
	actor_join(&living, ACTOR_PROCESS, grace);
	actor_do(&dead, ACTOR_ENTER);
	actor_do(&living, ACTOR_ENTER);
	ticket = tide_grace_start(grace);
	ck_assert_uint_eq(tide_grace_blockers(grace, ticket, blocker, 1), 2);
	ck_assert_uint_eq(blocker[0].index, 0);
	actor_kill(&dead);
	while (tide_grace_blockers(grace, ticket, blocker, 2) > 1)
		usleep(100);
	ck_assert_uint_eq(blocker[0].index, 1);
	ck_assert_uint_eq(blocker[0].process_id, (uint32_t)living.process_id);
	grace_never_passes(grace, ticket);
	actor_do(&living, ACTOR_LEAVE);
	grace_until_passed(grace, ticket);
	actor_leave_all(&living);
	actor_bury(&dead);
	tear_down();
}
END_TEST

START_TEST(stopped_reader_is_waited_for_and_named)
{
	struct tide_grace_blocker blocker;
	struct tide_reason why;
	struct actor actor;
	uint64_t ticket, since;
	int status;

	set_up();
	actor_join(&actor, ACTOR_PROCESS, grace);
	actor_do(&actor, ACTOR_ENTER);
	ck_assert_int_eq(kill(actor.process_id, SIGSTOP), 0);
	ck_assert_int_eq(waitpid(actor.process_id, &status, WUNTRACED), actor.process_id);
	ck_assert(WIFSTOPPED(status));
	ticket = tide_grace_start(grace);
	ck_assert_uint_eq(tide_grace_blockers(grace, ticket, &blocker, 1), 1);
	ck_assert_uint_eq(blocker.process_id, (uint32_t)actor.process_id);
	ck_assert_uint_eq(blocker.thread_id, (uint32_t)actor.process_id);
	ck_assert_uint_eq(blocker.index, 0);
	ck_assert_uint_eq(blocker.blocked_ns, 0);
	since = tide_grace_now_ns();
	grace_never_passes(grace, ticket);
	ck_assert_uint_eq(tide_grace_blockers(grace, ticket, &blocker, 1), 1);
	ck_assert_uint_gt(blocker.blocked_ns, 0);
	/* A later ticket meets the same section. */
	since = tide_grace_now_ns() - since;
	ck_assert_uint_eq(tide_grace_blockers(grace, tide_grace_start(grace), &blocker, 1), 1);
	ck_assert_uint_ge(blocker.blocked_ns, since);
	ck_assert_int_eq(tide_grace_wait(grace, 10000000, &why), TIDE_PINNED_BUFFERS);
	ck_assert_int_eq(tide_grace_alive(grace, 0), 1);
	ck_assert_uint_eq(reap(), 0);
	ck_assert_int_eq(kill(actor.process_id, SIGCONT), 0);
	actor_do(&actor, ACTOR_LEAVE);
	grace_until_passed(grace, ticket);
	/* Its next section is another one. */
	actor_do(&actor, ACTOR_ENTER);
	ck_assert_uint_eq(tide_grace_blockers(grace, tide_grace_start(grace), &blocker, 1), 1);
	ck_assert_uint_eq(blocker.blocked_ns, 0);
	actor_do(&actor, ACTOR_LEAVE);
	actor_leave_all(&actor);
	tear_down();
}
END_TEST

START_TEST(thread_that_ends_in_a_section_is_dead)
{
	const enum tide_grace_kind kind = _i == 0 ? TIDE_GRACE_SHARED : TIDE_GRACE_THREADS;
	struct tide_grace *domain;
	struct actor actor;
	uint64_t ticket;

	set_up();
	domain = _i == 0 ? grace : grace_new(kind, NULL);
	actor_join(&actor, ACTOR_THREAD, domain);
	actor_do(&actor, ACTOR_ENTER);
	actor_do(&actor, ACTOR_ENTER);
	ticket = tide_grace_start(domain);
	ck_assert_int_eq(tide_grace_poll(domain, ticket), 0);
	actor_end(&actor);
	grace_until_passed(domain, ticket);
	ck_assert_int_eq(tide_grace_wait(domain, FAR_NS, NULL), 0);
	if (kind == TIDE_GRACE_SHARED) {
		ck_assert_uint_eq(reap(), 1);
		ck_assert_uint_eq(reaped[0], 1);
	} else {
		ck_assert_uint_eq(tide_grace_reap(domain, on_death, reaped), 0);
		tide_grace_close(domain);
	}
	tear_down();
}
END_TEST

/* The first thread of a process ends, another one goes on: the first is a zombie for as long. */
static void *outlive(void *argument)
{
	struct actor *actor = argument;
	char byte;

	while (read(actor->far_fd, &byte, 1) == 1)
		;
	_exit(0);
}

START_TEST(first_thread_may_end_before_its_process)
{
	struct actor actor = {.kind = ACTOR_PROCESS};
	uint64_t ticket;
	char byte = 0;
	int fds[2];

	set_up();
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	actor.fd = fds[0];
	actor.far_fd = fds[1];
	actor.process_id = fork();
	if (actor.process_id == 0) {
		struct tide_reader reader;
		pthread_t thread;

		close(fds[0]);
		if (tide_reader_register(grace, &reader, NULL) != 0 ||
		    pthread_create(&thread, NULL, outlive, &actor) != 0)
			_exit(1);
		tide_reader_enter(&reader);
		if (write(fds[1], &byte, 1) != 1)
			_exit(1);
		pthread_exit(NULL);
	}
	close(fds[1]);
	ck_assert_int_eq(read(fds[0], &byte, 1), 1);
	ticket = tide_grace_start(grace);
	grace_until_passed(grace, ticket);
	ck_assert_uint_eq(reap(), 1);
	shutdown(fds[0], SHUT_RDWR);
	actor_bury(&actor);
	tear_down();
}
END_TEST

START_TEST(slots_of_the_dead_are_taken_back_by_reap_alone)
{
	struct actor actors[READERS], another;
	struct tide_reader reader;
	struct tide_reason why;

	set_up();
	for (unsigned i = 0; i < READERS; i++)
		actor_join(&actors[i], ACTOR_PROCESS, grace);
	ck_assert_int_eq(tide_reader_register(grace, &reader, &why), TIDE_LIMIT_REACHED);
	ck_assert_ptr_nonnull(strstr(why.message, "4 places"));
	tide_reader_unregister(&reader); /* was none: nothing happens */
	actor_end(&actors[1]);
	actor_do(&actors[2], ACTOR_ENTER);
	actor_kill(&actors[2]);
	actor_bury(&actors[2]);
	ck_assert_int_eq(tide_reader_register(grace, &reader, &why), TIDE_LIMIT_REACHED);
	ck_assert_uint_eq(reap(), 2);
	for (unsigned i = 0; i < READERS; i++) {
		ck_assert_uint_eq(reaped[i], i == 1 || i == 2);
		ck_assert_int_eq(tide_grace_alive(grace, i), i == 0 || i == 3);
	}
	ck_assert_int_eq(tide_reader_register(grace, &reader, &why), 0);
	ck_assert_uint_eq(tide_reader_index(&reader), 1);
	actor_join(&another, ACTOR_PROCESS, grace);
	ck_assert_int_eq(tide_grace_alive(grace, 2), 1);
	ck_assert_int_eq(tide_grace_wait(grace, FAR_NS, &why), 0);
	tide_reader_unregister(&reader);
	actor_leave_all(&another);
	actor_leave_all(&actors[0]);
	actor_leave_all(&actors[3]);
	ck_assert_uint_eq(tide_grace_reap(grace, NULL, NULL), 0);
	tear_down();
}
END_TEST

START_TEST(next_owner_of_a_slot_is_no_ghost_of_the_last)
{
	struct tide_reader reader;
	struct actor actor;
	uint64_t ticket;

	set_up();
	actor_join(&actor, ACTOR_PROCESS, grace);
	actor_do(&actor, ACTOR_ENTER);
	ticket = tide_grace_start(grace);
	actor_kill(&actor);
	grace_until_passed(grace, ticket); /* found dead */
	ck_assert_uint_eq(tide_grace_reap(grace, NULL, NULL), 1);
	ck_assert_int_eq(tide_reader_register(grace, &reader, NULL), 0);
	ck_assert_uint_eq(tide_reader_index(&reader), 0);
	/* The same slot in the same epoch: only the owner differs. */
	atomic_store(&reader.slot->epoch, ticket - 1);
	grace_never_passes(grace, tide_grace_start(grace));
	atomic_store(&reader.slot->epoch, 0);
	tide_reader_unregister(&reader);
	actor_bury(&actor);
	tear_down();
}
END_TEST

START_TEST(reused_thread_id_is_told_by_its_start_time)
{
	struct tide_reader reader;
	uint64_t ticket;

	set_up();
	ck_assert_int_eq(tide_reader_register(grace, &reader, NULL), 0);
	tide_reader_enter(&reader);
	ticket = tide_grace_start(grace);
	ck_assert_int_eq(tide_grace_alive(grace, 0), 1);
	grace_never_passes(grace, ticket);
	atomic_fetch_sub(&reader.slot->start_time, 1); /* as if of an earlier thread */
	ck_assert_int_eq(tide_grace_alive(grace, 0), 0);
	grace_until_passed(grace, ticket);
	ck_assert_uint_eq(reap(), 1);
	ck_assert_uint_eq(reaped[0], 1);
	tear_down();
}
END_TEST

START_TEST(slot_that_is_given_back_is_in_nobodys_way)
{
	struct tide_reader reader;
	uint64_t ticket;

	set_up();
	ck_assert_int_eq(tide_reader_register(grace, &reader, NULL), 0);
	tide_reader_enter(&reader);
	ticket = tide_grace_start(grace);
	/* As a waiter sees it that read the epoch just before the owner left. */
	atomic_store(&reader.slot->owner, 0);
	ck_assert_int_eq(tide_grace_poll(grace, ticket), 1);
	tide_reader_leave(&reader);
	tear_down();
}
END_TEST

START_TEST(reaper_that_dies_leaves_a_lock_that_works)
{
	struct tide_reader reader;
	struct actor actor;
	pid_t process_id;

	set_up();
	actor_join(&actor, ACTOR_PROCESS, grace);
	actor_end(&actor);
	process_id = fork();
	if (process_id == 0) {
		(void)tide_grace_table_lock(table);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(process_id, NULL, 0), process_id);
	ck_assert_int_eq(tide_reader_register(grace, &reader, NULL), 0);
	ck_assert_uint_eq(tide_reader_index(&reader), 1);
	ck_assert_uint_eq(reap(), 1);
	ck_assert_uint_eq(reaped[0], 1);
	tide_reader_unregister(&reader);
	tear_down();
}
END_TEST

START_TEST(lock_beyond_repair_is_an_error)
{
	struct tide_reader reader;
	struct tide_reason why = {0};
	pid_t process_id;

	set_up();
	process_id = fork();
	if (process_id == 0) {
		(void)tide_grace_table_lock(table);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(process_id, NULL, 0), process_id);
	ck_assert_int_eq(pthread_mutex_lock(&table->registration), EOWNERDEAD);
	pthread_mutex_unlock(&table->registration);
	ck_assert_int_eq(tide_reader_register(grace, &reader, &why), TIDE_SYSTEM_ERROR);
	ck_assert_int_eq(why.sys_errno, ENOTRECOVERABLE);
	ck_assert_uint_eq(reap(), 0);
	tear_down();
}
END_TEST

/* --- fork ------------------------------------------------------------------------------------- */

static void ignore(void *unused)
{
	(void)unused;
}

static int exit_code(pid_t process_id)
{
	int status = -1;

	ck_assert_int_eq(waitpid(process_id, &status, 0), process_id);
	ck_assert_msg(WIFEXITED(status), "status %d", status);
	return WEXITSTATUS(status);
}

/* What a child may do with the shared domain of its parent, which is in a section; a line that fails. */
static int child_of_a_reader(struct tide_reader *inherited)
{
	struct tide_reader own;
	uint64_t ticket = tide_grace_start(grace);

	if (tide_grace_poll(grace, ticket) != 0) /* the parent's section counts */
		return __LINE__ % 256;
	tide_reader_unregister(inherited);
	if (tide_grace_poll(grace, ticket) != 0 || !tide_grace_alive(grace, 0))
		return __LINE__ % 256;
	if (tide_reader_register(grace, &own, NULL) != 0 || tide_reader_index(&own) != 1)
		return __LINE__ % 256;
	tide_reader_enter(&own);
	tide_reader_leave(&own);
	/* The parent's call is not ours: nothing waits here. */
	if (tide_grace_run(grace) != 0 || tide_grace_defer(grace, ignore, NULL, NULL) != 0 ||
	    tide_grace_run(grace) != 1)
		return __LINE__ % 256;
	tide_reader_unregister(&own);
	return 0;
}

START_TEST(child_has_a_slot_of_its_own)
{
	struct tide_reader reader;
	pid_t process_id;

	set_up();
	ck_assert_int_eq(tide_reader_register(grace, &reader, NULL), 0);
	tide_reader_enter(&reader);
	ck_assert_int_eq(tide_grace_defer(grace, ignore, NULL, NULL), 0);
	process_id = fork();
	if (process_id == 0)
		_exit(child_of_a_reader(&reader));
	ck_assert_int_eq(exit_code(process_id), 0);
	ck_assert_uint_ne(atomic_load(&table->slots[0].owner), 0);
	ck_assert_uint_ne(atomic_load(&table->slots[0].epoch), 0);
	ck_assert_uint_eq(atomic_load(&table->slots[1].owner), 0);
	ck_assert_uint_eq(tide_grace_run(grace), 1);
	tide_reader_leave(&reader);
	tide_reader_unregister(&reader);
	tear_down();
}
END_TEST

START_TEST(child_closes_what_it_inherited_without_a_wait)
{
	struct tide_reader reader;
	pid_t process_id;

	set_up();
	ck_assert_int_eq(tide_reader_register(grace, &reader, NULL), 0);
	tide_reader_enter(&reader);
	ck_assert_int_eq(tide_grace_defer(grace, ignore, NULL, NULL), 0);
	process_id = fork();
	if (process_id == 0) {
		tide_grace_close(grace);
		_exit(0);
	}
	ck_assert_int_eq(exit_code(process_id), 0);
	tide_reader_leave(&reader);
	tide_reader_unregister(&reader);
	tear_down();
}
END_TEST

static void *run_once(void *unused)
{
	ck_assert_uint_eq(tide_grace_run(grace), 0);
	return unused;
}

START_TEST(threads_of_a_child_wait_for_the_one_that_takes_over)
{
	const uint64_t mine = (uint64_t)getpid() << 1;
	pthread_t thread;

	set_up();
	atomic_store(&grace->user, mine | 1); /* as that one leaves it meanwhile */
	ck_assert_int_eq(pthread_create(&thread, NULL, run_once, NULL), 0);
	usleep(10000); /* only to let it come there */
	ck_assert_int_eq(pthread_tryjoin_np(thread, NULL), EBUSY);
	atomic_store(&grace->user, mine);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	/* But not when it was forked while its parent was at it. */
	atomic_store(&grace->user, (mine + 2) | 1);
	ck_assert_uint_eq(tide_grace_run(grace), 0);
	ck_assert_uint_eq(atomic_load(&grace->user), mine);
	tear_down();
}
END_TEST

/* A domain of threads is left behind: its threads are not here. A child opens one of its own. */
static int child_of_threads(struct tide_grace *domain, struct tide_reader *inherited)
{
	struct tide_grace *own = NULL;
	struct tide_reader reader;
	struct tide_reason why = {0};
	uint64_t ticket = tide_grace_start(domain);

	if (!tide_grace_poll(domain, ticket) || tide_grace_wait(domain, 0, NULL) != 0)
		return __LINE__ % 256;
	if (tide_reader_register(domain, &reader, &why) != TIDE_SYSTEM_ERROR ||
	    !strstr(why.message, "forked"))
		return __LINE__ % 256;
	tide_reader_unregister(inherited);
	if (tide_grace_run(domain) != 0)
		return __LINE__ % 256;
	tide_grace_close(domain);
	if (tide_grace_open(TIDE_GRACE_THREADS, NULL, &own, NULL) != 0 ||
	    tide_reader_register(own, &reader, NULL) != 0)
		return __LINE__ % 256;
	tide_reader_enter(&reader);
	ticket = tide_grace_start(own);
	if (tide_grace_poll(own, ticket) || tide_grace_blockers(own, ticket, NULL, 0) != 0)
		return __LINE__ % 256;
	tide_reader_leave(&reader);
	if (tide_grace_wait(own, FAR_NS, NULL) != 0)
		return __LINE__ % 256;
	tide_reader_unregister(&reader);
	tide_grace_close(own);
	return 0;
}

static void end_at_once(void)
{
	_exit(0);
}

/* The thread that forks has been a participant, so the child has what liburcu knew of it. */
static void *fork_in_thread(void *argument)
{
	struct tide_grace *domain = argument;
	struct tide_reader reader;
	pid_t process_id;

	ck_assert_int_eq(tide_reader_register(domain, &reader, NULL), 0);
	tide_reader_enter(&reader);
	process_id = fork();
	if (process_id == 0) {
		int line = child_of_threads(domain, &reader);

		if (line != 0)
			_exit(line);
		/* The end of its last thread is that of the process, but not of the tests. */
		(void)atexit(end_at_once);
		pthread_exit(NULL);
	}
	ck_assert_int_eq(exit_code(process_id), 0);
	tide_reader_leave(&reader);
	tide_reader_unregister(&reader);
	return NULL;
}

START_TEST(domain_of_threads_does_not_survive_fork)
{
	struct tide_grace *domain = grace_new(TIDE_GRACE_THREADS, NULL);
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, fork_in_thread, domain), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	tide_grace_close(domain);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("grace death");
	TCase *tcase = tcase_create("death");

	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, killed_reader_is_in_nobodys_way, 0, 2);
	tcase_add_test(tcase, dead_reader_does_not_hide_a_living_one);
	tcase_add_test(tcase, stopped_reader_is_waited_for_and_named);
	tcase_add_loop_test(tcase, thread_that_ends_in_a_section_is_dead, 0, 2);
	tcase_add_test(tcase, first_thread_may_end_before_its_process);
	tcase_add_test(tcase, slots_of_the_dead_are_taken_back_by_reap_alone);
	tcase_add_test(tcase, next_owner_of_a_slot_is_no_ghost_of_the_last);
	tcase_add_test(tcase, reused_thread_id_is_told_by_its_start_time);
	tcase_add_test(tcase, slot_that_is_given_back_is_in_nobodys_way);
	tcase_add_test(tcase, reaper_that_dies_leaves_a_lock_that_works);
	tcase_add_test(tcase, lock_beyond_repair_is_an_error);
	suite_add_tcase(suite, tcase);

	tcase = tcase_create("fork");
	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, child_has_a_slot_of_its_own);
	tcase_add_test(tcase, child_closes_what_it_inherited_without_a_wait);
	tcase_add_test(tcase, threads_of_a_child_wait_for_the_one_that_takes_over);
	tcase_add_test(tcase, domain_of_threads_does_not_survive_fork);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
