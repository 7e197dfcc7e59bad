/* SPDX-License-Identifier: PostgreSQL */
/*
 * tests/resize/test_chunk.c - the chunk table: layout, validity, counts, names, spread.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <tidepool/resize.h>

#include "resize/chunk.h"

#define N 100u

static struct tide_chunk_table *table;

static void setup(void)
{
	table = malloc(tide_chunk_table_bytes(N));
	memset(table, 0xff, tide_chunk_table_bytes(N));
	tide_chunk_table_init(table, N, 4096);
}

static void teardown(void)
{
	free(table);
}

START_TEST(a_new_table_is_valid_and_retired)
{
	uint32_t counts[TIDE_CHUNK_STATES];

	ck_assert_int_eq(tide_chunk_table_valid(table), 1);
	tide_chunk_counts(table, counts);
	ck_assert_uint_eq(counts[TIDE_CHUNK_RETIRED], N);
	for (int s = 1; s < TIDE_CHUNK_STATES; s++)
		ck_assert_uint_eq(counts[s], 0);
}
END_TEST

START_TEST(damage_is_noticed)
{
	ck_assert_int_eq(tide_chunk_table_valid(NULL), 0);
	table->magic++;
	ck_assert_int_eq(tide_chunk_table_valid(table), 0);
	table->magic--;
	table->version++;
	ck_assert_int_eq(tide_chunk_table_valid(table), 0);
	table->version--;
	table->table_bytes++;
	ck_assert_int_eq(tide_chunk_table_valid(table), 0);
	table->table_bytes--;
	table->chunk_bytes = 0;
	ck_assert_int_eq(tide_chunk_table_valid(table), 0);
	table->chunk_bytes = UINT64_MAX / 2;
	ck_assert_int_eq(tide_chunk_table_valid(table), 0);
	table->chunk_bytes = 4096;
	table->n_chunks = 0;
	ck_assert_int_eq(tide_chunk_table_valid(table), 0);
	table->n_chunks = N;
	atomic_store(&table->chunk[N - 1].state, TIDE_CHUNK_STATES);
	ck_assert_int_eq(tide_chunk_table_valid(table), 0);
	atomic_store(&table->chunk[N - 1].state, TIDE_CHUNK_ACTIVE);
	ck_assert_int_eq(tide_chunk_table_valid(table), 1);
}
END_TEST

START_TEST(counts_follow_states)
{
	uint32_t counts[TIDE_CHUNK_STATES];

	for (uint32_t i = 0; i < N; i++)
		chunk_store(table, i, (enum tide_chunk_state)(i % TIDE_CHUNK_STATES), i);
	tide_chunk_counts(table, counts);
	for (uint32_t s = 0; s < TIDE_CHUNK_STATES; s++)
		ck_assert_uint_eq(counts[s], N / TIDE_CHUNK_STATES + (s < N % TIDE_CHUNK_STATES));
	ck_assert_int_eq(chunk_load(table, 13), 13 % TIDE_CHUNK_STATES);
	ck_assert_uint_eq(chunk_since(table, 13), 13);
}
END_TEST

START_TEST(states_have_names)
{
	for (int s = 0; s < TIDE_CHUNK_STATES; s++)
		ck_assert_str_ne(tide_chunk_state_name((enum tide_chunk_state)s), "unknown");
	ck_assert_str_eq(tide_chunk_state_name(TIDE_CHUNK_STATES), "unknown");
	ck_assert_str_eq(tide_chunk_state_name(TIDE_CHUNK_LINGERING), "lingering");
	for (int s = 0; s < TIDE_OP_STATES; s++)
		ck_assert_str_ne(tide_op_state_name((enum tide_op_state)s), "unknown");
	ck_assert_str_eq(tide_op_state_name(TIDE_OP_STATES), "unknown");
	ck_assert_str_eq(tide_op_state_name(TIDE_OP_PARTIAL), "partial");
}
END_TEST

START_TEST(ends_are_told_from_phases)
{
	for (int s = 0; s < TIDE_OP_PHASES; s++)
		ck_assert_int_eq(tide_op_state_ended((enum tide_op_state)s), 0);
	for (int s = TIDE_OP_PHASES; s < TIDE_OP_STATES; s++)
		ck_assert_int_eq(tide_op_state_ended((enum tide_op_state)s), 1);
}
END_TEST

START_TEST(spread_is_exact_and_even)
{
	uint8_t chosen[N];

	for (uint32_t n = 1; n <= N; n += n < 20 ? 1 : 13) {
		for (uint32_t active = 1; active <= n; active++) {
			uint32_t count = 0, last = 0, widest = 0;

			tide_chunk_spread(n, active, chosen);
			ck_assert_uint_eq(chosen[0], 1);
			for (uint32_t i = 0; i < n; i++) {
				if (!chosen[i])
					continue;
				widest = i - last > widest ? i - last : widest;
				last = i;
				count++;
			}
			widest = n - last > widest ? n - last : widest;
			ck_assert_uint_eq(count, active);
			ck_assert_uint_le(widest, n / active + 1);
		}
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("chunk");
	TCase *tc = tcase_create("table");
	SRunner *runner;

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, a_new_table_is_valid_and_retired);
	tcase_add_test(tc, damage_is_noticed);
	tcase_add_test(tc, counts_follow_states);
	tcase_add_test(tc, states_have_names);
	tcase_add_test(tc, ends_are_told_from_phases);
	tcase_add_test(tc, spread_is_exact_and_even);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);

	int failed = srunner_ntests_failed(runner);

	srunner_free(runner);
	return failed ? 1 : 0;
}
