/* SPDX-License-Identifier: PostgreSQL */
/*
 * tests/resize/test_choose.c - which chunks are retired and activated.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "resize/choose.h"

#define N 256u

static uint8_t states[N], keys[N];
static uint32_t order[N], scratch[N];

static void all_are(enum tide_chunk_state state)
{
	memset(states, (int)state, sizeof(states));
	memset(keys, 0, sizeof(keys));
}

static uint8_t key(uint32_t heat, uint32_t pinned)
{
	struct tide_chunk_fact fact = {.heat = heat, .pinned = pinned};

	return choose_key(&fact);
}

/* The longest run of chunks that are in @state. */
static uint32_t longest_run(enum tide_chunk_state state)
{
	uint32_t run = 0, longest = 0;

	for (uint32_t i = 0; i < N; i++) {
		run = states[i] == state ? run + 1 : 0;
		longest = run > longest ? run : longest;
	}
	return longest;
}

START_TEST(keys_order_by_pins_then_heat)
{
	ck_assert_uint_lt(key(0, 0), key(10, 0));
	ck_assert_uint_lt(key(10, 0), key(1000, 0));
	ck_assert_uint_lt(key(UINT32_MAX, 0), key(0, 1));
	ck_assert_uint_lt(key(0, 1), key(UINT32_MAX, 7));
	ck_assert_uint_eq(key(600, 0), key(640, 0)); /* coarse */
	ck_assert_uint_eq(key(5, 1), key(5, 100));
	for (uint32_t heat = 0; heat < 100000; heat++)
		ck_assert_uint_le(key(heat, 0), key(heat + 1, 0));
}
END_TEST

START_TEST(coldest_first_pinned_last)
{
	all_are(TIDE_CHUNK_ACTIVE);
	for (uint32_t i = 0; i < N; i++)
		keys[i] = key(i * 7919 % 1000, i % 10 == 0);
	ck_assert_uint_eq(choose_coldest(states, keys, N, TIDE_CHUNK_ACTIVE, order), N);
	for (uint32_t i = 1; i < N; i++)
		ck_assert_uint_le(keys[order[i - 1]], keys[order[i]]);
	ck_assert_uint_eq(order[N - 1] % 10, 0);
	choose_sort(order, N);
	for (uint32_t i = 0; i < N; i++)
		ck_assert_uint_eq(order[i], i); /* each chunk once */
}
END_TEST

START_TEST(only_chunks_in_the_state)
{
	all_are(TIDE_CHUNK_ACTIVE);
	for (uint32_t i = 0; i < N; i += 3)
		states[i] = TIDE_CHUNK_RETIRED;
	ck_assert_uint_eq(choose_coldest(states, keys, N, TIDE_CHUNK_ACTIVE, order),
			  N - (N + 2) / 3);
	for (uint32_t i = 0; i < N - (N + 2) / 3; i++)
		ck_assert_uint_ne(order[i] % 3, 0);
	ck_assert_uint_eq(choose_coldest(states, keys, N, TIDE_CHUNK_FENCED, order), 0);
}
END_TEST

START_TEST(equal_chunks_are_retired_spread)
{
	all_are(TIDE_CHUNK_ACTIVE);
	ck_assert_uint_eq(choose_coldest(states, keys, N, TIDE_CHUNK_ACTIVE, order), N);
	for (uint32_t i = 0; i < N; i++) {
		states[order[i]] = TIDE_CHUNK_RETIRED;
		/* Half of them retired: every other one. A quarter active: runs of three. */
		if (i + 1 == N / 2)
			ck_assert_uint_eq(longest_run(TIDE_CHUNK_RETIRED), 1);
		if (i + 1 == 3 * N / 4)
			ck_assert_uint_eq(longest_run(TIDE_CHUNK_RETIRED), 3);
	}
}
END_TEST

START_TEST(what_is_left_retired_stays_spread)
{
	for (uint32_t want = 0; want <= N; want += 32) {
		all_are(TIDE_CHUNK_RETIRED);

		uint32_t n = choose_spread(states, N, TIDE_CHUNK_RETIRED, want, order, scratch);

		ck_assert_uint_eq(n, want);
		for (uint32_t i = 0; i < n; i++) {
			ck_assert_int_eq(states[order[i]], TIDE_CHUNK_RETIRED); /* each once */
			states[order[i]] = TIDE_CHUNK_ACTIVE;
			if (n == N / 2 && i + 1 == n / 2)
				ck_assert_uint_le(longest_run(TIDE_CHUNK_RETIRED), 8);
		}
		if (want >= N / 2)
			ck_assert_uint_le(longest_run(TIDE_CHUNK_RETIRED), 2);
	}
}
END_TEST

START_TEST(a_long_run_is_broken_up)
{
	/* One block of retired chunks and some single ones: the block is what gives. */
	all_are(TIDE_CHUNK_ACTIVE);
	for (uint32_t i = 0; i < N; i++)
		if (i < 64 || i % 8 == 0)
			states[i] = TIDE_CHUNK_RETIRED;

	uint32_t n = choose_spread(states, N, TIDE_CHUNK_RETIRED, 56, order, scratch);

	ck_assert_uint_eq(n, 56);
	for (uint32_t i = 0; i < n; i++)
		states[order[i]] = TIDE_CHUNK_ACTIVE;
	ck_assert_uint_le(longest_run(TIDE_CHUNK_RETIRED), 2);
	for (uint32_t i = 64; i < N; i += 8)
		ck_assert_int_eq(states[i], TIDE_CHUNK_RETIRED);
}
END_TEST

START_TEST(wanting_more_than_there_is)
{
	all_are(TIDE_CHUNK_ACTIVE);
	states[5] = states[77] = TIDE_CHUNK_RETIRED;
	ck_assert_uint_eq(choose_spread(states, N, TIDE_CHUNK_RETIRED, 10, order, scratch), 2);
	ck_assert_uint_eq(choose_spread(states, N, TIDE_CHUNK_FENCED, 10, order, scratch), 0);
}
END_TEST

START_TEST(highest_first_pinned_last)
{
	all_are(TIDE_CHUNK_ACTIVE);
	for (uint32_t i = 0; i < N; i++) {
		if (i % 5 == 0)
			states[i] = TIDE_CHUNK_RETIRED;
		keys[i] = i % 4 == 1 ? CHOOSE_PINNED : 0;
	}

	uint32_t n = choose_highest(states, keys, N, TIDE_CHUNK_ACTIVE, order);

	ck_assert_uint_eq(n, N - (N + 4) / 5);
	for (uint32_t i = 0; i < n; i++) {
		ck_assert_int_eq(states[order[i]], TIDE_CHUNK_ACTIVE);
		if (i == 0)
			continue;
		ck_assert_uint_le(keys[order[i - 1]], keys[order[i]]);
		if (keys[order[i - 1]] == keys[order[i]])
			ck_assert_uint_gt(order[i - 1], order[i]);
	}
	ck_assert_uint_eq(choose_highest(states, keys, N, TIDE_CHUNK_FENCED, order), 0);
}
END_TEST

START_TEST(lowest_ascending)
{
	all_are(TIDE_CHUNK_ACTIVE);
	for (uint32_t i = 3; i < N; i += 5)
		states[i] = TIDE_CHUNK_RETIRED;
	ck_assert_uint_eq(choose_lowest(states, N, TIDE_CHUNK_RETIRED, 7, order), 7);
	for (uint32_t i = 0; i < 7; i++)
		ck_assert_uint_eq(order[i], 3 + 5 * i);
	ck_assert_uint_eq(choose_lowest(states, N, TIDE_CHUNK_RETIRED, N, order), (N - 3 + 4) / 5);
	ck_assert_uint_eq(choose_lowest(states, N, TIDE_CHUNK_RETIRED, 0, order), 0);
	ck_assert_uint_eq(choose_lowest(states, N, TIDE_CHUNK_FENCED, 7, order), 0);
}
END_TEST

START_TEST(sorts)
{
	for (uint32_t n = 0; n < 100; n++) {
		for (uint32_t i = 0; i < n; i++)
			order[i] = (i * 31 + 7) % 101;
		choose_sort(order, n);
		for (uint32_t i = 1; i < n; i++)
			ck_assert_uint_lt(order[i - 1], order[i]);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("choose");
	TCase *tc = tcase_create("order");
	SRunner *runner;

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, keys_order_by_pins_then_heat);
	tcase_add_test(tc, coldest_first_pinned_last);
	tcase_add_test(tc, only_chunks_in_the_state);
	tcase_add_test(tc, equal_chunks_are_retired_spread);
	tcase_add_test(tc, what_is_left_retired_stays_spread);
	tcase_add_test(tc, a_long_run_is_broken_up);
	tcase_add_test(tc, wanting_more_than_there_is);
	tcase_add_test(tc, highest_first_pinned_last);
	tcase_add_test(tc, lowest_ascending);
	tcase_add_test(tc, sorts);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);

	int failed = srunner_ntests_failed(runner);

	srunner_free(runner);
	return failed ? 1 : 0;
}
