/* SPDX-License-Identifier: PostgreSQL */
/* test_lookup.c - the lookup table by itself: against a model, when it is full, and its arguments. */
#include <stdio.h>
#include <stdlib.h>

#include "lookup_fixture.h"

#define N_IDS 6000u
#define N_BUFFERS 4096u

static int steps_of(int steps)
{
	return getenv("TIDE_TEST_LONG") ? 10 * steps : steps;
}

/* --- against a model -------------------------------------------------------------------------- */

static uint32_t where[N_IDS];	   /* the model */
static uint32_t spare[N_BUFFERS];  /* buffers that hold nothing */
static uint32_t n_spare, capacity; /* capacity: entries the size allows */

static void model_insert(const struct table *table, uint32_t id)
{
	uint32_t existing = 0;

	if (n_spare == 0 || (where[id] == TIDE_LOOKUP_NONE && N_BUFFERS - n_spare >= capacity))
		return;
	ck_assert_int_eq(table_insert(table, id, spare[n_spare - 1], &existing), 0);
	ck_assert_uint_eq(existing, where[id]);
	if (existing == TIDE_LOOKUP_NONE)
		where[id] = spare[--n_spare];
}

static void model_remove(const struct table *table, uint32_t id)
{
	uint32_t buffer = where[id];

	if (buffer == TIDE_LOOKUP_NONE) {
		/* Any buffer that is in no bucket; one that is belongs to another key, perhaps of this bucket. */
		if (n_spare > 0)
			ck_assert_int_eq(table_remove(table, id, spare[n_spare - 1]), 0);
		return;
	}
	ck_assert_int_eq(table_remove(table, id, buffer), 1);
	ck_assert_int_eq(table_remove(table, id, buffer), 0);
	where[id] = TIDE_LOOKUP_NONE;
	spare[n_spare++] = buffer;
}

static void model_replace(const struct table *table, uint32_t id)
{
	uint32_t to;

	if (n_spare == 0)
		return;
	to = spare[n_spare - 1];
	table_set_key(table, to, key_of(table->shape, id));
	if (where[id] == TIDE_LOOKUP_NONE) {
		ck_assert_int_eq(tide_lookup_replace(table->lookup, table_hash(table, id), to, to),
				 0);
		return;
	}
	ck_assert_int_eq(tide_lookup_replace(table->lookup, table_hash(table, id), where[id], to),
			 1);
	spare[n_spare - 1] = where[id];
	where[id] = to;
}

static void model_check(const struct table *table)
{
	struct tide_lookup_stats stats;

	table_is_valid(table);
	for (uint32_t id = 0; id < N_IDS; id++)
		ck_assert_uint_eq(table_find(table, id), where[id]);
	tide_lookup_stats(table->lookup, &stats);
	ck_assert_uint_eq(stats.n_entries, N_BUFFERS - n_spare);
	ck_assert_uint_eq(stats.repairs, 0);
}

/* What a pool does before its table shrinks. */
static void model_empty_to(const struct table *table, uint32_t entries)
{
	for (uint32_t id = 0; id < N_IDS && N_BUFFERS - n_spare > entries; id++)
		if (where[id] != TIDE_LOOKUP_NONE)
			model_remove(table, id);
}

START_TEST(does_what_a_plain_array_does)
{
	struct table table = table_new((enum key_shape)_i, N_BUFFERS, N_BUFFERS);
	uint64_t seed = 20250101 + (uint64_t)_i;
	uint32_t target = N_BUFFERS;

	capacity = N_BUFFERS;
	n_spare = 0;
	for (uint32_t i = 0; i < N_BUFFERS; i++)
		spare[n_spare++] = i;
	memset(where, 0xff, sizeof(where));
	for (int step = 0; step < steps_of(200000); step++) {
		uint32_t id = (uint32_t)(random_next(&seed) % N_IDS);

		switch (random_next(&seed) % 8) {
		case 0:
		case 1:
		case 2:
			model_insert(&table, id);
			break;
		case 3:
			model_remove(&table, id);
			break;
		case 4:
			model_replace(&table, id);
			break;
		case 5:
			ck_assert_int_ge(tide_lookup_resize(table.lookup, target, 3, NULL), 0);
			break;
		default:
			ck_assert_uint_eq(table_find(&table, id), where[id]);
		}
		if (step % 10000 == 0) {
			model_check(&table);
			target = 320 + (uint32_t)(random_next(&seed) % (N_BUFFERS - 320));
			capacity = target;
			model_empty_to(&table, capacity);
		}
	}
	ck_assert_int_eq(table_resize(&table, target), 0);
	model_check(&table);
	table_free(&table);
}
END_TEST

/* --- memory ----------------------------------------------------------------------------------- */

START_TEST(layout_is_monotone_and_small)
{
	struct tide_lookup_layout a, b = {0};

	for (uint64_t n = 0; n <= TIDE_LOOKUP_BUFFERS; n = n * 5 / 4 + 1) {
		a = b;
		tide_lookup_layout((uint32_t)n, &b);
		ck_assert_uint_ge(b.n_buckets, a.n_buckets);
		ck_assert_uint_ge(b.bucket_bytes, a.bucket_bytes);
		ck_assert_uint_ge(b.overflow_bytes, a.overflow_bytes);
		if (n >= 1000) /* one hundredth of pages of 4 KiB */
			ck_assert_uint_le(b.bucket_bytes + b.overflow_bytes, n * 4096 / 100);
	}
}
END_TEST

/* As many entries as buffers, at every size between two doublings: lines must not run out. */
START_TEST(a_full_pool_needs_few_overflow_buckets)
{
	const uint32_t max = 80000;
	struct table table = table_new(KEY_PAGE_ID, max, 1);
	struct tide_lookup_stats stats;

	for (uint32_t n = 0; n < max; n++) {
		ck_assert_int_ge(tide_lookup_resize(table.lookup, n + 1, 4, NULL), 0);
		table_enter(&table, n, n);
		if (n % 2500 == 2499) {
			tide_lookup_stats(table.lookup, &stats);
			ck_assert_uint_eq(stats.n_buckets, n / 5 + 1);
			ck_assert_uint_lt(stats.n_overflow * 16, stats.n_buckets);
		}
	}
	table_is_valid(&table);
	for (uint32_t n = max; n-- > 0;) {
		ck_assert_int_eq(table_remove(&table, n, n), 1);
		ck_assert_int_ge(tide_lookup_resize(table.lookup, n, 4, NULL), 0);
	}
	ck_assert_int_eq(table_resize(&table, 0), 0);
	table_is_valid(&table);
	tide_lookup_stats(table.lookup, &stats);
	ck_assert_uint_eq(stats.n_buckets, 64);
	ck_assert_uint_eq(stats.n_entries + stats.n_overflow, 0);
	table_free(&table);
}
END_TEST

/* Shrinking again and again must not leave anything behind at the end of the arrays. */
START_TEST(the_end_is_unused_after_a_shrink)
{
	struct table table = table_new(KEY_TAG, 20000, 20000);
	struct tide_lookup_layout large, small;
	size_t bucket_bytes, line_bytes;

	tide_lookup_layout(20000, &large);
	tide_lookup_layout(1000, &small);
	bucket_bytes = large.bucket_bytes - small.bucket_bytes;
	line_bytes = large.overflow_bytes - small.overflow_bytes;
	for (int round = 0; round < 3; round++) {
		ck_assert_int_eq(table_resize(&table, 20000), 0);
		for (uint32_t n = 0; n < 20000; n++)
			table_enter(&table, n, n);
		for (uint32_t n = 0; n < 20000; n++)
			if (n % 20)
				ck_assert_int_eq(table_remove(&table, n, n), 1);
		ck_assert_int_eq(table_resize(&table, 1000), 0);
		/* What a host gives back reads as zero, or as anything when it does not. */
		if (round < 2) {
			memset((char *)table.memory.buckets + small.bucket_bytes, 0, bucket_bytes);
			memset((char *)table.memory.overflow + small.overflow_bytes, 0, line_bytes);
		}
		table_is_valid(&table);
		for (uint32_t n = 0; n < 20000; n += 20) {
			ck_assert_uint_eq(table_find(&table, n), n);
			ck_assert_int_eq(table_remove(&table, n, n), 1);
		}
	}
	table_free(&table);
}
END_TEST

/* --- hash ------------------------------------------------------------------------------------- */

/*
 * Dense page numbers of a few files, as databases have them. With n keys over b places chi-squared
 * is b - 1 on average with a standard deviation of sqrt(2 b): five of those are allowed.
 */
static void is_uniform(const struct table *table, uint32_t n, uint32_t shift, uint32_t bits)
{
	uint32_t b = 1u << bits;
	uint32_t *counts = calloc(b, sizeof(*counts));
	double mean = (double)n / b, chi = 0;

	ck_assert_ptr_nonnull(counts);
	for (uint32_t id = 0; id < n; id++)
		counts[(table_hash(table, id) >> shift) & (b - 1)]++;
	for (uint32_t i = 0; i < b; i++)
		chi += (counts[i] - mean) * (counts[i] - mean) / mean;
	chi = (chi - b) * (chi - b) / (2.0 * b);
	ck_assert_msg(chi < 25, "bits %u from %u on: %.1f squared deviations", bits, shift, chi);
	free(counts);
}

START_TEST(dense_ids_spread_evenly)
{
	struct table table = table_new((enum key_shape)_i, 1, 1);

	is_uniform(&table, 100000, 0, 6);  /* partitions */
	is_uniform(&table, 100000, 0, 14); /* buckets */
	is_uniform(&table, 1000000, 0, 18);
	is_uniform(&table, 100000, 56, 8); /* tags */
	is_uniform(&table, 100000, 20, 10);
	table_free(&table);
}
END_TEST

/* --- overflow --------------------------------------------------------------------------------- */

/* Enters @n keys whose hashes end in @bits; their ids go to @ids; buffers from *buffer on. */
static void pile_up(const struct table *table, uint64_t mask, uint64_t bits, uint32_t n,
		    uint64_t *ids, uint32_t *buffer)
{
	uint64_t id = 0;

	for (uint32_t i = 0; i < n; i++) {
		ids[i] = table_collide(table, &id, mask, bits);
		table_enter(table, ids[i], (*buffer)++);
	}
}

static void are_found(const struct table *table, const uint64_t *ids, uint32_t n, uint32_t buffer)
{
	for (uint32_t i = 0; i < n; i++)
		ck_assert_uint_eq(table_find(table, ids[i]), buffer + i);
}

START_TEST(a_chain_as_long_as_there_is_memory)
{
	struct table table = table_new(KEY_PAGE_ID, 512, 1); /* 64 buckets, 8 lines */
	struct tide_lookup_stats stats;
	uint64_t ids[100], id = 0;
	uint32_t buffer = 0, existing = 0;
	struct tide_reason why;

	pile_up(&table, 63, 5, 99, ids, &buffer);
	tide_lookup_stats(table.lookup, &stats);
	ck_assert_uint_eq(stats.n_overflow, 8);
	id = ids[98] + 1;
	ids[99] = table_collide(&table, &id, 63, 5);
	table_set_key(&table, 99, key_of(KEY_PAGE_ID, ids[99]));
	ck_assert_int_eq(
		tide_lookup_insert(table.lookup, table_hash(&table, ids[99]), 99, &existing, &why),
		TIDE_NOT_ENOUGH_MEMORY);
	ck_assert_ptr_nonnull(strstr(why.message, "overflow"));
	ck_assert_uint_eq(table_find(&table, ids[99]), TIDE_LOOKUP_NONE);
	are_found(&table, ids, 99, 0);
	table_is_valid(&table);
	/* A page that moves needs no slot, one that leaves makes room. */
	ck_assert_int_eq(table_remove(&table, ids[0], 0), 1);
	table_enter(&table, ids[99], 99);
	are_found(&table, ids + 1, 99, 1);
	/* Emptied from the front: entries move forward, and every line comes back. */
	for (uint32_t i = 1; i < 100; i++) {
		ck_assert_int_eq(table_remove(&table, ids[i], i), 1);
		are_found(&table, ids + i + 1, 99 - i, i + 1);
		table_is_valid(&table);
	}
	tide_lookup_stats(table.lookup, &stats);
	ck_assert_uint_eq(stats.n_overflow + stats.n_entries, 0);
	table_free(&table);
}
END_TEST

START_TEST(a_split_without_lines_changes_nothing)
{
	struct table table = table_new(KEY_PAGE_ID, 1024, 1);
	struct tide_lookup_stats stats;
	uint64_t ids[99];
	uint32_t buffer = 0;
	struct tide_reason why;

	/* All of bucket 3 belongs into bucket 67, and 71 buckets come with no more lines than 64. */
	pile_up(&table, 127, 67, 99, ids, &buffer);
	ck_assert_int_eq(tide_lookup_resize(table.lookup, 355, 100, &why), TIDE_NOT_ENOUGH_MEMORY);
	ck_assert_ptr_nonnull(strstr(why.message, "67 buckets"));
	tide_lookup_stats(table.lookup, &stats);
	ck_assert_uint_eq(stats.n_buckets, 67);
	table_is_valid(&table);
	are_found(&table, ids, 99, 0);
	ck_assert_int_eq(table_resize(&table, 1024), 0);
	table_is_valid(&table);
	are_found(&table, ids, 99, 0);
	ck_assert_int_eq(table_resize(&table, 1), 0);
	table_is_valid(&table);
	are_found(&table, ids, 99, 0);
	table_free(&table);
}
END_TEST

START_TEST(a_merge_without_lines_changes_nothing)
{
	struct table table = table_new(KEY_PAGE_ID, 640, 640); /* 128 buckets, 16 lines */
	struct tide_lookup_stats stats;
	uint64_t a[55], b[55], c[99];
	uint32_t buffer = 0;

	pile_up(&table, 127, 10, 55, a, &buffer);
	pile_up(&table, 127, 74, 55, b, &buffer);
	pile_up(&table, 127, 11, 99, c, &buffer);
	ck_assert_int_eq(tide_lookup_resize(table.lookup, 1, 1000, NULL), TIDE_NOT_ENOUGH_MEMORY);
	tide_lookup_stats(table.lookup, &stats);
	ck_assert_uint_eq(stats.n_buckets, 75);
	table_is_valid(&table);
	are_found(&table, a, 55, 0);
	are_found(&table, b, 55, 55);
	are_found(&table, c, 99, 110);
	/* With c gone the merge succeeds, and then the end of the lines cannot be emptied. */
	for (uint32_t i = 0; i < 99; i++)
		ck_assert_int_eq(table_remove(&table, c[i], 110 + i), 1);
	ck_assert_int_eq(table_resize(&table, 1), TIDE_NOT_ENOUGH_MEMORY);
	tide_lookup_stats(table.lookup, &stats);
	ck_assert_uint_eq(stats.n_buckets, 64);
	ck_assert_uint_eq(stats.n_overflow, 9);
	table_is_valid(&table);
	for (uint32_t i = 0; i < 11; i++)
		ck_assert_int_eq(table_remove(&table, b[i], 55 + i), 1);
	ck_assert_int_eq(table_resize(&table, 1), 0);
	table_is_valid(&table);
	are_found(&table, a, 55, 0);
	are_found(&table, b + 11, 44, 66);
	table_free(&table);
}
END_TEST

/* --- arguments -------------------------------------------------------------------------------- */

START_TEST(bad_memory_is_named)
{
	struct table table = table_new(KEY_TAG, 100, 100);
	struct tide_lookup_memory bad[11];
	struct tide_lookup *out = NULL;
	struct tide_reason why;
	uint32_t n = 0;

	for (uint32_t i = 0; i < 11; i++)
		bad[i] = table.memory;
	bad[n++].head = NULL;
	bad[n++].buckets = NULL;
	bad[n++].overflow = (char *)table.memory.overflow + 4;
	bad[n++].length = 0;
	bad[n++].length = 22;
	bad[n++].length = 68;
	bad[n++].offset = 2;
	bad[n++].offset = 48;
	bad[n++].stride = 16;
	bad[n++].stride = 66;
	bad[n++].keys = (const char *)table.memory.keys + 1;
	for (uint32_t i = 0; i < n; i++) {
		ck_assert_int_eq(tide_lookup_init(&bad[i], 100, 1, &why), TIDE_BAD_REQUEST);
		ck_assert_int_eq(tide_lookup_open(&bad[i], &out, &why), TIDE_BAD_REQUEST);
		ck_assert_ptr_nonnull(strstr(why.message, "lookup table: "));
	}
	ck_assert_int_eq(tide_lookup_init(&table.memory, 0x80000000u, 1, &why), TIDE_BAD_REQUEST);
	ck_assert_int_eq(tide_lookup_resize(table.lookup, 0x80000000u, 1, &why), TIDE_BAD_REQUEST);
	ck_assert_int_eq(tide_lookup_resize(table.lookup, 100, 0, &why), TIDE_BAD_REQUEST);
	table_free(&table);
}
END_TEST

START_TEST(a_table_that_is_none_is_refused)
{
	struct table table = table_new(KEY_TAG, 100, 100);
	struct tide_lookup_memory other = table.memory;
	struct tide_lookup *out = NULL;
	struct tide_reason why;

	other.length = 16;
	ck_assert_int_eq(tide_lookup_open(&other, &out, &why), TIDE_BAD_REQUEST);
	ck_assert_ptr_nonnull(strstr(why.message, "length"));
	((uint32_t *)table.memory.head)[2]++;
	ck_assert_int_eq(tide_lookup_open(&table.memory, &out, &why), TIDE_BAD_REQUEST);
	ck_assert_ptr_nonnull(strstr(why.message, "version"));
	memset(table.memory.head, 0, 64);
	ck_assert_int_eq(tide_lookup_open(&table.memory, &out, &why), TIDE_BAD_REQUEST);
	ck_assert_ptr_nonnull(strstr(why.message, "none"));
	table_free(&table);
}
END_TEST

/* Each contradiction that can be written into memory by hand is found. */
START_TEST(contradictions_are_found)
{
	struct table table = table_new(KEY_PAGE_ID, 512, 1);
	unsigned char *buckets = table.memory.buckets, *lines = table.memory.overflow;
	unsigned char *saved = malloc(table.all_bytes);
	uint64_t ids[12];
	uint32_t buffer = 0;
	struct tide_reason why;

	ck_assert_ptr_nonnull(saved);
	pile_up(&table, 63, 5, 12, ids, &buffer);
	memcpy(saved, table.all, table.all_bytes);
	for (int fault = 0; fault < 9; fault++) {
		unsigned char *line = lines;

		memcpy(table.all, saved, table.all_bytes);
		while (!line[0])
			line += 64;
		if (fault == 0)
			buckets[5 * 64]++; /* tag */
		else if (fault == 1)
			buckets[5 * 64 + 11]++; /* level */
		else if (fault == 2)
			memcpy(buckets + 5 * 64 + 16, &(uint32_t){1}, 4), /* twice */
				buckets[5 * 64] = buckets[5 * 64 + 1];
		else if (fault == 3)
			memcpy(line + 12, &(uint32_t){9}, 4); /* owner */
		else if (fault == 4)
			memcpy(buckets + 7 * 64 + 60, buckets + 5 * 64 + 60, 4); /* next */
		else if (fault == 5)
			memcpy(buckets + 5 * 64 + 60, &(uint32_t){0}, 4); /* lost */
		else if (fault == 6)
			memcpy(line + 60, buckets + 5 * 64 + 60, 4); /* circle */
		else if (fault == 7)
			memcpy(buckets + 5 * 64 + 16, &(uint32_t){0x80000000u}, 4);
		else
			table_set_key(&table, 1, key_of(KEY_PAGE_ID, ids[0]));
		ck_assert_msg(!tide_lookup_valid(table.lookup, &why), "fault %d", fault);
		ck_assert_msg(why.message[0] != 0, "fault %d", fault);
	}
	memcpy(table.all, saved, table.all_bytes);
	table_is_valid(&table);
	free(saved);
	table_free(&table);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("lookup");
	TCase *tcase = tcase_create("lookup");

	tcase_set_timeout(tcase, 300);
	tcase_add_loop_test(tcase, does_what_a_plain_array_does, 0, KEY_SHAPES);
	tcase_add_test(tcase, layout_is_monotone_and_small);
	tcase_add_test(tcase, a_full_pool_needs_few_overflow_buckets);
	tcase_add_test(tcase, the_end_is_unused_after_a_shrink);
	tcase_add_loop_test(tcase, dense_ids_spread_evenly, 0, KEY_SHAPES);
	tcase_add_test(tcase, a_chain_as_long_as_there_is_memory);
	tcase_add_test(tcase, a_split_without_lines_changes_nothing);
	tcase_add_test(tcase, a_merge_without_lines_changes_nothing);
	tcase_add_test(tcase, bad_memory_is_named);
	tcase_add_test(tcase, a_table_that_is_none_is_refused);
	tcase_add_test(tcase, contradictions_are_found);
	suite_add_tcase(suite, tcase);
	return table_run(suite);
}
