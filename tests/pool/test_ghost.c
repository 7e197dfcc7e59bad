/* SPDX-License-Identifier: PostgreSQL */
/*
 * tests/pool/test_ghost.c - which pages were dropped not long ago.
 */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "pool/ghost.h"

#define MAX_BUFFERS 4096u
#define ENTRIES 8u /* of a bucket */
#define CANARY UINT64_C(0x5ca1ab1e)

static struct ghost_head head;
static struct ghosts ghosts = {.head = &head};
static uint64_t max_bytes;

static void setup(void)
{
	max_bytes = ghost_bytes(MAX_BUFFERS);
	ghosts.entries = aligned_alloc(64, max_bytes + 64);
	ck_assert_ptr_nonnull(ghosts.entries);
	memset((void *)ghosts.entries, 0, max_bytes);
	atomic_store(&ghosts.entries[max_bytes / 8], CANARY);
	memset((void *)&head, 0, sizeof(head));
}

static void teardown(void)
{
	ck_assert_uint_eq(atomic_load(&ghosts.entries[max_bytes / 8]), CANARY);
	free((void *)ghosts.entries);
}

/* A hash that falls into @bucket as long as there are no more than 2^16, with a tag of its own. */
static uint64_t hash(uint32_t bucket, uint32_t tag)
{
	return (uint64_t)tag << 32 | bucket;
}

static uint64_t scattered(uint64_t i)
{
	i = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
	return (i ^ i >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
}

START_TEST(eight_bytes_a_buffer)
{
	ck_assert_uint_eq(ghost_bytes(0), 0);
	ck_assert_uint_eq(ghost_bytes(1), 64);
	ck_assert_uint_eq(ghost_bytes(131072), 1048576);
	ck_assert_uint_eq(ghost_bytes(INT32_MAX), UINT64_C(0x400000000));
	for (uint32_t n = 1; n < MAX_BUFFERS; n++) {
		ck_assert_uint_eq(ghost_bytes(n) % 64, 0);
		ck_assert_uint_le(ghost_bytes(n - 1), ghost_bytes(n));
		ck_assert_uint_ge(ghost_bytes(n), 8 * n);
	}
}
END_TEST

START_TEST(without_buckets_nothing_is_remembered)
{
	ghost_add(&ghosts, hash(0, 1), 1);
	ck_assert_int_eq(ghost_take(&ghosts, hash(0, 1), 1, 100), 0);
	ck_assert_uint_eq(atomic_load(&ghosts.entries[0]), 0);
	ghost_resize(&ghosts, 64);
	ghost_add(&ghosts, hash(0, 1), 1);
	ghost_resize(&ghosts, 0);
	ck_assert_int_eq(ghost_take(&ghosts, hash(0, 1), 1, 100), 0);
}
END_TEST

START_TEST(taken_once)
{
	ghost_resize(&ghosts, 64);
	ck_assert_int_eq(ghost_take(&ghosts, hash(3, 5), 10, 100), 0);
	ghost_add(&ghosts, hash(3, 5), 10);
	ck_assert_int_eq(ghost_take(&ghosts, hash(3, 6), 10, 100), 0);
	ck_assert_int_eq(ghost_take(&ghosts, hash(4, 5), 10, 100), 0);
	ck_assert_int_eq(ghost_take(&ghosts, hash(3, 5), 11, 100), 1);
	ck_assert_int_eq(ghost_take(&ghosts, hash(3, 5), 11, 100), 0);
}
END_TEST

START_TEST(a_hash_without_upper_half)
{
	ghost_resize(&ghosts, 64);
	ghost_add(&ghosts, hash(3, 0), 0);
	ck_assert_int_eq(ghost_take(&ghosts, hash(3, 0), 1, 100), 1);
	ck_assert_int_eq(ghost_take(&ghosts, hash(3, 0), 1, 100), 0);
}
END_TEST

START_TEST(reach_also_where_stamps_wrap)
{
	static const uint32_t stamps[] = {0, 1000, UINT32_MAX - 20, UINT32_MAX};

	ghost_resize(&ghosts, 64);
	for (unsigned i = 0; i < sizeof(stamps) / sizeof(stamps[0]); i++) {
		ghost_add(&ghosts, hash(3, 5), stamps[i]);
		ck_assert_int_eq(ghost_take(&ghosts, hash(3, 5), stamps[i] + 50, 50), 1);
		ghost_add(&ghosts, hash(3, 5), stamps[i]);
		ck_assert_int_eq(ghost_take(&ghosts, hash(3, 5), stamps[i] + 51, 50), 0);
		/* What is out of reach is forgotten. */
		ck_assert_int_eq(ghost_take(&ghosts, hash(3, 5), stamps[i], 50), 0);
	}
}
END_TEST

START_TEST(dropped_again_is_remembered_once)
{
	ghost_resize(&ghosts, 64);
	for (uint32_t tag = 1; tag <= ENTRIES; tag++)
		ghost_add(&ghosts, hash(3, tag), tag);
	for (uint32_t stamp = 100; stamp < 120; stamp++)
		ghost_add(&ghosts, hash(3, 4), stamp);
	for (uint32_t tag = 1; tag <= ENTRIES; tag++)
		ck_assert_int_eq(ghost_take(&ghosts, hash(3, tag), 120, 120), 1);
	ck_assert_int_eq(ghost_take(&ghosts, hash(3, 4), 120, 120), 0);
}
END_TEST

START_TEST(a_full_bucket_forgets_its_oldest)
{
	uint32_t first = UINT32_MAX - 3; /* stamps wrap on the way */

	ghost_resize(&ghosts, 64);
	for (uint32_t i = 0; i < ENTRIES; i++) /* not in order of age */
		ghost_add(&ghosts, hash(3, 1 + i), first + (i + 5) % ENTRIES);
	for (uint32_t i = 0; i < 3; i++)
		ghost_add(&ghosts, hash(3, 100 + i), first + ENTRIES + i);
	for (uint32_t i = 0; i < ENTRIES; i++)
		ck_assert_int_eq(ghost_take(&ghosts, hash(3, 1 + i), first + 20, 100),
				 (i + 5) % ENTRIES >= 3);
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_int_eq(ghost_take(&ghosts, hash(3, 100 + i), first + 20, 100), 1);
}
END_TEST

START_TEST(stamps_of_others_may_be_ahead)
{
	ghost_resize(&ghosts, 64);
	for (uint32_t tag = 1; tag <= ENTRIES; tag++)
		ghost_add(&ghosts, hash(3, tag), tag == 5 ? 1000 : 1010);
	ghost_add(&ghosts, hash(3, 9), 1005);
	ck_assert_int_eq(ghost_take(&ghosts, hash(3, 5), 1005, 100), 0);
	ck_assert_int_eq(ghost_take(&ghosts, hash(3, 6), 1005, 100), 1);
}
END_TEST

START_TEST(an_empty_place_comes_first)
{
	ghost_resize(&ghosts, 64);
	for (uint32_t tag = 1; tag <= ENTRIES; tag++)
		ghost_add(&ghosts, hash(3, tag), tag);
	ck_assert_int_eq(ghost_take(&ghosts, hash(3, 8), 9, 100), 1);
	ghost_add(&ghosts, hash(3, 9), 9);
	ck_assert_int_eq(ghost_take(&ghosts, hash(3, 1), 9, 100), 1);
}
END_TEST

/* To every size up to twice as many buckets: what was split off is found with its parent. */
START_TEST(growth_loses_nothing)
{
	for (uint32_t from = 8; from <= 512; from = from * 3 / 2 / 8 * 8 + 8)
		for (uint32_t to = from; to <= 2 * from; to += 8) {
			uint32_t n = from / 8;

			memset((void *)ghosts.entries, 0, max_bytes);
			ghost_resize(&ghosts, from);
			for (uint32_t i = 0; i < n; i++)
				ghost_add(&ghosts, scattered(i), 1);
			for (uint32_t i = 0; i < n; i++) /* those that found a place */
				if (ghost_take(&ghosts, scattered(i), 1, 10))
					ghost_add(&ghosts, scattered(i), 2);
				else
					ck_assert_uint_gt(n, ENTRIES);
			ghost_resize(&ghosts, to);

			uint32_t found = 0;

			for (uint32_t i = 0; i < n; i++)
				found += (uint32_t)ghost_take(&ghosts, scattered(i), 3, 10);
			ck_assert_uint_ge(found, n - n / 16);
		}
}
END_TEST

START_TEST(a_split_bucket_looks_at_its_parent)
{
	ghost_resize(&ghosts, 8 * 5);	   /* buckets 0 to 4 */
	ghost_add(&ghosts, hash(6, 1), 1); /* lies in 2 */
	ghost_add(&ghosts, hash(7, 2), 1); /* lies in 3 */
	ghost_resize(&ghosts, 8 * 7);	   /* now there is a 6 and no 7 */
	ghost_add(&ghosts, hash(6, 3), 1); /* lies in 6 */
	ck_assert_int_eq(ghost_take(&ghosts, hash(6, 3), 2, 10), 1);
	ck_assert_int_eq(ghost_take(&ghosts, hash(6, 1), 2, 10), 1);
	ck_assert_int_eq(ghost_take(&ghosts, hash(6, 1), 2, 10), 0);
	ck_assert_int_eq(ghost_take(&ghosts, hash(7, 2), 2, 10), 1);
}
END_TEST

START_TEST(shrink_and_memory_that_is_zero_again)
{
	uint64_t kept_bytes = ghost_bytes(1024);
	uint32_t found = 0;

	ghost_resize(&ghosts, MAX_BUFFERS);
	for (uint32_t i = 0; i < 2000; i++)
		ghost_add(&ghosts, scattered(i), i);
	ghost_resize(&ghosts, 1024);
	memset((char *)ghosts.entries + kept_bytes, 0, max_bytes - kept_bytes);
	for (uint32_t i = 2000; i < 2100; i++)
		ghost_add(&ghosts, scattered(i), i);
	for (uint64_t i = kept_bytes / 8; i < max_bytes / 8; i++)
		ck_assert_uint_eq(atomic_load(&ghosts.entries[i]), 0);
	ghost_resize(&ghosts, MAX_BUFFERS);
	for (uint32_t i = 10000; i < 30000; i++) /* were never there */
		ck_assert_int_eq(ghost_take(&ghosts, scattered(i), 2100, 4000), 0);
	for (uint32_t i = 0; i < 2000; i++)
		found += (uint32_t)ghost_take(&ghosts, scattered(i), 2100, 4000);
	ck_assert_uint_gt(found, 2000 / 4 * 3 / 4);
	ck_assert_uint_lt(found, 2000 / 4 * 5 / 4);
	ghost_resize(&ghosts, 0);
	ghost_add(&ghosts, scattered(1), 1);
	ck_assert_int_eq(ghost_take(&ghosts, scattered(1), 1, 10), 0);
}
END_TEST

/* As many as there are buffers: most of them are remembered. */
START_TEST(holds_about_one_for_each_buffer)
{
	uint32_t found = 0;

	ghost_resize(&ghosts, MAX_BUFFERS);
	for (uint32_t i = 0; i < MAX_BUFFERS; i++)
		ghost_add(&ghosts, scattered(i), i);
	for (uint32_t i = 0; i < MAX_BUFFERS; i++)
		found += (uint32_t)ghost_take(&ghosts, scattered(i), MAX_BUFFERS, MAX_BUFFERS);
	ck_assert_uint_gt(found, MAX_BUFFERS * 8 / 10);
}
END_TEST

static void *add_and_take(void *argument)
{
	uint64_t first = *(const uint32_t *)argument;
	uint64_t never = 0;

	for (uint32_t i = 0; i < 200000; i++) {
		ghost_add(&ghosts, scattered(first + i % 512), i);
		ghost_take(&ghosts, scattered(first + (i * 7) % 512), i, 1000);
		never += (uint64_t)ghost_take(&ghosts, scattered(1000000 + i), i, UINT32_MAX);
	}
	return (void *)(uintptr_t)never;
}

START_TEST(at_the_same_time_only_hints_are_lost)
{
	uint32_t firsts[] = {0, 256}; /* half of the pages are both's */
	pthread_t threads[2];

	ghost_resize(&ghosts, 512);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, add_and_take, &firsts[i]), 0);
	for (uint32_t i = 0; i < 100; i++)
		ghost_resize(&ghosts, 512 + i % 2 * 256);
	for (unsigned i = 0; i < 2; i++) {
		void *never;

		ck_assert_int_eq(pthread_join(threads[i], &never), 0);
		ck_assert_ptr_null(never);
	}
}
END_TEST

static void add_tests(TCase *tc)
{
	tcase_add_test(tc, eight_bytes_a_buffer);
	tcase_add_test(tc, without_buckets_nothing_is_remembered);
	tcase_add_test(tc, taken_once);
	tcase_add_test(tc, a_hash_without_upper_half);
	tcase_add_test(tc, reach_also_where_stamps_wrap);
	tcase_add_test(tc, dropped_again_is_remembered_once);
	tcase_add_test(tc, a_full_bucket_forgets_its_oldest);
	tcase_add_test(tc, stamps_of_others_may_be_ahead);
	tcase_add_test(tc, an_empty_place_comes_first);
	tcase_add_test(tc, growth_loses_nothing);
	tcase_add_test(tc, a_split_bucket_looks_at_its_parent);
	tcase_add_test(tc, shrink_and_memory_that_is_zero_again);
	tcase_add_test(tc, holds_about_one_for_each_buffer);
	tcase_add_test(tc, at_the_same_time_only_hints_are_lost);
}

int main(void)
{
	Suite *suite = suite_create("ghost");
	TCase *tc = tcase_create("ghosts");
	SRunner *runner;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	add_tests(tc);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);

	int failed = srunner_ntests_failed(runner);

	srunner_free(runner);
	return failed ? 1 : 0;
}
