/* SPDX-License-Identifier: PostgreSQL */
/*
 * tests/pool/test_replace.c - the rules of replacement.
 */
#include <check.h>
#include <stdlib.h>

#include "pool/replace.h"

#define N 12000u /* buffers */

static unsigned uses(uint8_t heat)
{
	return heat & REPLACE_USES;
}

/* How many hits a frequency stands for. */
static double hits_of(uint8_t heat)
{
	unsigned frequency = heat / REPLACE_FREQUENCY;

	return (4.0 + frequency % 4) * (double)(1u << frequency / 4) - 4;
}

/* Heat after @n hits, one every @stride ticks; *stores: how many of them changed it. */
static uint8_t hit_often(uint32_t n, uint32_t first, uint32_t stride, uint32_t *stores)
{
	uint8_t heat = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint8_t after = replace_hit(heat, first + i * stride);

		*stores += after != heat;
		heat = after;
	}
	return heat;
}

START_TEST(a_hit_is_one_use_and_one_step_at_most)
{
	for (unsigned heat = 0; heat <= REPLACE_HEAT_MAX; heat++)
		for (uint32_t tick = 0; tick < 10000; tick++) {
			uint8_t after = replace_hit((uint8_t)heat, tick);
			unsigned before = uses((uint8_t)heat);

			ck_assert_uint_eq(uses(after), before < 3 ? before + 1 : 3);
			ck_assert_uint_ge(after / REPLACE_FREQUENCY, heat / REPLACE_FREQUENCY);
			ck_assert_uint_le(after / REPLACE_FREQUENCY, heat / REPLACE_FREQUENCY + 1);
		}
	ck_assert_uint_eq(replace_hit(REPLACE_HEAT_MAX, 0), REPLACE_HEAT_MAX);
}
END_TEST

START_TEST(the_first_hits_are_counted_exactly)
{
	uint8_t heat = 0;

	for (uint32_t hits = 1; hits <= 4; hits++) {
		heat = replace_hit(heat, 1000 + hits);
		ck_assert_double_eq(hits_of(heat), hits);
	}
}
END_TEST

START_TEST(frequency_is_the_logarithm_of_hits)
{
	for (uint32_t hits = 10; hits <= 100000; hits *= 10) {
		double sum = 0;
		uint32_t stores = 0;

		for (uint32_t page = 0; page < 100; page++)
			sum += hits_of(hit_often(hits, page * 7919, 1, &stores));
		ck_assert_double_gt(sum / 100, 0.85 * hits);
		ck_assert_double_lt(sum / 100, 1.15 * hits);
	}
}
END_TEST

START_TEST(hot_pages_are_rarely_written_to)
{
	uint32_t stores = 0;

	hit_often(1000, 0, 1, &stores);
	ck_assert_uint_le(stores, 50);
	hit_often(1000000, 0, 1, &stores);
	ck_assert_uint_le(stores, 150);
}
END_TEST

START_TEST(no_stride_of_ticks_makes_a_page_hot)
{
	static const uint32_t strides[] = {
		1, 2, 3, 89, 233, 377, 610, 4096, 65536, UINT32_C(1) << 24, 28657, 832040};

	for (unsigned i = 0; i < sizeof(strides) / sizeof(strides[0]); i++) {
		double sum = 0;
		uint32_t stores = 0;

		for (uint32_t page = 0; page < 100; page++)
			sum += hits_of(hit_often(200, page, strides[i], &stores));
		ck_assert_double_gt(sum / 100, 100);
		ck_assert_double_lt(sum / 100, 400);
	}
}
END_TEST

START_TEST(last_fixes_do_not_count)
{
	struct replace_recent recent = REPLACE_RECENT_NONE;

	ck_assert_int_eq(replace_recent(&recent, 7), 0);
	ck_assert_int_eq(replace_recent(&recent, 7), 1);
	for (uint32_t other = 100; other < 100 + REPLACE_RECENT - 1; other++)
		ck_assert_int_eq(replace_recent(&recent, other), 0);
	ck_assert_int_eq(replace_recent(&recent, 7), 1); /* its second fix is the fourth last */
	for (uint32_t other = 200; other < 200 + REPLACE_RECENT; other++)
		ck_assert_int_eq(replace_recent(&recent, other), 0);
	ck_assert_int_eq(replace_recent(&recent, 7), 0);
}
END_TEST

START_TEST(new_pages_are_small_unless_remembered)
{
	struct replace_page fresh = replace_new(0, 77), known = replace_new(1, 78);

	ck_assert_uint_eq(fresh.queue, REPLACE_SMALL);
	ck_assert_uint_eq(known.queue, REPLACE_MAIN);
	ck_assert_uint_eq(fresh.stamp, 77);
	ck_assert_uint_eq(known.stamp, 78);
	ck_assert_uint_eq(fresh.heat, 0);
	ck_assert_uint_eq(known.heat, 0);
}
END_TEST

START_TEST(small_pages_have_a_share)
{
	uint64_t limit = replace_small_limit(N);

	ck_assert_uint_eq(limit, N / 12 + 1);
	ck_assert_uint_ge(replace_small_limit(0), 1);
	ck_assert_int_eq(replace_takes_small(limit, N, 0), 0);
	ck_assert_int_eq(replace_takes_small(limit + 1, N, 0), 1);
}
END_TEST

START_TEST(a_remembered_page_takes_a_main_place)
{
	uint64_t limit = replace_small_limit(N);

	ck_assert_int_eq(replace_takes_small(limit + 1, N, 1), 0);
	/* But a pool full of small pages gives these. */
	ck_assert_int_eq(replace_takes_small(limit + limit / 8 + 1, N, 1), 0);
	ck_assert_int_eq(replace_takes_small(limit + limit / 8 + 2, N, 1), 1);
	ck_assert_int_eq(replace_takes_small(1, 8, 1), 0);
	ck_assert_int_eq(replace_takes_small(8, 8, 1), 1);
}
END_TEST

START_TEST(just_loaded_pages_stay)
{
	uint32_t half = (uint32_t)replace_small_limit(N) / 2;
	uint32_t stamps[] = {1000, UINT32_MAX - 10}; /* the other wraps */

	for (unsigned i = 0; i < 2; i++) {
		struct replace_page page = replace_new(0, stamps[i]);

		ck_assert_int_eq(replace_small(&page, page.stamp + half - 1, N), REPLACE_KEEP);
		ck_assert_uint_eq(page.queue, REPLACE_SMALL);
		ck_assert_int_eq(replace_small(&page, page.stamp + half, N), REPLACE_EVICT);
	}
}
END_TEST

START_TEST(two_uses_make_a_small_page_main)
{
	struct replace_page page = replace_new(0, 0);

	page.heat = replace_hit(page.heat, 0);
	ck_assert_int_eq(replace_small(&page, N, N), REPLACE_EVICT);
	ck_assert_uint_eq(page.queue, REPLACE_SMALL);
	page.heat = replace_hit(page.heat, 1);
	ck_assert_int_eq(replace_small(&page, N, N), REPLACE_KEEP);
	ck_assert_uint_eq(page.queue, REPLACE_MAIN);
	ck_assert_uint_eq(uses(page.heat), 0); /* has to be used again as a main page */
	ck_assert_double_eq(hits_of(page.heat), 2);
}
END_TEST

START_TEST(a_main_page_goes_round_once_for_each_use)
{
	for (unsigned n = 0; n <= 5; n++) {
		struct replace_page page = replace_new(1, 0);
		unsigned turns = 0;

		for (unsigned i = 0; i < n; i++)
			page.heat = replace_hit(page.heat, i);
		while (replace_main(&page) == REPLACE_KEEP)
			turns++;
		ck_assert_uint_eq(turns, n < 3 ? n : 3);
		ck_assert_uint_eq(page.queue, REPLACE_MAIN);
	}
}
END_TEST

START_TEST(the_main_hand_ages)
{
	struct replace_page page = replace_new(1, 0);
	uint32_t stores = 0;
	double before;

	page.heat = hit_often(1000, 0, 1, &stores);
	before = hits_of(page.heat);
	ck_assert_int_eq(replace_main(&page), REPLACE_KEEP);
	ck_assert_double_lt(hits_of(page.heat), 0.51 * before);
	ck_assert_double_gt(hits_of(page.heat), 0.45 * before);
}
END_TEST

START_TEST(aging_halves_and_leaves_uses_alone)
{
	for (unsigned heat = 0; heat <= REPLACE_HEAT_MAX; heat++) {
		struct replace_page page = {.heat = (uint8_t)heat, .queue = REPLACE_MAIN};

		replace_age(&page);
		ck_assert_uint_eq(uses(page.heat), uses((uint8_t)heat));
		ck_assert_double_le(hits_of(page.heat), hits_of((uint8_t)heat) / 2);
		ck_assert_double_ge(hits_of(page.heat), hits_of((uint8_t)heat) / 2 - 2);
	}
}
END_TEST

START_TEST(only_small_pages_leave_ghosts)
{
	struct replace_page small = replace_new(0, 0), main_page = replace_new(1, 0);

	ck_assert_int_eq(replace_leaves_ghost(&small), 1);
	ck_assert_int_eq(replace_leaves_ghost(&main_page), 0);
}
END_TEST

START_TEST(reach_is_half_as_much_again)
{
	ck_assert_uint_eq(replace_reach(N), N + N / 2);
	ck_assert_uint_eq(replace_reach(0), 0);
	ck_assert_uint_eq(replace_reach(UINT32_C(0x7fffffff)), UINT32_MAX / 2);
}
END_TEST

START_TEST(worth_is_frequency_then_queue)
{
	for (unsigned heat = 0; heat <= REPLACE_HEAT_MAX; heat++) {
		struct replace_page small = {.heat = (uint8_t)heat, .queue = REPLACE_SMALL};
		struct replace_page main_page = {.heat = (uint8_t)heat, .queue = REPLACE_MAIN};
		struct replace_page hotter = {.heat = (uint8_t)(heat + REPLACE_FREQUENCY),
					      .queue = REPLACE_SMALL};

		ck_assert_uint_lt(replace_worth(&main_page), REPLACE_WORTHS);
		ck_assert_uint_lt(replace_worth(&small), replace_worth(&main_page));
		if (heat + REPLACE_FREQUENCY <= REPLACE_HEAT_MAX)
			ck_assert_uint_lt(replace_worth(&main_page), replace_worth(&hotter));
	}
}
END_TEST

static void add_tests(TCase *tc)
{
	tcase_add_test(tc, a_hit_is_one_use_and_one_step_at_most);
	tcase_add_test(tc, the_first_hits_are_counted_exactly);
	tcase_add_test(tc, frequency_is_the_logarithm_of_hits);
	tcase_add_test(tc, hot_pages_are_rarely_written_to);
	tcase_add_test(tc, no_stride_of_ticks_makes_a_page_hot);
	tcase_add_test(tc, last_fixes_do_not_count);
	tcase_add_test(tc, new_pages_are_small_unless_remembered);
	tcase_add_test(tc, small_pages_have_a_share);
	tcase_add_test(tc, a_remembered_page_takes_a_main_place);
	tcase_add_test(tc, just_loaded_pages_stay);
	tcase_add_test(tc, two_uses_make_a_small_page_main);
	tcase_add_test(tc, a_main_page_goes_round_once_for_each_use);
	tcase_add_test(tc, the_main_hand_ages);
	tcase_add_test(tc, aging_halves_and_leaves_uses_alone);
	tcase_add_test(tc, only_small_pages_leave_ghosts);
	tcase_add_test(tc, reach_is_half_as_much_again);
	tcase_add_test(tc, worth_is_frequency_then_queue);
}

int main(void)
{
	Suite *suite = suite_create("replace");
	TCase *tc = tcase_create("rules");
	SRunner *runner;

	tcase_set_timeout(tc, 60);
	add_tests(tc);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);

	int failed = srunner_ntests_failed(runner);

	srunner_free(runner);
	return failed ? 1 : 0;
}
