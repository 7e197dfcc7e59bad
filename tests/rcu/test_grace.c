/* SPDX-License-Identifier: PostgreSQL */
/* test_grace.c - sections delay the grace periods that they must, and no others. */
#include "grace_actor.h"

#define READERS 8u

/* Who shares what with whom; each test runs once for each. */
static const struct {
	enum tide_grace_kind kind;
	enum actor_kind actors;
} setups[] = {
	{TIDE_GRACE_SHARED, ACTOR_THREAD},
	{TIDE_GRACE_SHARED, ACTOR_PROCESS},
	{TIDE_GRACE_THREADS, ACTOR_THREAD},
};
#define SETUPS 3

static struct tide_grace_table *table;
static struct tide_grace *grace;

static void set_up(int setup)
{
	table = setups[setup].kind == TIDE_GRACE_SHARED ? table_new(READERS) : NULL;
	grace = grace_new(setups[setup].kind, table);
}

static void tear_down(void)
{
	tide_grace_close(grace);
	if (table)
		table_free(table, READERS);
}

START_TEST(nobody_is_in_the_way_of_nobody)
{
	struct tide_reason why;
	uint64_t ticket;

	set_up(_i);
	ticket = tide_grace_start(grace);
	grace_until_passed(grace, ticket);
	ck_assert_int_eq(tide_grace_poll(grace, ticket), 1);
	ck_assert_int_eq(tide_grace_wait(grace, 0, &why), 0);
	tide_grace_barrier(grace);
	tear_down();
}
END_TEST

START_TEST(section_delays_what_starts_in_it)
{
	uint64_t before, first, second;
	struct actor actor;

	set_up(_i);
	actor_join(&actor, setups[_i].actors, grace);
	before = tide_grace_start(grace);
	grace_until_passed(grace, before);
	actor_do(&actor, ACTOR_ENTER);
	first = tide_grace_start(grace);
	second = tide_grace_start(grace);
	ck_assert_uint_lt(first, second);
	ck_assert_int_eq(tide_grace_poll(grace, before), 1);
	grace_never_passes(grace, first);
	grace_never_passes(grace, second);
	actor_do(&actor, ACTOR_LEAVE);
	grace_until_passed(grace, second);
	ck_assert_int_eq(tide_grace_poll(grace, first), 1);
	actor_leave_all(&actor);
	tear_down();
}
END_TEST

START_TEST(section_does_not_delay_what_started_before)
{
	struct actor older, younger;
	uint64_t first, second;

	set_up(_i);
	actor_join(&older, setups[_i].actors, grace);
	actor_join(&younger, setups[_i].actors, grace);
	actor_do(&older, ACTOR_ENTER);
	first = tide_grace_start(grace);
	actor_do(&younger, ACTOR_ENTER);
	second = tide_grace_start(grace);
	grace_never_passes(grace, first);
	actor_do(&older, ACTOR_LEAVE);
	/* liburcu makes a period longer than it must be when another one is asked for meanwhile. */
	if (table) {
		grace_until_passed(grace, first);
		grace_never_passes(grace, second);
	}
	actor_do(&younger, ACTOR_LEAVE);
	grace_until_passed(grace, first);
	grace_until_passed(grace, second);
	actor_leave_all(&older);
	actor_leave_all(&younger);
	tear_down();
}
END_TEST

START_TEST(sections_nest)
{
	struct actor actor;
	uint64_t ticket;

	set_up(_i);
	actor_join(&actor, setups[_i].actors, grace);
	actor_do(&actor, ACTOR_ENTER);
	actor_do(&actor, ACTOR_ENTER);
	actor_do(&actor, ACTOR_ENTER);
	ticket = tide_grace_start(grace);
	actor_do(&actor, ACTOR_LEAVE);
	grace_never_passes(grace, ticket);
	/* What is entered later belongs to the outer section. */
	actor_do(&actor, ACTOR_ENTER);
	actor_do(&actor, ACTOR_LEAVE);
	actor_do(&actor, ACTOR_LEAVE);
	grace_never_passes(grace, ticket);
	actor_do(&actor, ACTOR_LEAVE);
	grace_until_passed(grace, ticket);
	actor_leave_all(&actor);
	tear_down();
}
END_TEST

START_TEST(barrier_and_start_are_allowed_in_a_section)
{
	struct tide_reader reader;
	uint64_t ticket;

	set_up(_i);
	ck_assert_int_eq(tide_reader_register(grace, &reader, NULL), 0);
	tide_reader_enter(&reader);
	tide_grace_barrier(grace);
	ticket = tide_grace_start(grace);
	grace_never_passes(grace, ticket);
	tide_reader_leave(&reader);
	grace_until_passed(grace, ticket);
	tide_reader_unregister(&reader);
	tear_down();
}
END_TEST

START_TEST(thread_may_have_two_readers)
{
	struct tide_reader a, b;
	uint64_t ticket;

	set_up(_i);
	ck_assert_int_eq(tide_reader_register(grace, &a, NULL), 0);
	ck_assert_int_eq(tide_reader_register(grace, &b, NULL), 0);
	tide_reader_enter(&a);
	ticket = tide_grace_start(grace);
	tide_reader_enter(&b);
	tide_reader_leave(&b);
	tide_reader_unregister(&b);
	ck_assert_int_eq(tide_grace_poll(grace, ticket), 0);
	tide_reader_leave(&a);
	grace_until_passed(grace, ticket);
	tide_reader_unregister(&a);
	tide_reader_unregister(&a); /* once more does nothing */
	tear_down();
}
END_TEST

START_TEST(wait_gives_up_and_names_who_is_in_the_way)
{
	struct tide_reason why = {0};
	struct actor actor;
	char name[32];

	set_up(_i);
	actor_join(&actor, setups[_i].actors, grace);
	actor_do(&actor, ACTOR_ENTER);
	ck_assert_int_eq(tide_grace_wait(grace, 20000000, &why), TIDE_PINNED_BUFFERS);
	if (table) {
		snprintf(name, sizeof(name), "process %d,",
			 (int)(actor.kind == ACTOR_PROCESS ? actor.process_id : getpid()));
		ck_assert_ptr_nonnull(strstr(why.message, name));
		ck_assert_ptr_nonnull(strstr(why.hint, "1 readers"));
	} else if (!TIDE_GRACE_TSAN) {
		ck_assert_ptr_nonnull(strstr(why.message, "within 20 ms"));
	}
	ck_assert_int_eq(tide_grace_wait(grace, 1, NULL), TIDE_PINNED_BUFFERS);
	actor_do(&actor, ACTOR_LEAVE);
	ck_assert_int_eq(tide_grace_wait(grace, FAR_NS, &why), 0);
	ck_assert_int_eq(tide_grace_wait(grace, 0, &why), 0);
	actor_leave_all(&actor);
	tear_down();
}
END_TEST

static void *wait_for_it(void *unused)
{
	(void)unused;
	ck_assert_int_eq(tide_grace_wait(grace, 0, NULL), 0);
	return NULL;
}

START_TEST(wait_without_limit_ends_with_the_section)
{
	struct actor actor;
	pthread_t waiter;

	set_up(_i);
	actor_join(&actor, setups[_i].actors, grace);
	actor_do(&actor, ACTOR_ENTER);
	ck_assert_int_eq(pthread_create(&waiter, NULL, wait_for_it, NULL), 0);
	usleep(20000); /* only to let it reach its longer sleeps */
	ck_assert_int_eq(pthread_tryjoin_np(waiter, NULL), EBUSY);
	actor_do(&actor, ACTOR_LEAVE);
	ck_assert_int_eq(pthread_join(waiter, NULL), 0);
	actor_leave_all(&actor);
	tear_down();
}
END_TEST

START_TEST(ticket_is_good_in_another_handle)
{
	struct tide_grace *other;
	struct actor actor;
	uint64_t ticket;

	table = table_new(READERS);
	grace = grace_new(TIDE_GRACE_SHARED, table);
	other = grace_new(TIDE_GRACE_SHARED, table);
	actor_join(&actor, ACTOR_PROCESS, grace);
	actor_do(&actor, ACTOR_ENTER);
	ticket = tide_grace_start(grace);
	ck_assert_int_eq(tide_grace_poll(other, ticket), 0);
	actor_do(&actor, ACTOR_LEAVE);
	ck_assert_int_eq(tide_grace_poll(other, ticket), 1);
	ck_assert_int_eq(tide_grace_poll(grace, ticket), 1);
	ck_assert_int_eq(tide_grace_poll(grace, ticket + 1), 0); /* nobody has it */
	actor_leave_all(&actor);
	tide_grace_close(other);
	tear_down();
}
END_TEST

/* A reader that loaded the epoch, was away for long, and stores it when everybody has gone on. */
START_TEST(late_store_of_an_old_epoch_takes_nothing_back)
{
	struct tide_reader reader;
	uint64_t ticket, later;

	table = table_new(READERS);
	grace = grace_new(TIDE_GRACE_SHARED, table);
	ck_assert_int_eq(tide_reader_register(grace, &reader, NULL), 0);
	ticket = tide_grace_start(grace);
	ck_assert_int_eq(tide_grace_poll(grace, ticket), 1);
	atomic_store(&reader.slot->epoch, ticket - 1);
	ck_assert_int_eq(tide_grace_poll(grace, ticket), 1);
	ck_assert_uint_eq(tide_grace_blockers(grace, ticket, NULL, 0), 0);
	later = tide_grace_start(grace);
	ck_assert_int_eq(tide_grace_poll(grace, later), 0);
	atomic_store(&reader.slot->epoch, 0);
	ck_assert_int_eq(tide_grace_poll(grace, later), 1);
	tide_reader_unregister(&reader);
	tear_down();
}
END_TEST

START_TEST(modes_and_indexes)
{
	struct tide_reader a, b;
	uint32_t n = 77;

	set_up(_i);
	ck_assert_int_eq(tide_reader_register(grace, &a, NULL), 0);
	ck_assert_int_eq(tide_reader_register(grace, &b, NULL), 0);
	if (setups[_i].kind == TIDE_GRACE_SHARED) {
		ck_assert_uint_eq(a.mode, TIDE_GRACE_TSAN ? TIDE_READER_FENCED : TIDE_READER_PLAIN);
		ck_assert_uint_eq(tide_reader_index(&a), 0);
		ck_assert_uint_eq(tide_reader_index(&b), 1);
		ck_assert_ptr_eq(&tide_grace_slots(grace, &n)[1], b.slot);
		ck_assert_uint_eq(n, 2);
		ck_assert_int_eq(tide_grace_alive(grace, 1), 1);
		ck_assert_int_eq(tide_grace_alive(grace, 2), 0);
		ck_assert_int_eq(tide_grace_alive(grace, READERS), 0);
		tide_reader_unregister(&b);
		ck_assert_int_eq(tide_grace_alive(grace, 1), 0);
	} else {
		ck_assert_uint_eq(a.mode,
				  TIDE_GRACE_TSAN ? TIDE_READER_FENCED : TIDE_READER_LIBURCU);
		ck_assert_uint_eq(tide_reader_index(&a), 0);
		ck_assert_uint_eq(tide_reader_index(&b), 0);
		ck_assert_ptr_null(tide_grace_slots(grace, &n));
		ck_assert_uint_eq(n, 0);
		ck_assert_int_eq(tide_grace_alive(grace, 0), 0);
		ck_assert_uint_eq(tide_grace_reap(grace, NULL, NULL), 0);
		ck_assert_uint_eq(tide_grace_blockers(grace, tide_grace_start(grace), NULL, 0), 0);
		tide_reader_unregister(&b);
	}
	tide_reader_unregister(&a);
	tear_down();
}
END_TEST

/* --- deferred calls --------------------------------------------------------------------------- */

static uintptr_t called[2 * TIDE_GRACE_DEFERRED_MAX];
static unsigned n_called;

static void call(void *argument)
{
	called[n_called++] = (uintptr_t)argument;
}

static int defer(uintptr_t number, struct tide_reason *why)
{
	return tide_grace_defer(grace, call, (void *)number, why);
}

static void run_until_none_left(void)
{
	while (tide_grace_run(grace) > 0)
		usleep(100);
}

START_TEST(deferred_calls_run_after_their_period_in_order)
{
	struct actor actor;

	n_called = 0;
	set_up(_i);
	ck_assert_uint_eq(tide_grace_run(grace), 0);
	actor_join(&actor, setups[_i].actors, grace);
	actor_do(&actor, ACTOR_ENTER);
	for (uintptr_t i = 0; i < 5; i++)
		ck_assert_int_eq(defer(i, NULL), 0);
	ck_assert_uint_eq(tide_grace_run(grace), 5);
	ck_assert_uint_eq(n_called, 0);
	actor_do(&actor, ACTOR_LEAVE);
	run_until_none_left();
	ck_assert_uint_eq(n_called, 5);
	for (unsigned i = 0; i < 5; i++)
		ck_assert_uint_eq(called[i], i);
	actor_leave_all(&actor);
	tear_down();
}
END_TEST

START_TEST(deferred_calls_are_bounded)
{
	struct tide_reason why = {0};
	struct actor actor;

	n_called = 0;
	set_up(_i);
	actor_join(&actor, setups[_i].actors, grace);
	actor_do(&actor, ACTOR_ENTER);
	for (uintptr_t i = 0; i < TIDE_GRACE_DEFERRED_MAX; i++)
		ck_assert_int_eq(defer(i, &why), 0);
	ck_assert_int_eq(defer(9999, &why), TIDE_LIMIT_REACHED);
	ck_assert_ptr_nonnull(strstr(why.message, "1024"));
	ck_assert_uint_eq(tide_grace_run(grace), TIDE_GRACE_DEFERRED_MAX);
	ck_assert_uint_eq(n_called, 0);
	actor_do(&actor, ACTOR_LEAVE);
	/* The next one makes room for itself. */
	while (defer(TIDE_GRACE_DEFERRED_MAX, &why) != 0)
		usleep(100);
	run_until_none_left();
	ck_assert_uint_eq(n_called, TIDE_GRACE_DEFERRED_MAX + 1);
	for (unsigned i = 0; i < n_called; i++)
		ck_assert_uint_eq(called[i], i);
	actor_leave_all(&actor);
	tear_down();
}
END_TEST

static void *end_section_later(void *argument)
{
	usleep(20000);
	actor_do(argument, ACTOR_LEAVE);
	return NULL;
}

START_TEST(close_carries_out_what_is_deferred)
{
	struct actor actor;
	pthread_t helper;

	n_called = 0;
	set_up(_i);
	actor_join(&actor, setups[_i].actors, grace);
	actor_do(&actor, ACTOR_ENTER);
	ck_assert_int_eq(defer(1, NULL), 0);
	ck_assert_int_eq(defer(2, NULL), 0);
	/* An actor of another process may stay; a thread would have to leave us before. */
	if (setups[_i].actors == ACTOR_PROCESS) {
		ck_assert_int_eq(pthread_create(&helper, NULL, end_section_later, &actor), 0);
		tide_grace_close(grace);
		ck_assert_int_eq(pthread_join(helper, NULL), 0);
		actor_leave_all(&actor);
	} else {
		actor_do(&actor, ACTOR_LEAVE);
		actor_leave_all(&actor);
		tide_grace_close(grace);
	}
	ck_assert_uint_eq(n_called, 2);
	ck_assert_uint_eq(called[0], 1);
	ck_assert_uint_eq(called[1], 2);
	if (table)
		table_free(table, READERS);
}
END_TEST

static void call_again(void *argument)
{
	unsigned *left = argument;

	n_called++;
	if (--*left > 0)
		ck_assert_int_eq(tide_grace_defer(grace, call_again, left, NULL), 0);
}

START_TEST(deferred_call_may_defer)
{
	unsigned left = 3;

	n_called = 0;
	set_up(_i);
	ck_assert_int_eq(tide_grace_defer(grace, call_again, &left, NULL), 0);
	while (n_called == 0)
		ck_assert_uint_eq(tide_grace_run(grace), 1); /* not what it deferred as well */
	ck_assert_uint_eq(n_called, 1);
	tear_down();
	ck_assert_uint_eq(n_called, 3);
}
END_TEST

static atomic_uint n_counted;

static void count(void *unused)
{
	(void)unused;
	atomic_fetch_add(&n_counted, 1);
}

static void *defer_many(void *unused)
{
	for (int i = 0; i < 2000; i++)
		while (tide_grace_defer(grace, count, unused, NULL) != 0)
			sched_yield();
	return NULL;
}

START_TEST(threads_defer_at_once_and_nothing_is_lost)
{
	pthread_t threads[3];

	set_up(_i);
	atomic_store(&n_counted, 0);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, defer_many, NULL), 0);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	tear_down();
	ck_assert_uint_eq(atomic_load(&n_counted), 6000);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("grace");
	TCase *tcase = tcase_create("sections");

	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, nobody_is_in_the_way_of_nobody, 0, SETUPS);
	tcase_add_loop_test(tcase, section_delays_what_starts_in_it, 0, SETUPS);
	tcase_add_loop_test(tcase, section_does_not_delay_what_started_before, 0, SETUPS);
	tcase_add_loop_test(tcase, sections_nest, 0, SETUPS);
	tcase_add_loop_test(tcase, barrier_and_start_are_allowed_in_a_section, 0, SETUPS);
	tcase_add_loop_test(tcase, thread_may_have_two_readers, 0, SETUPS);
	tcase_add_loop_test(tcase, wait_gives_up_and_names_who_is_in_the_way, 0, SETUPS);
	tcase_add_loop_test(tcase, wait_without_limit_ends_with_the_section, 0, SETUPS);
	tcase_add_test(tcase, ticket_is_good_in_another_handle);
	tcase_add_test(tcase, late_store_of_an_old_epoch_takes_nothing_back);
	tcase_add_loop_test(tcase, modes_and_indexes, 0, SETUPS);
	suite_add_tcase(suite, tcase);

	tcase = tcase_create("deferred calls");
	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, deferred_calls_run_after_their_period_in_order, 0, SETUPS);
	tcase_add_loop_test(tcase, deferred_calls_are_bounded, 0, SETUPS);
	tcase_add_loop_test(tcase, close_carries_out_what_is_deferred, 0, SETUPS);
	tcase_add_loop_test(tcase, deferred_call_may_defer, 0, SETUPS);
	tcase_add_loop_test(tcase, threads_defer_at_once_and_nothing_is_lost, 0, SETUPS);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
