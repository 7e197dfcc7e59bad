/* SPDX-License-Identifier: PostgreSQL */
/* test_commit.c - commit and decommit: exact sizes, all or nothing, signals, threads. */
#include "faulty_prim.h"
#include "fixture.h"

#include <sys/time.h>

#define REGION_BYTES (48 * MIB)

static char folder[64];
static int huge_pages;

static struct tide_region *reserve_backing(int backing, unsigned threads)
{
	struct tide_region_config config = fixture_config(TIDE_HUGE_OFF, REGION_BYTES);
	struct tide_region *region;

	if (backing == TIDE_BACKING_HUGETLB && !huge_pages)
		return NULL;
	if (backing == TIDE_BACKING_HUGETLB)
		config.huge = TIDE_HUGE_ON;
	if (backing == TIDE_BACKING_THP) {
		config.huge = TIDE_HUGE_TRY;
		config.machine = fixture_thp_machine(folder);
	}
	config.commit_threads = threads;
	region = fixture_reserve(&config);
	ck_assert_int_eq((int)tide_region_info(region)->backing, backing);
	return region;
}

/* Every page of the range is there: reading it changes nothing. */
static void expect_populated(const struct tide_region *region, struct tide_range range)
{
	const volatile char *base = tide_region_info(region)->base;
	const uint64_t before = fixture_audit(region);

	for (uint64_t at = range.offset; at < range.offset + range.bytes; at += 4096)
		ck_assert_int_eq(base[at], 0);
	ck_assert_uint_eq(fixture_audit(region), before);
}

START_TEST(lists_are_committed_to_the_byte)
{
	const struct tide_range list[] = {
		{0, 2 * MIB}, {2 * MIB, 2 * MIB}, {20 * MIB, 6 * MIB}, {10 * MIB, 4 * MIB}};
	struct tide_region *region = reserve_backing(_i, 0);
	struct tide_reason why;

	if (!region)
		return;
	ck_assert_int_eq(tide_region_commit(region, list, 0, &why), 0);
	ck_assert_uint_eq(fixture_audit(region), 0);
	ck_assert_int_eq(tide_region_commit(region, list, 4, &why), 0);
	ck_assert_uint_eq(fixture_audit(region), 14 * MIB);
	for (int i = 0; i < 4; i++)
		expect_populated(region, list[i]);
	ck_assert_int_eq(tide_region_decommit(region, &list[1], 2, &why), 0);
	ck_assert_uint_eq(fixture_audit(region), 6 * MIB);
	expect_populated(region, list[0]);
	expect_populated(region, list[3]);
	/* What holds nothing can be given back without harm. */
	ck_assert_int_eq(tide_region_decommit(region, list, 4, &why), 0);
	ck_assert_uint_eq(fixture_audit(region), 0);
	tide_region_release(region);
}
END_TEST

START_TEST(neighbours_cost_one_call)
{
	struct tide_region *region = reserve_backing(TIDE_BACKING_BASE, 1);
	struct tide_range list[64];
	struct tide_reason why;

	for (unsigned i = 0; i < 64; i++)
		list[i] = (struct tide_range){i * 4096, 4096};
	prim_plan_clear();
	ck_assert_int_eq(tide_region_commit(region, list, 64, &why), 0);
	ck_assert_uint_eq(atomic_load(&prim_counts[PRIM_ADVISE]), 1);
	prim_plan_clear();
	ck_assert_int_eq(tide_region_decommit(region, list, 64, &why), 0);
	ck_assert_uint_eq(atomic_load(&prim_counts[PRIM_FALLOCATE]), 1);
	tide_region_release(region);
}
END_TEST

START_TEST(memory_comes_back_zeroed)
{
	struct tide_region *region = reserve_backing(_i, 0);
	char *base;

	if (!region)
		return;
	base = tide_region_info(region)->base;
	fixture_commit(region, 0, 4 * MIB);
	memset(base, 'x', 4 * MIB);
	fixture_decommit(region, 2 * MIB, 2 * MIB);
	fixture_commit(region, 2 * MIB, 2 * MIB);
	expect_populated(region, (struct tide_range){2 * MIB, 2 * MIB});
	ck_assert_int_eq(base[2 * MIB - 1], 'x');
	tide_region_release(region);
}
END_TEST

/* Old memory of 4 MiB, new memory in two places; from the n-th call on all fail, half-way. */
static void fail_and_expect_nothing(struct tide_region *region, int error, int code)
{
	const struct tide_range list[] = {{8 * MIB, 12 * MIB}, {24 * MIB, 12 * MIB}};
	struct tide_reason why;

	for (unsigned n = 1; n <= 3; n++) {
		memset(&why, 0, sizeof(why));
		prim_plan_set(PRIM_ADVISE, n, UINT32_MAX, error, 1);
		ck_assert_int_eq(tide_region_commit(region, list, 2, &why), code);
		prim_plan_clear();
		ck_assert_int_eq(why.code, code);
		ck_assert_int_eq(why.sys_errno, error);
		ck_assert_str_ne(why.message, "");
		ck_assert_uint_eq(fixture_audit(region), 4 * MIB);
	}
	prim_plan_set(PRIM_ADVISE, 1, UINT32_MAX, error, 1);
	ck_assert_int_eq(tide_region_commit(region, list, 2, NULL), code);
	prim_plan_clear();
	ck_assert_int_eq(tide_region_commit(region, list, 2, &why), 0);
	ck_assert_uint_eq(fixture_audit(region), 28 * MIB);
	ck_assert_int_eq(tide_region_decommit(region, list, 2, &why), 0);
}

START_TEST(a_failure_leaves_what_was_there)
{
	const int hugetlb = _i == TIDE_BACKING_HUGETLB;

	for (unsigned threads = 1; threads <= 2; threads++) {
		struct tide_region *region = reserve_backing(_i, threads);

		if (!region)
			return;
		fixture_commit(region, 0, 4 * MIB);
		fail_and_expect_nothing(region, ENOMEM,
					hugetlb ? TIDE_HUGEPAGES_SHORT : TIDE_NOT_ENOUGH_MEMORY);
		fail_and_expect_nothing(region, EFAULT,
					hugetlb ? TIDE_HUGEPAGES_SHORT : TIDE_SYSTEM_ERROR);
		fail_and_expect_nothing(region, EHWPOISON, TIDE_SYSTEM_ERROR);
		ck_assert_uint_eq(fixture_audit(region), 4 * MIB);
		tide_region_release(region);
	}
}
END_TEST

START_TEST(the_quantities_of_a_failure_are_exact)
{
	struct tide_region *region = reserve_backing(TIDE_BACKING_BASE, 1);
	const struct tide_range range = {0, 40 * MIB};
	struct tide_reason why;

	/* Pieces are 10 MiB; the third fails after the first half of it, cut to 2 MiB. */
	prim_plan_set(PRIM_ADVISE, 3, 3, ENOMEM, 1);
	ck_assert_int_eq(tide_region_commit(region, &range, 1, &why), TIDE_NOT_ENOUGH_MEMORY);
	prim_plan_clear();
	ck_assert_uint_eq(why.want_bytes, 40 * MIB);
	ck_assert_uint_eq(why.have_bytes, 24 * MIB);
	ck_assert_uint_eq(fixture_audit(region), 0);
	tide_region_release(region);
}
END_TEST

START_TEST(memory_that_cannot_be_given_back_is_told)
{
	struct tide_region *region = reserve_backing(TIDE_BACKING_BASE, 1);
	const struct tide_range list[] = {{0, 4 * MIB}, {8 * MIB, 4 * MIB}};
	struct tide_reason why;

	fixture_commit(region, 20 * MIB, 4 * MIB);
	prim_plan_set(PRIM_FALLOCATE, 1, 1, EIO, 0);
	ck_assert_int_eq(tide_region_decommit(region, list, 2, &why), TIDE_SYSTEM_ERROR);
	ck_assert_int_eq(why.sys_errno, EIO);
	ck_assert_uint_eq(fixture_audit(region), 4 * MIB);
	tide_region_release(region);
}
END_TEST

START_TEST(an_old_kernel_allocates_instead)
{
	const struct tide_range list[] = {{8 * MIB, 12 * MIB}, {24 * MIB, 12 * MIB}};
	struct tide_region *region = reserve_backing(_i, 2);
	struct tide_reason why;

	if (!region)
		return;
	prim_plan_set(PRIM_ADVISE, 1, UINT32_MAX, EINVAL, 0);
	ck_assert_int_eq(tide_region_commit(region, list, 2, &why), 0);
	ck_assert_uint_ge(atomic_load(&prim_counts[PRIM_FALLOCATE]), 6);
	ck_assert_uint_le(atomic_load(&prim_counts[PRIM_ADVISE]), 2);
	prim_plan_clear();
	ck_assert_uint_eq(fixture_audit(region), 24 * MIB);
	expect_populated(region, list[0]);
	expect_populated(region, list[1]);
	tide_region_release(region);
}
END_TEST

/* The calling thread may take signals, helper threads none. */
static atomic_int helper_calls, helpers_that_take_signals;

static void watch_signals(enum prim_call call)
{
	sigset_t mask;

	if (call != PRIM_ADVISE || gettid() == getpid())
		return;
	atomic_fetch_add(&helper_calls, 1);
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	for (int signal = 1; signal < 32; signal++)
		if (signal != SIGKILL && signal != SIGSTOP && !sigismember(&mask, signal))
			atomic_fetch_add(&helpers_that_take_signals, 1);
}

static nlink_t count_threads(void)
{
	struct stat status;

	ck_assert_int_eq(stat("/proc/self/task", &status), 0);
	return status.st_nlink - 2;
}

START_TEST(helpers_block_signals_and_end_with_the_call)
{
	struct tide_region *region = reserve_backing(TIDE_BACKING_BASE, 4);
	sigset_t before, after;
	nlink_t threads;
	int tries = 0;

	/* Whoever else starts a thread with the first one, as a sanitizer may, has done so. */
	fixture_commit(region, 0, REGION_BYTES);
	fixture_decommit(region, 0, REGION_BYTES);
	threads = count_threads();
	pthread_sigmask(SIG_SETMASK, NULL, &before);
	prim_observer = watch_signals;
	/* A helper that is slow to start may find nothing left to do. */
	while (atomic_load(&helper_calls) == 0 && tries++ < 100) {
		fixture_commit(region, 0, REGION_BYTES);
		fixture_decommit(region, 0, REGION_BYTES);
	}
	prim_observer = NULL;
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	ck_assert_int_gt(atomic_load(&helper_calls), 0);
	ck_assert_int_eq(atomic_load(&helpers_that_take_signals), 0);
	for (int signal = 1; signal < 32; signal++)
		ck_assert_int_eq(sigismember(&before, signal), sigismember(&after, signal));
	/* A thread that was joined is listed until the kernel has cleaned up after it. */
	for (tries = 0; count_threads() > threads && tries < 1000000; tries++)
		sched_yield();
	ck_assert_uint_le(count_threads(), threads);
	tide_region_release(region);
}
END_TEST

START_TEST(helpers_that_cannot_be_had_are_done_without)
{
	struct tide_region *region = reserve_backing(TIDE_BACKING_BASE, 4);

	for (unsigned n = 1; n <= 3; n++) {
		prim_plan_set(PRIM_THREAD, n, UINT32_MAX, EAGAIN, 0);
		fixture_commit(region, 0, REGION_BYTES);
		ck_assert_uint_eq(atomic_load(&prim_counts[PRIM_THREAD]), n);
		ck_assert_uint_eq(fixture_audit(region), REGION_BYTES);
		fixture_decommit(region, 0, REGION_BYTES);
	}
	prim_plan_clear();
	tide_region_release(region);
}
END_TEST

static atomic_int alarms;

static void on_alarm(int signal)
{
	(void)signal;
	atomic_fetch_add(&alarms, 1);
}

static void storm(int microseconds)
{
	const struct itimerval interval = {{0, microseconds}, {0, microseconds}};
	const struct sigaction action = {.sa_handler = on_alarm};

	sigaction(SIGALRM, &action, NULL);
	ck_assert_int_eq(setitimer(ITIMER_REAL, &interval, NULL), 0);
}

/* Both ways to commit, while signals arrive far more often than one of their calls lasts. */
START_TEST(a_storm_of_signals_changes_nothing)
{
	struct tide_region *region = reserve_backing(_i, 1);

	if (!region)
		return;
	storm(1000);
	for (int cycle = 0; cycle < 4; cycle++) {
		if (cycle % 2)
			prim_plan_set(PRIM_ADVISE, 1, UINT32_MAX, EINVAL, 0);
		else
			prim_plan_clear();
		fixture_commit(region, 0, REGION_BYTES);
		ck_assert_uint_eq(fixture_audit(region), REGION_BYTES);
		fixture_decommit(region, 0, REGION_BYTES);
		ck_assert_uint_eq(fixture_audit(region), 0);
	}
	storm(0);
	ck_assert_int_gt(atomic_load(&alarms), 0);
	tide_region_release(region);
}
END_TEST

START_TEST(interrupted_calls_are_resumed)
{
	const int errors[] = {EINTR, EAGAIN};
	struct tide_region *region = reserve_backing(_i, 1);

	if (!region)
		return;
	for (int i = 0; i < 2; i++) {
		prim_plan_set(PRIM_ADVISE, 1, 7, errors[i], 1);
		fixture_commit(region, 0, REGION_BYTES);
		ck_assert_uint_ge(atomic_load(&prim_counts[PRIM_ADVISE]), 7);
		ck_assert_uint_eq(fixture_audit(region), REGION_BYTES);
		prim_plan_set(PRIM_FALLOCATE, 1, 7, errors[i], 1);
		fixture_decommit(region, 0, REGION_BYTES);
		ck_assert_uint_eq(atomic_load(&prim_counts[PRIM_FALLOCATE]), 8);
		ck_assert_uint_eq(fixture_audit(region), 0);
	}
	prim_plan_clear();
	tide_region_release(region);
}
END_TEST

/* As shmem's fallocate under a storm: a call that lasts too long is interrupted and undone. */
START_TEST(calls_become_shorter_until_they_end)
{
	struct tide_region *region = reserve_backing(_i, 1);

	if (!region)
		return;
	prim_plan_set(PRIM_ADVISE, 1, UINT32_MAX, EINTR, 0);
	prim_plan.above_bytes = HUGE_BYTES;
	fixture_commit(region, 0, REGION_BYTES);
	ck_assert_uint_lt(atomic_load(&prim_counts[PRIM_ADVISE]), 64);
	prim_plan_clear();
	ck_assert_uint_eq(fixture_audit(region), REGION_BYTES);
	tide_region_release(region);
}
END_TEST

START_TEST(endless_interruption_is_an_error)
{
	struct tide_region *region = reserve_backing(TIDE_BACKING_BASE, 1);
	const struct tide_range range = {0, 4 * MIB};
	struct tide_reason why;

	prim_plan_set(PRIM_ADVISE, 1, UINT32_MAX, EINTR, 1);
	ck_assert_int_eq(tide_region_commit(region, &range, 1, &why), TIDE_SYSTEM_ERROR);
	ck_assert_int_eq(why.sys_errno, EINTR);
	prim_plan_clear();
	ck_assert_uint_eq(fixture_audit(region), 0);
	tide_region_release(region);
}
END_TEST

START_TEST(bad_input_changes_nothing)
{
	struct tide_region *region = reserve_backing(TIDE_BACKING_BASE, 1);
	const struct tide_range good = {0, 4 * MIB};
	const struct tide_range bad[] = {
		{1, 4096}, {4096, 1}, {0, 0}, {REGION_BYTES, 4096}, {0, UINT64_MAX - 4095}};
	struct tide_reason why;
	uint64_t bytes;

	fixture_commit(region, good.offset, good.bytes);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const struct tide_range list[] = {{8 * MIB, 4096}, bad[i]};
		const struct tide_range back[] = {good, bad[i]};

		ck_assert_int_eq(tide_region_commit(region, list, 2, &why), TIDE_BAD_REQUEST);
		ck_assert_int_eq(tide_region_decommit(region, back, 2, &why), TIDE_BAD_REQUEST);
		ck_assert_uint_eq(fixture_audit(region), good.bytes);
	}
	ck_assert_int_eq(tide_region_commit(region, NULL, 1, NULL), TIDE_BAD_REQUEST);
	ck_assert_int_eq(tide_region_commit(NULL, &good, 1, &why), TIDE_BAD_REQUEST);
	ck_assert_int_eq(tide_region_decommit(NULL, &good, 1, &why), TIDE_BAD_REQUEST);
	ck_assert_int_eq(tide_region_audit(NULL, &bytes, &why), TIDE_BAD_REQUEST);
	ck_assert_int_eq(tide_region_audit(region, NULL, &why), TIDE_BAD_REQUEST);
	tide_region_release(region);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("commit");
	TCase *tcase = tcase_create("commit");
	int raised = fixture_huge_pages(REGION_BYTES / HUGE_BYTES) == 0;
	int failed;

	fixture_folder(folder);
	huge_pages = fixture_has_huge_pages(REGION_BYTES);
	if (!huge_pages)
		puts("no huge pages to be had: tests on them do nothing");
	tcase_set_timeout(tcase, 60);
	tcase_add_checked_fixture(tcase, prim_plan_clear, NULL);
	tcase_add_loop_test(tcase, lists_are_committed_to_the_byte, 0, 3);
	tcase_add_test(tcase, neighbours_cost_one_call);
	tcase_add_loop_test(tcase, memory_comes_back_zeroed, 0, 3);
	tcase_add_loop_test(tcase, a_failure_leaves_what_was_there, 0, 3);
	tcase_add_test(tcase, the_quantities_of_a_failure_are_exact);
	tcase_add_test(tcase, memory_that_cannot_be_given_back_is_told);
	tcase_add_loop_test(tcase, an_old_kernel_allocates_instead, 0, 3);
	tcase_add_test(tcase, helpers_block_signals_and_end_with_the_call);
	tcase_add_test(tcase, helpers_that_cannot_be_had_are_done_without);
	tcase_add_loop_test(tcase, a_storm_of_signals_changes_nothing, 0, 3);
	tcase_add_loop_test(tcase, interrupted_calls_are_resumed, 0, 3);
	tcase_add_loop_test(tcase, calls_become_shorter_until_they_end, 0, 3);
	tcase_add_test(tcase, endless_interruption_is_an_error);
	tcase_add_test(tcase, bad_input_changes_nothing);
	suite_add_tcase(suite, tcase);
	failed = fixture_run(suite);
	fixture_remove(folder);
	if (raised)
		fixture_huge_pages(-(long)(REGION_BYTES / HUGE_BYTES));
	return failed;
}
