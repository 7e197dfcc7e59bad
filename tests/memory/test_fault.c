/* SPDX-License-Identifier: PostgreSQL */
/*
 * test_fault.c - every system call of every operation fails in turn, for n = 1, 2, 3, ... until the
 * operation passes: the answer is a code with a reason, and nothing has changed or leaked.
 */
#include "faulty_prim.h"
#include "fixture.h"

#define REGION_BYTES (16 * MIB)

static const int errors[] = {ENOMEM, EFAULT, ENOSPC, EIO, EINTR, EINVAL, EACCES};
static const struct tide_range list[] = {{0, 4 * MIB}, {8 * MIB, 4 * MIB}};

static int huge_pages;
static struct tide_region *region;

/* Operations: each returns a code and fills a reason. */
static int reserve(enum tide_huge_policy huge, struct tide_reason *why)
{
	struct tide_region_config config = fixture_config(huge, REGION_BYTES);

	return tide_region_reserve(&config, REGION_BYTES, &region, why);
}

static int reserve_base(struct tide_reason *why)
{
	return reserve(TIDE_HUGE_OFF, why);
}

static int reserve_try(struct tide_reason *why)
{
	return reserve(TIDE_HUGE_TRY, why);
}

static int reserve_huge(struct tide_reason *why)
{
	return reserve(TIDE_HUGE_ON, why);
}

static int reserve_given(struct tide_reason *why)
{
	struct tide_region_config config = fixture_config(TIDE_HUGE_OFF, REGION_BYTES);
	int code;

	config.fd = memfd_create("given", MFD_CLOEXEC);
	code = tide_region_reserve(&config, 0, &region, why);
	close(config.fd);
	return code;
}

static int commit(struct tide_reason *why)
{
	return tide_region_commit(region, list, 2, why);
}

static int decommit(struct tide_reason *why)
{
	return tide_region_decommit(region, list, 2, why);
}

static int preflight_huge(struct tide_reason *why)
{
	struct tide_verdict verdict;
	int code = tide_preflight(NULL, TIDE_BACKING_HUGETLB, HUGE_BYTES, 4 * MIB, &verdict);

	*why = verdict.reason;
	ck_assert_int_eq(verdict.fits, code == 0);
	return code;
}

static int preflight_base(struct tide_reason *why)
{
	struct tide_verdict verdict;
	int code = tide_preflight(NULL, TIDE_BACKING_BASE, 4096, 4 * MIB, &verdict);

	*why = verdict.reason;
	return code;
}

static int machine_memory(struct tide_reason *why)
{
	struct tide_machine_memory memory;

	return tide_machine_memory(NULL, HUGE_BYTES, &memory, why);
}

static void expect_reason(int code, const struct tide_reason *why)
{
	ck_assert_int_lt(code, 0);
	ck_assert_int_ge(code, TIDE_SYSTEM_ERROR);
	ck_assert_int_ne(code, TIDE_BAD_REQUEST);
	ck_assert_int_eq(why->code, code);
	ck_assert_str_ne(why->message, "");
}

/* Of the process or, since the C library keeps stacks of ended threads, of the region. */
static int count_mappings(void)
{
	return region ? fixture_mappings(tide_region_info(region)->base, GIB_BYTES)
		      : fixture_mappings(NULL, 0);
}

/* Let call n fail until the operation does not reach n calls; returns that n. */
static unsigned sweep(int (*operation)(struct tide_reason *why), int error)
{
	const int reserves = region == NULL;
	struct tide_reason why;

	for (unsigned n = 1;; n++) {
		const int files = fixture_files();
		const int mappings = count_mappings();
		const uint64_t before = reserves ? 0 : fixture_audit(region);
		unsigned calls;
		int code;

		memset(&why, 0, sizeof(why));
		prim_plan_set(PRIM_ANY, n, n, error, 1);
		code = operation(&why);
		calls = atomic_load(&prim_counts[PRIM_ANY]);
		prim_plan_clear();
		if (code != 0)
			expect_reason(code, &why);
		if (calls < n) {
			ck_assert_msg(code == 0, "%s: %s", tide_code_name(code), why.message);
			return n;
		}
		if (code == 0 && reserves) {
			tide_region_release(region);
			region = NULL;
		}
		if (reserves)
			ck_assert_ptr_null(region);
		ck_assert_int_eq(fixture_files(), files);
		ck_assert_int_eq(count_mappings(), mappings);
		if (!reserves && operation == commit && code == 0)
			ck_assert_int_eq(tide_region_decommit(region, list, 2, &why), 0);
		if (!reserves && operation != decommit)
			ck_assert_uint_eq(fixture_audit(region), before);
		if (operation == decommit && code == 0)
			ck_assert_int_eq(tide_region_commit(region, list, 2, &why), 0);
		ck_assert_uint_lt(n, 1000);
	}
}

START_TEST(reserve_fails_at_every_call)
{
	ck_assert_uint_gt(sweep(reserve_base, errors[_i]), 6);
	tide_region_release(region);
	region = NULL;
	ck_assert_uint_gt(sweep(reserve_given, errors[_i]), 6);
	tide_region_release(region);
	region = NULL;
	ck_assert_uint_gt(sweep(reserve_try, errors[_i]), 10);
	tide_region_release(region);
	region = NULL;
	if (!huge_pages)
		return;
	ck_assert_uint_gt(sweep(reserve_huge, errors[_i]), 10);
	tide_region_release(region);
	region = NULL;
}
END_TEST

START_TEST(commit_and_decommit_fail_at_every_call)
{
	struct tide_reason why;

	for (int huge = 0; huge <= huge_pages; huge++) {
		for (unsigned threads = 1; threads <= 2; threads++) {
			struct tide_region_config config =
				fixture_config(huge ? TIDE_HUGE_ON : TIDE_HUGE_OFF, REGION_BYTES);

			config.commit_threads = threads;
			region = fixture_reserve(&config);
			fixture_commit(region, 12 * MIB, 2 * MIB);
			ck_assert_uint_gt(sweep(commit, errors[_i]), 3);
			ck_assert_uint_eq(fixture_audit(region), 10 * MIB);
			ck_assert_uint_ge(sweep(decommit, errors[_i]), 3);
			ck_assert_uint_eq(fixture_audit(region), 2 * MIB);
			ck_assert_int_eq(decommit(&why), 0);
			tide_region_release(region);
			region = NULL;
		}
	}
}
END_TEST

START_TEST(facts_fail_at_every_call)
{
	sweep(preflight_base, errors[_i]);
	if (huge_pages)
		sweep(preflight_huge, errors[_i]);
	sweep(machine_memory, errors[_i]);
}
END_TEST

/* The last resort: neither memory to be had nor the rest to be given back. */
START_TEST(a_rollback_that_fails_is_told)
{
	struct tide_region_config config = fixture_config(TIDE_HUGE_OFF, REGION_BYTES);
	struct tide_reason why;

	region = fixture_reserve(&config);
	/* Call 1 asks the size, 2 and 3 populate, 4 asks the size, 5 and 6 punch. */
	prim_plan_set(PRIM_ANY, 3, 5, EIO, 0);
	ck_assert_int_eq(commit(&why), TIDE_SYSTEM_ERROR);
	ck_assert_int_eq(why.sys_errno, EIO);
	ck_assert_msg(strstr(why.message, "could not be given back"), "%s", why.message);
	prim_plan_clear();
	ck_assert_uint_eq(fixture_audit(region), 4 * MIB);
	tide_region_release(region);
	region = NULL;
}
END_TEST

int main(void)
{
	const int n_errors = (int)(sizeof(errors) / sizeof(errors[0]));
	Suite *suite = suite_create("fault");
	TCase *tcase = tcase_create("fault");
	int raised = fixture_huge_pages(REGION_BYTES / HUGE_BYTES) == 0;
	int failed;

	huge_pages = fixture_has_huge_pages(REGION_BYTES);
	if (!huge_pages)
		puts("no huge pages to be had: tests on them do nothing");
	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, reserve_fails_at_every_call, 0, n_errors);
	tcase_add_loop_test(tcase, commit_and_decommit_fail_at_every_call, 0, n_errors);
	tcase_add_loop_test(tcase, facts_fail_at_every_call, 0, n_errors);
	tcase_add_test(tcase, a_rollback_that_fails_is_told);
	suite_add_tcase(suite, tcase);
	failed = fixture_run(suite);
	if (raised)
		fixture_huge_pages(-(long)(REGION_BYTES / HUGE_BYTES));
	return failed;
}
