/* SPDX-License-Identifier: PostgreSQL */
/* Tests of unsynced.c: which files have to be synced. */
#include "pool_fixture.h"

#include "pool/lock.h"

static struct unsynced *set_up(void)
{
	struct unsynced *unsynced = fx_shared(sizeof(*unsynced));

	ck_assert_int_eq(lock_init(&unsynced->lock), 0);
	return unsynced;
}

/* Files that need a sync; *sum = of their numbers. */
static uint32_t count(struct unsynced *unsynced, uint64_t *sum)
{
	uint64_t file, writes;
	uint32_t at = 0, n = 0;

	*sum = 0;
	while (unsynced_next(unsynced, &at, &file, &writes)) {
		*sum += file;
		n++;
	}
	return n;
}

START_TEST(files_come_and_go)
{
	struct unsynced *unsynced = set_up();
	uint64_t file, writes, sum;
	uint32_t at = 0;

	ck_assert_uint_eq(count(unsynced, &sum), 0);
	ck_assert_int_eq(unsynced_note(unsynced, 0), 1);
	ck_assert_int_eq(unsynced_note(unsynced, 7), 1);
	ck_assert_int_eq(unsynced_note(unsynced, 7), 1);
	ck_assert_uint_eq(count(unsynced, &sum), 2);
	ck_assert_uint_eq(sum, 7);
	while (unsynced_next(unsynced, &at, &file, &writes))
		unsynced_done(unsynced, file, writes);
	ck_assert_uint_eq(count(unsynced, &sum), 0);
	ck_assert_int_eq(unsynced_note(unsynced, 7), 1);
	ck_assert_uint_eq(count(unsynced, &sum), 1);
	ck_assert_uint_eq(sum, 7);
}
END_TEST

/* What was written after the sync began is not covered by it. */
START_TEST(later_writes_are_not_covered)
{
	struct unsynced *unsynced = set_up();
	uint64_t file, writes, sum;
	uint32_t at = 0;

	(void)unsynced_note(unsynced, 3);
	ck_assert_int_eq(unsynced_next(unsynced, &at, &file, &writes), 1);
	(void)unsynced_note(unsynced, 3);
	unsynced_done(unsynced, 3, writes);
	ck_assert_uint_eq(count(unsynced, &sum), 1);
	/* Nor does an older sync that ends later undo a newer one. */
	unsynced_done(unsynced, 3, unsynced_writes(unsynced, 3));
	ck_assert_uint_eq(count(unsynced, &sum), 0);
	unsynced_done(unsynced, 3, writes);
	ck_assert_uint_eq(count(unsynced, &sum), 0);
	unsynced_done(unsynced, 99, 5);
	ck_assert_uint_eq(unsynced_writes(unsynced, 99), 0);
}
END_TEST

START_TEST(places_run_out)
{
	struct unsynced *unsynced = set_up();
	uint64_t sum;

	for (uint64_t file = 0; file < UNSYNCED_FILES; file++)
		ck_assert_int_eq(unsynced_note(unsynced, file * 1024), 1);
	ck_assert_int_eq(unsynced_note(unsynced, 5), 0);
	ck_assert_int_eq(unsynced_note(unsynced, 1024), 1);
	ck_assert_uint_eq(count(unsynced, &sum), UNSYNCED_FILES);
	unsynced_done(unsynced, 2048, unsynced_writes(unsynced, 2048));
	ck_assert_int_eq(unsynced_note(unsynced, 5), 1);
	ck_assert_int_eq(unsynced_note(unsynced, 2048), 0);
	ck_assert_uint_eq(count(unsynced, &sum), UNSYNCED_FILES);
}
END_TEST

/* A sync that began before the file lost its place says nothing about writes after it has one again. */
START_TEST(file_that_lost_its_place_begins_anew)
{
	struct unsynced *unsynced = set_up();
	uint64_t sum, before;

	for (int i = 0; i < 5; i++)
		(void)unsynced_note(unsynced, 1);
	before = unsynced_writes(unsynced, 1);
	unsynced_done(unsynced, 1, before);
	(void)unsynced_note(unsynced, 2); /* takes the place */
	for (int i = 0; i < 5; i++)
		(void)unsynced_note(unsynced, 1);
	unsynced_done(unsynced, 1, before);
	unsynced_done(unsynced, 2, unsynced_writes(unsynced, 2));
	ck_assert_uint_eq(count(unsynced, &sum), 1);
	ck_assert_uint_eq(sum, 1);
}
END_TEST

/* Who dies with the lock leaves a list that others go on with. */
START_TEST(lock_of_a_dead)
{
	struct unsynced *unsynced = set_up();
	uint64_t sum;
	pid_t child = fork();

	if (child == 0) {
		(void)unsynced_note(unsynced, 4);
		lock_take(&unsynced->lock);
		_exit(0);
	}
	ck_assert_int_eq(fx_reap_child(child), 0);
	ck_assert_uint_eq(count(unsynced, &sum), 1);
	ck_assert_uint_eq(sum, 4);
}
END_TEST

START_TEST(lock_is_had_by_one)
{
	pthread_mutex_t *lock = fx_shared(sizeof(*lock));
	pid_t child;

	ck_assert_int_eq(lock_init(lock), 0);
	ck_assert_int_eq(lock_try(lock), 1);
	child = fork();
	if (child == 0)
		_exit(lock_try(lock));
	ck_assert_int_eq(fx_reap_child(child), 0);
	lock_release(lock);
	child = fork();
	if (child == 0)
		_exit(!lock_try(lock));
	ck_assert_int_eq(fx_reap_child(child), 0);
	ck_assert_int_eq(lock_try(lock), 1);
	lock_release(lock);
}
END_TEST

int main(void)
{
	const struct fx_test tests[] = {
		FX_TEST(files_come_and_go), FX_TEST(later_writes_are_not_covered),
		FX_TEST(places_run_out),    FX_TEST(file_that_lost_its_place_begins_anew),
		FX_TEST(lock_of_a_dead),    FX_TEST(lock_is_had_by_one),
	};

	return fx_run("pool-unsynced", tests, sizeof(tests) / sizeof(tests[0]));
}
