/* SPDX-License-Identifier: PostgreSQL */
/*
 * tests/resize/test_flush.c - the token bucket for writing.
 */
#include <check.h>

#include "resize/flush.h"

START_TEST(no_limit)
{
	struct flush_bucket bucket;

	flush_open(&bucket, 0, 5);
	ck_assert_uint_eq(flush_allowance(&bucket, 5), UINT64_MAX);
	flush_charge(&bucket, UINT64_MAX);
	ck_assert_uint_eq(flush_allowance(&bucket, 5), UINT64_MAX);
	ck_assert_uint_eq(flush_wait(&bucket), 0);
}
END_TEST

/* Spend whatever is allowed for ten seconds, asking every @tick_ns; returns the bytes. */
static uint64_t spend(uint64_t rate, uint64_t tick_ns)
{
	struct flush_bucket bucket;
	uint64_t spent = 0;

	flush_open(&bucket, rate, 0);
	for (uint64_t now = 0; now < UINT64_C(10000000000); now += tick_ns) {
		uint64_t bytes = flush_allowance(&bucket, now);

		flush_charge(&bucket, bytes);
		spent += bytes;
	}
	return spent;
}

START_TEST(the_rate_is_kept)
{
	const uint64_t rates[] = {100000, 1000000, 8 << 20, 1 << 30};

	for (unsigned i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		/* From the first portion on: no more than ten seconds' worth, no less than 9. */
		uint64_t first = rates[i] / 50 > 65536 ? rates[i] / 50 : 65536;

		ck_assert_uint_le(spend(rates[i], 1000000), 10 * rates[i] + first);
		ck_assert_uint_ge(spend(rates[i], 1000000), 9 * rates[i]);
		ck_assert_uint_le(spend(rates[i], 50000), 10 * rates[i] + first);
		ck_assert_uint_ge(spend(rates[i], 50000), 9 * rates[i]);
	}
}
END_TEST

START_TEST(a_pause_does_not_add_up)
{
	struct flush_bucket bucket;
	uint64_t spent = 0, bytes;

	flush_open(&bucket, 1000000, 0);
	for (int i = 0; (bytes = flush_allowance(&bucket, UINT64_C(3600000000000))) > 0; i++) {
		flush_charge(&bucket, bytes);
		spent += bytes;
		ck_assert_int_lt(i, 10);
	}
	ck_assert_uint_le(spent, 4 * 65536);
}
END_TEST

START_TEST(waiting_as_told_is_enough)
{
	struct flush_bucket bucket;
	uint64_t now = 0;

	flush_open(&bucket, 123456, 0);
	for (int i = 0; i < 100; i++) {
		uint64_t bytes = flush_allowance(&bucket, now);

		ck_assert_uint_gt(bytes, 0);
		flush_charge(&bucket, bytes);
		ck_assert_uint_eq(flush_allowance(&bucket, now), 0);
		ck_assert_uint_gt(flush_wait(&bucket), 0);
		now += flush_wait(&bucket) + 10000;
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("flush");
	TCase *tc = tcase_create("bucket");
	SRunner *runner;

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, no_limit);
	tcase_add_test(tc, the_rate_is_kept);
	tcase_add_test(tc, a_pause_does_not_add_up);
	tcase_add_test(tc, waiting_as_told_is_enough);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);

	int failed = srunner_ntests_failed(runner);

	srunner_free(runner);
	return failed ? 1 : 0;
}
