/* SPDX-License-Identifier: PostgreSQL */
/*
 * test_grace_fault.c - what the kernel may refuse, and tables and /proc files that are not as they
 * should be.
 */
#include "../memory/faulty_prim.h"
#include "grace_actor.h"

#define tide_rcu_prim_membarrier real_membarrier
#define tide_rcu_prim_probe real_probe
#define tide_rcu_prim_namespace real_namespace
#define tide_rcu_prim_mutex real_mutex
#define tide_rcu_prim_thread_value real_thread_value
#define tide_rcu_prim_zalloc real_zalloc
#undef PRIM
#include "rcu/prim.c"
#undef tide_rcu_prim_membarrier
#undef tide_rcu_prim_probe
#undef tide_rcu_prim_namespace
#undef tide_rcu_prim_mutex
#undef tide_rcu_prim_thread_value
#undef tide_rcu_prim_zalloc

#include <linux/membarrier.h>
#include <sched.h>
#include <stdio.h>

#define READERS 4u
#define TEST_NOT_PERMITTED 77

/* Errors that calls answer with; 0 = the real call. */
static struct {
	int membarrier; /* every command in @commands */
	unsigned commands;
	unsigned membarriers; /* so many calls fail, then they work again; 0 = all */
	int probe, name_space, mutex, thread_value;
	unsigned zalloc; /* this call fails */
} refuse;

static unsigned zallocs;

int tide_rcu_prim_membarrier(int command)
{
	if (refuse.membarrier && (refuse.commands & (unsigned)command)) {
		int rc = -refuse.membarrier;

		if (refuse.membarriers > 0 && --refuse.membarriers == 0)
			refuse.membarrier = 0;
		return rc;
	}
	return real_membarrier(command);
}

int tide_rcu_prim_probe(uint32_t process_id, uint32_t thread_id)
{
	return refuse.probe ? -refuse.probe : real_probe(process_id, thread_id);
}

int tide_rcu_prim_namespace(uint64_t *inode)
{
	return refuse.name_space ? -refuse.name_space : real_namespace(inode);
}

int tide_rcu_prim_mutex(pthread_mutex_t *mutex)
{
	return refuse.mutex ? -refuse.mutex : real_mutex(mutex);
}

int tide_rcu_prim_thread_value(pthread_key_t key, const void *value)
{
	return refuse.thread_value ? -refuse.thread_value : real_thread_value(key, value);
}

void *tide_rcu_prim_zalloc(size_t bytes)
{
	return ++zallocs == refuse.zalloc ? NULL : real_zalloc(bytes);
}

static void refuse_membarrier(int error)
{
	refuse.membarrier = error;
	refuse.commands = ~0u;
	refuse.membarriers = 0;
}

static void refuse_nothing(void)
{
	memset(&refuse, 0, sizeof(refuse));
	zallocs = 0;
	prim_plan_clear();
}

static struct tide_grace_table *table;
static struct tide_grace *grace;
static struct tide_reason why;

static int try_open(enum tide_grace_kind kind, struct tide_grace_table *of)
{
	int code;

	grace = (struct tide_grace *)&refuse;
	memset(&why, 0, sizeof(why));
	code = tide_grace_open(kind, of, &grace, &why);
	if (code != 0) {
		ck_assert_ptr_null(grace);
		ck_assert_int_eq(why.code, code);
		ck_assert_int_ne(why.message[0], 0);
	}
	return code;
}

/* --- tables ----------------------------------------------------------------------------------- */

START_TEST(bad_tables_cannot_be_made)
{
	char *memory = (char *)table_memory(READERS);

	ck_assert_int_eq(tide_grace_table_init(NULL, READERS, &why), TIDE_BAD_REQUEST);
	ck_assert_int_eq(tide_grace_table_init((void *)(memory + 8), READERS, &why),
			 TIDE_BAD_REQUEST);
	table = (void *)memory;
	ck_assert_int_eq(tide_grace_table_init(table, 0, &why), TIDE_BAD_REQUEST);
	ck_assert_int_eq(tide_grace_table_init(table, (1u << 20) + 1, &why), TIDE_BAD_REQUEST);
	refuse.mutex = ENOTSUP;
	ck_assert_int_eq(tide_grace_table_init(table, READERS, &why), TIDE_SYSTEM_ERROR);
	ck_assert_int_eq(why.sys_errno, ENOTSUP);
	refuse_nothing();
	refuse.name_space = EACCES;
	ck_assert_int_eq(tide_grace_table_init(table, READERS, &why), TIDE_SYSTEM_ERROR);
	ck_assert_int_eq(why.sys_errno, EACCES);
	refuse_nothing();
	/* None of these left a table behind. */
	ck_assert_int_eq(try_open(TIDE_GRACE_SHARED, table), TIDE_BAD_REQUEST);
	table_free(table, READERS);
}
END_TEST

START_TEST(largest_table_works)
{
	const uint32_t readers = 1u << 20;

	ck_assert_uint_eq(tide_grace_table_bytes(readers) % 64, 0);
	ck_assert_uint_eq(tide_grace_table_bytes(2) - tide_grace_table_bytes(1), 64);
	table = table_new(readers);
	ck_assert_int_eq(try_open(TIDE_GRACE_SHARED, table), 0);
	ck_assert_int_eq(tide_grace_wait(grace, FAR_NS, &why), 0);
	tide_grace_close(grace);
	table_free(table, readers);
}
END_TEST

START_TEST(bad_tables_are_refused)
{
	struct tide_grace_table good;

	table = table_new(READERS);
	memcpy(&good, table, sizeof(good));
	ck_assert_int_eq(try_open(TIDE_GRACE_SHARED, NULL), TIDE_BAD_REQUEST);
	ck_assert_int_eq(try_open(TIDE_GRACE_SHARED, (void *)((char *)table + 8)),
			 TIDE_BAD_REQUEST);
	atomic_store(&table->magic, 0);
	ck_assert_int_eq(try_open(TIDE_GRACE_SHARED, table), TIDE_BAD_REQUEST);
	ck_assert_ptr_nonnull(strstr(why.message, "version"));
	atomic_store(&table->magic, TIDE_GRACE_MAGIC);
	table->version++;
	ck_assert_int_eq(try_open(TIDE_GRACE_SHARED, table), TIDE_BAD_REQUEST);
	table->version--;
	table->n_slots = 0;
	ck_assert_int_eq(try_open(TIDE_GRACE_SHARED, table), TIDE_BAD_REQUEST);
	table->n_slots = READERS + 1;
	ck_assert_int_eq(try_open(TIDE_GRACE_SHARED, table), TIDE_BAD_REQUEST);
	table->n_slots = UINT32_MAX;
	ck_assert_int_eq(try_open(TIDE_GRACE_SHARED, table), TIDE_BAD_REQUEST);
	table->n_slots = READERS;
	table->pid_namespace++;
	ck_assert_int_eq(try_open(TIDE_GRACE_SHARED, table), TIDE_BAD_REQUEST);
	ck_assert_ptr_nonnull(strstr(why.message, "PID namespace"));
	table->pid_namespace--;
	refuse.name_space = ENOENT;
	ck_assert_int_eq(try_open(TIDE_GRACE_SHARED, table), TIDE_SYSTEM_ERROR);
	refuse_nothing();
	prim_plan_set(PRIM_READ, 1, 1, EACCES, 0);
	ck_assert_int_eq(try_open(TIDE_GRACE_SHARED, table), TIDE_SYSTEM_ERROR);
	refuse_nothing();
	ck_assert_int_eq(memcmp(&good, table, sizeof(good)), 0);
	ck_assert_int_eq(try_open(TIDE_GRACE_SHARED, table), 0);
	tide_grace_close(grace);
	table_free(table, READERS);
}
END_TEST

START_TEST(bad_requests_to_open)
{
	table = table_new(READERS);
	ck_assert_int_eq(tide_grace_open(TIDE_GRACE_SHARED, table, NULL, &why), TIDE_BAD_REQUEST);
	ck_assert_int_eq(try_open((enum tide_grace_kind)7, table), TIDE_BAD_REQUEST);
	ck_assert_int_eq(try_open(TIDE_GRACE_THREADS, table), TIDE_BAD_REQUEST);
	tide_grace_close(NULL);
	table_free(table, READERS);
}
END_TEST

/* --- what the kernel refuses ------------------------------------------------------------------ */

START_TEST(no_memory_for_a_handle)
{
	table = table_new(READERS);
	for (refuse.zalloc = 1; refuse.zalloc <= 2; refuse.zalloc++) {
		zallocs = 0;
		ck_assert_int_eq(try_open(TIDE_GRACE_SHARED, table), TIDE_NOT_ENOUGH_MEMORY);
		ck_assert_int_eq(why.sys_errno, ENOMEM);
	}
	refuse_nothing();
	ck_assert_int_eq(try_open(TIDE_GRACE_SHARED, table), 0);
	tide_grace_close(grace);
	table_free(table, READERS);
}
END_TEST

START_TEST(no_thread_for_liburcu)
{
	if (TIDE_GRACE_TSAN)
		return; /* liburcu is not used there */
	prim_plan_set(PRIM_THREAD, 1, 1, EAGAIN, 0);
	ck_assert_int_eq(try_open(TIDE_GRACE_THREADS, NULL), TIDE_SYSTEM_ERROR);
	ck_assert_int_eq(why.sys_errno, EAGAIN);
	refuse_nothing();
}
END_TEST

START_TEST(no_value_for_the_thread)
{
	struct tide_reader reader;

	if (TIDE_GRACE_TSAN)
		return;
	ck_assert_int_eq(try_open(TIDE_GRACE_THREADS, NULL), 0);
	refuse.thread_value = ENOMEM;
	ck_assert_int_eq(tide_reader_register(grace, &reader, &why), TIDE_SYSTEM_ERROR);
	ck_assert_int_eq(why.sys_errno, ENOMEM);
	refuse_nothing();
	ck_assert_int_eq(tide_reader_register(grace, &reader, &why), 0);
	tide_reader_unregister(&reader);
	tide_grace_close(grace);
}
END_TEST

START_TEST(threads_do_without_liburcu)
{
	struct tide_reader reader;
	struct actor actor;
	uint64_t ticket;

	refuse_membarrier(_i == 0 ? ENOSYS : EPERM);
	ck_assert_int_eq(try_open(TIDE_GRACE_THREADS, NULL), 0);
	ck_assert_ptr_nonnull(grace->table);
	ck_assert_int_eq(tide_reader_register(grace, &reader, &why), 0);
	ck_assert_uint_eq(reader.mode, TIDE_READER_FENCED);
	ck_assert_uint_eq(tide_reader_index(&reader), 0);
	actor_join(&actor, ACTOR_THREAD, grace);
	actor_do(&actor, ACTOR_ENTER);
	ticket = tide_grace_start(grace);
	tide_grace_barrier(grace);
	grace_never_passes(grace, ticket);
	ck_assert_uint_eq(tide_grace_blockers(grace, ticket, NULL, 0), 0);
	actor_do(&actor, ACTOR_LEAVE);
	grace_until_passed(grace, ticket);
	tide_reader_unregister(&reader);
	actor_leave_all(&actor);
	tide_grace_close(grace);
	refuse_nothing();
}
END_TEST

START_TEST(no_private_table_for_threads)
{
	refuse_membarrier(ENOSYS);
	prim_plan_set(PRIM_MAP, 1, 1, ENOMEM, 0);
	ck_assert_int_eq(try_open(TIDE_GRACE_THREADS, NULL), TIDE_NOT_ENOUGH_MEMORY);
	prim_plan_clear();
	refuse.mutex = ENOTSUP;
	ck_assert_int_eq(try_open(TIDE_GRACE_THREADS, NULL), TIDE_SYSTEM_ERROR);
	refuse.mutex = 0;
	zallocs = 0;
	refuse.zalloc = 2;
	ck_assert_int_eq(try_open(TIDE_GRACE_THREADS, NULL), TIDE_NOT_ENOUGH_MEMORY);
	refuse_nothing();
}
END_TEST

/* Take a place and end without giving it back. */
static void *take_and_go(void *argument)
{
	struct tide_reader reader;

	*(int *)argument = tide_reader_register(grace, &reader, NULL);
	return NULL;
}

START_TEST(private_table_takes_dead_threads_back_itself)
{
	pthread_t thread;
	int code;

	refuse_membarrier(ENOSYS);
	ck_assert_int_eq(try_open(TIDE_GRACE_THREADS, NULL), 0);
	grace->table->n_slots = 3; /* as if it were so small */
	for (int i = 0; i < 20; i++) {
		ck_assert_int_eq(pthread_create(&thread, NULL, take_and_go, &code), 0);
		ck_assert_int_eq(pthread_join(thread, NULL), 0);
		/* The kernel may not have buried the last one yet. */
		ck_assert(code == 0 || code == TIDE_LIMIT_REACHED);
		i -= code != 0;
	}
	tide_grace_close(grace);
	refuse_nothing();
}
END_TEST

START_TEST(processes_do_without_membarrier)
{
	struct tide_reader reader;
	struct tide_grace *other;
	struct actor actor;
	uint64_t ticket;

	table = table_new(READERS);
	refuse_membarrier(EPERM);
	ck_assert_int_eq(try_open(TIDE_GRACE_SHARED, table), 0);
	refuse_nothing();
	/* A process that has it heeds the one that has not. */
	other = grace_new(TIDE_GRACE_SHARED, table);
	ck_assert_int_eq(tide_reader_register(other, &reader, &why), 0);
	ck_assert_uint_eq(reader.mode, TIDE_READER_FENCED);
	ck_assert_uint_eq(atomic_load(&reader.slot->fenced), 1);
	refuse_membarrier(EPERM);
	actor_join(&actor, ACTOR_PROCESS, grace);
	actor_do(&actor, ACTOR_ENTER);
	ticket = tide_grace_start(grace);
	ck_assert_int_eq(tide_grace_poll(grace, ticket), 0);
	tide_reader_enter(&reader);
	actor_do(&actor, ACTOR_LEAVE);
	ck_assert_int_eq(tide_grace_poll(grace, ticket), 1);
	ticket = tide_grace_start(other);
	ck_assert_int_eq(tide_grace_poll(other, ticket), 0);
	tide_reader_leave(&reader);
	ck_assert_int_eq(tide_grace_poll(other, ticket), 1);
	tide_reader_unregister(&reader);
	actor_leave_all(&actor);
	tide_grace_close(other);
	tide_grace_close(grace);
	table_free(table, READERS);
	refuse_nothing();
}
END_TEST

START_TEST(waiter_without_membarrier_is_refused_beside_plain_readers)
{
	struct tide_grace *other;
	struct actor plain, fenced;

	if (TIDE_GRACE_TSAN)
		return; /* no reader is plain there */
	table = table_new(READERS);
	other = grace_new(TIDE_GRACE_SHARED, table);
	/* A participant that is refused fences for itself and is in nobody's way. */
	refuse_membarrier(EPERM);
	actor_join(&fenced, ACTOR_PROCESS, other);
	ck_assert_uint_eq(atomic_load(&table->slots[0].fenced), 1);
	refuse_nothing();
	actor_join(&plain, ACTOR_PROCESS, other);
	ck_assert_uint_eq(atomic_load(&table->slots[1].fenced), 0);
	refuse_membarrier(EPERM);
	ck_assert_int_eq(try_open(TIDE_GRACE_SHARED, table), TIDE_SYSTEM_ERROR);
	ck_assert_ptr_nonnull(strstr(why.message, "slot 1"));
	ck_assert_int_ne(why.hint[0], 0);
	/* The dead need no order. */
	actor_end(&plain);
	ck_assert_int_eq(try_open(TIDE_GRACE_SHARED, table), 0);
	tide_grace_close(grace);
	actor_leave_all(&fenced);
	tide_grace_close(other);
	table_free(table, READERS);
	refuse_nothing();
}
END_TEST

START_TEST(period_waits_until_membarrier_works_again)
{
	struct tide_reader reader;
	uint64_t ticket;

	if (TIDE_GRACE_TSAN)
		return;
	table = table_new(READERS);
	grace = grace_new(TIDE_GRACE_SHARED, table);
	ck_assert_int_eq(tide_reader_register(grace, &reader, &why), 0);
	refuse_membarrier(ENOMEM);
	ticket = tide_grace_start(grace);
	grace_never_passes(grace, ticket);
	ck_assert_int_eq(tide_grace_wait(grace, 1000000, &why), TIDE_PINNED_BUFFERS);
	refuse_nothing();
	ck_assert_int_eq(tide_grace_poll(grace, ticket), 1);
	/* The slow command helps out. */
	refuse_membarrier(ENOMEM);
	refuse.commands = MEMBARRIER_CMD_GLOBAL_EXPEDITED;
	ck_assert_int_eq(tide_grace_poll(grace, tide_grace_start(grace)), 1);
	/* A barrier tries again until it is done. */
	refuse_membarrier(ENOMEM);
	refuse.membarriers = 5;
	tide_grace_barrier(grace);
	ck_assert_uint_eq(refuse.membarriers, 0);
	refuse_nothing();
	tide_reader_unregister(&reader);
	tide_grace_close(grace);
	table_free(table, READERS);
}
END_TEST

START_TEST(broken_lock_keeps_a_waiter_without_membarrier_out)
{
	pid_t process_id;

	table = table_new(READERS);
	process_id = fork();
	if (process_id == 0) {
		(void)tide_grace_table_lock(table);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(process_id, NULL, 0), process_id);
	ck_assert_int_eq(pthread_mutex_lock(&table->registration), EOWNERDEAD);
	pthread_mutex_unlock(&table->registration);
	refuse_membarrier(EPERM);
	ck_assert_int_eq(try_open(TIDE_GRACE_SHARED, table), TIDE_SYSTEM_ERROR);
	ck_assert_int_eq(why.sys_errno, ENOTRECOVERABLE);
	table_free(table, READERS);
	refuse_nothing();
}
END_TEST

/* --- who lives -------------------------------------------------------------------------------- */

START_TEST(lines_of_proc_are_read_behind_any_name)
{
	const char *rest = " S 1 2 3 4 5 4194560 7 8 9 10 11 12 13 14 15 16 17 18 987654 20 21";
	const char *names[] = {"1 (a)", "1 (a b)", "1 (a) R 1 (b)", "1 (()", "1 ())", "1 (\n)"};
	struct tide_participant_stat stat;
	char line[256];

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(line, sizeof(line), "%s%s", names[i], rest);
		ck_assert_int_eq(tide_participant_parse(line, &stat), 0);
		ck_assert_int_eq(stat.state, 'S');
		ck_assert_uint_eq(stat.flags, 4194560);
		ck_assert_uint_eq(stat.start_time, 987654);
	}
	ck_assert_int_eq(tide_participant_parse("", &stat), -EINVAL);
	ck_assert_int_eq(tide_participant_parse("1 (a", &stat), -EINVAL);
	ck_assert_int_eq(tide_participant_parse("1 (a) S 1 2 3", &stat), -EINVAL);
	ck_assert_int_eq(tide_participant_parse("1 (a) S 1 2 3 4 5 x 7", &stat), -EINVAL);
}
END_TEST

START_TEST(who_cannot_be_found_out_about_is_alive)
{
	struct tide_participant self;

	ck_assert_int_eq(tide_participant_self(&self), 0);
	ck_assert_int_eq(tide_participant_is_dead(&self), 0);
	refuse.probe = EPERM;
	ck_assert_int_eq(tide_participant_is_dead(&self), 0);
	prim_plan_set(PRIM_READ, 1, 9, ENOENT, 0); /* as with hidepid, or without /proc */
	ck_assert_int_eq(tide_participant_is_dead(&self), 0);
	refuse.probe = ESRCH;
	ck_assert_int_eq(tide_participant_is_dead(&self), 1);
	refuse_nothing();
}
END_TEST

START_TEST(nobody_registers_without_an_identity)
{
	struct tide_reader reader;

	table = table_new(READERS);
	grace = grace_new(TIDE_GRACE_SHARED, table);
	for (unsigned n = 1; n <= 2; n++) {
		prim_plan_set(PRIM_READ, n, n, EACCES, 0);
		ck_assert_int_eq(tide_reader_register(grace, &reader, &why), TIDE_SYSTEM_ERROR);
		ck_assert_int_eq(why.sys_errno, EACCES);
	}
	prim_plan_clear();
	table->pid_namespace++; /* as after a fork() into another one */
	ck_assert_int_eq(tide_reader_register(grace, &reader, &why), TIDE_SYSTEM_ERROR);
	table->pid_namespace--;
	ck_assert_int_eq(tide_reader_register(grace, &reader, &why), 0);
	tide_reader_unregister(&reader);
	tide_grace_close(grace);
	table_free(table, READERS);
}
END_TEST

/* Runs with ids of its own beneath the /proc of its parent. */
static int in_another_namespace(void)
{
	struct tide_grace *own = NULL;
	struct tide_reader reader;

	if (tide_grace_open(TIDE_GRACE_SHARED, table, &own, &why) != TIDE_BAD_REQUEST ||
	    !strstr(why.message, "/proc"))
		return __LINE__ % 256;
	if (tide_reader_register(grace, &reader, &why) != TIDE_SYSTEM_ERROR)
		return __LINE__ % 256;
	return 0;
}

START_TEST(process_in_another_namespace_is_refused)
{
	pid_t process_id;
	int status;

	table = table_new(READERS);
	grace = grace_new(TIDE_GRACE_SHARED, table);
	process_id = fork();
	if (process_id == 0) {
		pid_t inner;

		if (unshare(CLONE_NEWPID) != 0)
			_exit(TEST_NOT_PERMITTED);
		inner = fork();
		if (inner == 0)
			_exit(in_another_namespace());
		if (inner < 0 || waitpid(inner, &status, 0) != inner || !WIFEXITED(status))
			_exit(1);
		_exit(WEXITSTATUS(status));
	}
	ck_assert_int_eq(waitpid(process_id, &status, 0), process_id);
	ck_assert(WIFEXITED(status));
	ck_assert(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == TEST_NOT_PERMITTED);
	tide_grace_close(grace);
	table_free(table, READERS);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("grace fault");
	TCase *tcase = tcase_create("tables");

	tcase_add_test(tcase, bad_tables_cannot_be_made);
	tcase_add_test(tcase, largest_table_works);
	tcase_add_test(tcase, bad_tables_are_refused);
	tcase_add_test(tcase, bad_requests_to_open);
	suite_add_tcase(suite, tcase);

	tcase = tcase_create("refusals");
	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, no_memory_for_a_handle);
	tcase_add_test(tcase, no_thread_for_liburcu);
	tcase_add_test(tcase, no_value_for_the_thread);
	tcase_add_loop_test(tcase, threads_do_without_liburcu, 0, 2);
	tcase_add_test(tcase, no_private_table_for_threads);
	tcase_add_test(tcase, private_table_takes_dead_threads_back_itself);
	tcase_add_test(tcase, processes_do_without_membarrier);
	tcase_add_test(tcase, waiter_without_membarrier_is_refused_beside_plain_readers);
	tcase_add_test(tcase, period_waits_until_membarrier_works_again);
	tcase_add_test(tcase, broken_lock_keeps_a_waiter_without_membarrier_out);
	suite_add_tcase(suite, tcase);

	tcase = tcase_create("identity");
	tcase_add_test(tcase, lines_of_proc_are_read_behind_any_name);
	tcase_add_test(tcase, who_cannot_be_found_out_about_is_alive);
	tcase_add_test(tcase, nobody_registers_without_an_identity);
	tcase_add_test(tcase, process_in_another_namespace_is_refused);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
