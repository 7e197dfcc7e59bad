/* SPDX-License-Identifier: PostgreSQL */
/* test_range.c - lists of byte ranges. */
#include "fixture.h"
#include "memory/range.h"

START_TEST(neighbours_are_walked_as_one)
{
	const struct tide_range list[] = {{0, 10}, {10, 20}, {40, 5}, {30, 10}, {45, 5}};
	struct tide_range_walk walk = tide_range_walk(list, 5);
	struct tide_range piece;

	ck_assert(tide_range_next(&walk, UINT64_MAX, &piece));
	ck_assert(piece.offset == 0 && piece.bytes == 30);
	ck_assert(tide_range_next(&walk, UINT64_MAX, &piece));
	ck_assert(piece.offset == 40 && piece.bytes == 5);
	ck_assert(tide_range_next(&walk, UINT64_MAX, &piece));
	ck_assert(piece.offset == 30 && piece.bytes == 10);
	ck_assert(tide_range_next(&walk, UINT64_MAX, &piece));
	ck_assert(piece.offset == 45 && piece.bytes == 5);
	ck_assert(!tide_range_next(&walk, UINT64_MAX, &piece));
	ck_assert(!tide_range_next(&walk, UINT64_MAX, &piece));
	ck_assert_uint_eq(tide_range_total(list, 5), 50);
}
END_TEST

START_TEST(pieces_cover_every_byte_once)
{
	const struct tide_range list[] = {{0, 8}, {8, 8}, {100, 3}, {50, 16}};

	for (uint64_t piece_bytes = 1; piece_bytes < 20; piece_bytes++) {
		struct tide_range_walk walk = tide_range_walk(list, 4);
		unsigned char seen[128] = {0};
		struct tide_range piece;

		while (tide_range_next(&walk, piece_bytes, &piece)) {
			ck_assert(piece.bytes > 0 && piece.bytes <= piece_bytes);
			for (uint64_t i = 0; i < piece.bytes; i++)
				seen[piece.offset + i]++;
		}
		for (unsigned i = 0; i < sizeof(seen); i++)
			ck_assert_int_eq(seen[i],
					 i < 16 || (i >= 50 && i < 66) || (i >= 100 && i < 103));
	}
}
END_TEST

START_TEST(bad_ranges_are_named)
{
	const struct {
		struct tide_range range[2];
		size_t count;
		const char *word;
	} bad[] = {
		{{{0, 0}}, 1, "empty"},
		{{{4096, 100}}, 1, "whole backing pages"},
		{{{100, 4096}}, 1, "whole backing pages"},
		{{{8 * 4096, 4096}}, 1, "beyond"},
		{{{7 * 4096, 2 * 4096}}, 1, "beyond"},
		{{{4096, UINT64_MAX - 4095}}, 1, "beyond"},
		{{{UINT64_MAX - 4095, 4096}}, 1, "beyond"},
		{{{0, 8192}, {4096, 4096}}, 2, "overlaps"},
		{{{4096, 4096}, {0, 3 * 4096}}, 2, "overlaps"},
		{{{4096, 4096}, {4096, 4096}}, 2, "overlaps"},
	};
	struct tide_reason why;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ck_assert_int_eq(tide_range_check(bad[i].range, bad[i].count, 4096, 8 * 4096, &why),
				 TIDE_BAD_REQUEST);
		ck_assert_msg(strstr(why.message, bad[i].word), "%zu: %s", i, why.message);
	}
	ck_assert_int_eq(tide_range_check(NULL, 1, 4096, 8 * 4096, &why), TIDE_BAD_REQUEST);
	ck_assert_int_eq(tide_range_check(NULL, 0, 4096, 8 * 4096, &why), 0);
	ck_assert_int_eq(
		tide_range_check(&(struct tide_range){0, 8 * 4096}, 1, 4096, 8 * 4096, &why), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("range");
	TCase *tcase = tcase_create("range");

	tcase_add_test(tcase, neighbours_are_walked_as_one);
	tcase_add_test(tcase, pieces_cover_every_byte_once);
	tcase_add_test(tcase, bad_ranges_are_named);
	suite_add_tcase(suite, tcase);
	return fixture_run(suite);
}
