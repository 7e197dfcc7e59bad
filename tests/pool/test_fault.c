/* SPDX-License-Identifier: PostgreSQL */
/* test_fault.c - the storage that fails on purpose, around one in files and one in memory. */
#include "faulty_file_prim.h"
#include "storage_fixture.h"

#define HALF (PAGE_BYTES / 2)

enum below {
	IN_FILES,
	IN_MEMORY,
	BELOWS
};

static char folder[PATH_MAX];
static struct tide_storage below, storage;
static unsigned char *pages;

static void set_up(void)
{
	file_plan_clear();
	file_observer = NULL;
	fixture_folder(folder);
	pages = fixture_pages(200, PAGE_BYTES);
}

static void tear_down(void)
{
	file_plan_clear();
	tide_fault_close(&storage);
	fixture_remove(folder);
	free(pages);
}

static void open_around(int kind, const uint32_t *per_million, uint64_t seed)
{
	struct tide_fault_config config = {
		.page_bytes = PAGE_BYTES, .delay_ns = 1000, .seed = seed};
	struct tide_reason why;

	if (kind == IN_FILES)
		below = fixture_file_storage(folder, CHECKSUM_AT, 1);
	else
		ck_assert_int_eq(tide_memory_open(4, 300, PAGE_BYTES, &below, &why), 0);
	config.below = below;
	if (per_million)
		memcpy(config.per_million, per_million, sizeof(config.per_million));
	ck_assert_int_eq(tide_fault_open(&config, &storage, &why), 0);
}

static void close_around(int kind)
{
	tide_fault_close(&storage);
	ck_assert_ptr_null(storage.self);
	if (kind == IN_FILES)
		tide_file_close(&below);
	else
		tide_memory_close(&below);
}

static int write_version(uint64_t version, struct tide_reason *why)
{
	fixture_fill(pages, PAGE_BYTES, 1, 2, version);
	return fixture_one(&storage, 1, 2, pages, 1, why);
}

static int holds(uint32_t from, uint32_t to, uint64_t version)
{
	return fixture_holds(pages, PAGE_BYTES, from, to, 1, 2, version);
}

START_TEST(without_faults_it_is_as_below)
{
	struct tide_reason why;

	open_around(_i, NULL, 1);
	ck_assert_int_eq(write_version(1, &why), 0);
	memset(pages, 0, PAGE_BYTES);
	ck_assert_int_eq(fixture_read(&storage, 1, 2, pages), 0);
	ck_assert(holds(0, PAGE_BYTES, 1));
	ck_assert_int_eq(fixture_sync(&storage, 1), 0);
	for (enum tide_fault fault = 0; fault < TIDE_FAULTS; fault++)
		ck_assert_uint_eq(tide_fault_count(&storage, fault), 0);
	close_around(_i);
}
END_TEST

START_TEST(nothing_is_transferred)
{
	const enum tide_fault faults[] = {TIDE_FAULT_EIO, TIDE_FAULT_ENOSPC};
	struct tide_reason why;

	open_around(_i, NULL, 1);
	for (int f = 0; f < 2; f++) {
		ck_assert_int_eq(write_version(1, &why), 0);
		tide_fault_next(&storage, faults[f], 1);
		ck_assert_int_eq(write_version(2, &why), TIDE_IO_ERROR);
		ck_assert_int_eq(why.sys_errno, f == 0 ? EIO : ENOSPC);
		ck_assert(strstr(why.message, "page 2 of file 1"));
		ck_assert_uint_eq(tide_fault_count(&storage, faults[f]), 1);
		ck_assert_int_eq(fixture_read(&storage, 1, 2, pages), 0);
		ck_assert(holds(0, PAGE_BYTES, 1));
	}
	memset(pages, 0x11, PAGE_BYTES);
	tide_fault_next(&storage, TIDE_FAULT_EIO, 1);
	ck_assert_int_eq(fixture_read(&storage, 1, 2, pages), TIDE_IO_ERROR);
	for (uint32_t i = 0; i < PAGE_BYTES; i++)
		ck_assert_uint_eq(pages[i], 0x11);
	close_around(_i);
}
END_TEST

/* Half of the new page lies below; storage in files tells by the checksum, memory cannot. */
START_TEST(half_is_written)
{
	const enum tide_fault faults[] = {TIDE_FAULT_SHORT, TIDE_FAULT_TORN};
	struct tide_reason why;

	open_around(_i, NULL, 1);
	for (int f = 0; f < 2; f++) {
		ck_assert_int_eq(write_version(1, &why), 0);
		tide_fault_next(&storage, faults[f], 1);
		ck_assert_int_eq(write_version(2, &why), TIDE_IO_ERROR);
		ck_assert_int_eq(why.sys_errno, EIO);
		ck_assert(holds(0, PAGE_BYTES, 2)); /* the caller's page is as it was */
		ck_assert_uint_eq(tide_fault_count(&storage, faults[f]), 1);
		memset(pages, 0, PAGE_BYTES);
		ck_assert_int_eq(fixture_read(&storage, 1, 2, pages),
				 _i == IN_FILES ? TIDE_PAGE_CORRUPT : 0);
		ck_assert(holds(0, HALF, 2));
		ck_assert(holds(HALF, PAGE_BYTES, 1));
		ck_assert_int_eq(write_version(3, &why), 0);
		ck_assert_int_eq(fixture_read(&storage, 1, 2, pages), 0);
	}
	close_around(_i);
}
END_TEST

START_TEST(half_is_read)
{
	struct tide_reason why;

	open_around(_i, NULL, 1);
	ck_assert_int_eq(write_version(1, &why), 0);
	tide_fault_next(&storage, TIDE_FAULT_SHORT, 1);
	memset(pages, 0, PAGE_BYTES);
	ck_assert_int_eq(fixture_read(&storage, 1, 2, pages), TIDE_IO_ERROR);
	ck_assert(holds(0, HALF, 1));
	ck_assert(!holds(HALF, PAGE_BYTES, 1));
	ck_assert_uint_eq(tide_fault_count(&storage, TIDE_FAULT_SHORT), 1);
	ck_assert_int_eq(fixture_read(&storage, 1, 2, pages), 0);
	ck_assert(holds(0, PAGE_BYTES, 1));
	close_around(_i);
}
END_TEST

/* A torn write beyond the end leaves a file that ends within the page. */
START_TEST(torn_extension_is_found)
{
	struct tide_reason why;

	open_around(IN_FILES, NULL, 1);
	tide_fault_next(&storage, TIDE_FAULT_TORN, 1);
	ck_assert_int_eq(write_version(1, &why), TIDE_IO_ERROR);
	ck_assert_int_eq(fixture_one(&storage, 1, 2, pages, 0, &why), TIDE_PAGE_CORRUPT);
	ck_assert(strstr(why.message, "the file ends"));
	close_around(IN_FILES);
}
END_TEST

/* What cannot be torn is left as it was, and failed all the same. */
START_TEST(tearing_may_fail)
{
	struct tide_reason why;

	open_around(IN_MEMORY, NULL, 1);
	ck_assert_int_eq(write_version(1, &why), 0);
	tide_fault_next(&storage, TIDE_FAULT_TORN, 2);
	file_plan_set(FILE_ALLOCATE, 1, 1, ENOMEM, FILE_FAILS);
	ck_assert_int_eq(write_version(2, &why), TIDE_IO_ERROR);
	file_plan_clear();
	ck_assert_int_eq(fixture_read(&storage, 1, 2, pages), 0);
	ck_assert(holds(0, PAGE_BYTES, 1));
	ck_assert_int_eq(fixture_one(&storage, 9, 9, pages, 1, &why), TIDE_IO_ERROR);
	ck_assert_uint_eq(tide_fault_count(&storage, TIDE_FAULT_TORN), 2);
	close_around(IN_MEMORY);
}
END_TEST

START_TEST(sync_fails)
{
	const uint32_t chances[TIDE_FAULTS] = {[TIDE_FAULT_SYNC] = 500000};
	int n_failed = 0;

	open_around(_i, NULL, 1);
	tide_fault_next(&storage, TIDE_FAULT_SYNC, 2);
	ck_assert_int_eq(fixture_write(&storage, 1, 1, pages), 0);
	ck_assert_int_eq(fixture_sync(&storage, 1), TIDE_IO_ERROR);
	ck_assert_int_eq(fixture_sync(&storage, 1), TIDE_IO_ERROR);
	ck_assert_int_eq(fixture_sync(&storage, 1), 0);
	ck_assert_uint_eq(tide_fault_count(&storage, TIDE_FAULT_SYNC), 2);
	close_around(_i);
	open_around(_i, chances, 1);
	for (int i = 0; i < 1000; i++) {
		ck_assert_int_eq(fixture_read(&storage, 1, 1, pages), 0);
		n_failed += fixture_sync(&storage, 3) != 0;
	}
	ck_assert_int_gt(n_failed, 400);
	ck_assert_int_lt(n_failed, 600);
	ck_assert_uint_eq(tide_fault_count(&storage, TIDE_FAULT_SYNC), (uint64_t)n_failed);
	close_around(_i);
}
END_TEST

START_TEST(delay_succeeds)
{
	struct tide_io ios[3];
	struct tide_reason why;

	open_around(_i, NULL, 1);
	tide_fault_next(&storage, TIDE_FAULT_DELAY, 2);
	for (uint32_t i = 0; i < 3; i++) {
		ios[i] = fixture_io(1, i, pages + (size_t)i * PAGE_BYTES, 1);
		fixture_fill(ios[i].page, PAGE_BYTES, 1, i, 5);
	}
	ck_assert_int_eq(fixture_transfer(&storage, ios, 3, &why), 0);
	ck_assert_uint_eq(tide_fault_count(&storage, TIDE_FAULT_DELAY), 2);
	ck_assert_uint_eq(file_count(FILE_SLEEP), 1);
	ck_assert_int_eq(fixture_read(&storage, 1, 2, pages), 0);
	ck_assert(holds(0, PAGE_BYTES, 5));
	close_around(_i);
}
END_TEST

/* Of a batch those that failed are told by their codes; the others are carried out. */
START_TEST(batch_fails_in_part)
{
	struct tide_io ios[10];
	struct tide_reason why;

	open_around(_i, NULL, 1);
	for (uint32_t i = 0; i < 10; i++) {
		ios[i] = fixture_io(1, i, pages + (size_t)i * PAGE_BYTES, 1);
		fixture_fill(ios[i].page, PAGE_BYTES, 1, i, 5);
	}
	tide_fault_next(&storage, TIDE_FAULT_EIO, 2);
	tide_fault_next(&storage, TIDE_FAULT_ENOSPC, 1);
	ck_assert_int_eq(fixture_transfer(&storage, ios, 10, &why), TIDE_IO_ERROR);
	ck_assert(strstr(why.message, "page 0 of file 1"));
	for (uint32_t i = 0; i < 10; i++) {
		ck_assert_int_eq(ios[i].code, i < 3 ? TIDE_IO_ERROR : 0);
		ck_assert_int_eq(fixture_read(&below, 1, i, pages), 0);
		ck_assert(fixture_is_zero(pages, PAGE_BYTES) == (i < 3));
	}
	/* Nothing is left for storage below. */
	tide_fault_next(&storage, TIDE_FAULT_EIO, 10);
	ck_assert_int_eq(fixture_transfer(&storage, ios, 10, &why), TIDE_IO_ERROR);
	for (uint32_t i = 0; i < 10; i++)
		ck_assert_int_eq(ios[i].code, TIDE_IO_ERROR);
	/* What is asked for last counts. */
	tide_fault_next(&storage, TIDE_FAULT_EIO, 10);
	tide_fault_next(&storage, TIDE_FAULT_EIO, 0);
	ck_assert_int_eq(fixture_transfer(&storage, ios, 10, &why), 0);
	close_around(_i);
}
END_TEST

START_TEST(error_from_below_is_passed_on)
{
	struct tide_io ios[2] = {fixture_io(1, 1, pages, 0), fixture_io(77, 1, pages, 0)};
	struct tide_reason why;

	open_around(IN_MEMORY, NULL, 1);
	ck_assert_int_eq(fixture_transfer(&storage, ios, 2, &why), TIDE_IO_ERROR);
	ck_assert_int_eq(ios[0].code, 0);
	ck_assert_int_eq(ios[1].code, TIDE_IO_ERROR);
	ck_assert(strstr(why.message, "file 77"));
	close_around(IN_MEMORY);
}
END_TEST

/* Faults that only writes suffer wait for one. */
START_TEST(reads_suffer_no_faults_of_writes)
{
	const uint32_t chances[TIDE_FAULTS] = {
		[TIDE_FAULT_ENOSPC] = 500000, [TIDE_FAULT_TORN] = 500000};
	struct tide_reason why;

	open_around(_i, chances, 7);
	tide_fault_next(&storage, TIDE_FAULT_TORN, 1);
	for (int i = 0; i < 50; i++)
		ck_assert_int_eq(fixture_read(&storage, 1, 2, pages), 0);
	ck_assert_int_eq(write_version(1, &why), TIDE_IO_ERROR);
	ck_assert_uint_eq(tide_fault_count(&storage, TIDE_FAULT_TORN), 1);
	for (int i = 0; i < 50; i++)
		ck_assert_int_eq(write_version(1, &why), TIDE_IO_ERROR);
	close_around(_i);
}
END_TEST

#define CALLS 2000

/* Which of the calls fail, and how often each fault happens. */
static void run_calls(const uint32_t *chances, uint64_t seed, int *codes, uint64_t *counts)
{
	struct tide_reason why;

	open_around(IN_MEMORY, chances, seed);
	for (uint32_t i = 0; i < CALLS; i++)
		codes[i] = fixture_one(&storage, 1, i % 100, pages, (int)(i & 1), &why);
	for (enum tide_fault fault = 0; fault < TIDE_FAULTS; fault++)
		counts[fault] = tide_fault_count(&storage, fault);
	close_around(IN_MEMORY);
}

START_TEST(same_seed_same_faults)
{
	const uint32_t chances[TIDE_FAULTS] = {100000, 100000, 100000, 100000, 100000, 100000};
	uint64_t counts[3][TIDE_FAULTS];
	static int codes[3][CALLS];

	run_calls(chances, 42, codes[0], counts[0]);
	run_calls(chances, 42, codes[1], counts[1]);
	run_calls(chances, 43, codes[2], counts[2]);
	ck_assert_int_eq(memcmp(codes[0], codes[1], sizeof(codes[0])), 0);
	ck_assert_int_eq(memcmp(counts[0], counts[1], sizeof(counts[0])), 0);
	ck_assert_int_ne(memcmp(codes[0], codes[2], sizeof(codes[0])), 0);
	/* One in ten; of ENOSPC and TORN only writes, which are half of the calls. */
	for (enum tide_fault fault = 0; fault < TIDE_FAULTS; fault++) {
		int of_writes = fault == TIDE_FAULT_ENOSPC || fault == TIDE_FAULT_TORN;
		uint64_t n = of_writes ? 2 * counts[0][fault] : counts[0][fault];

		if (fault == TIDE_FAULT_SYNC)
			ck_assert_uint_eq(n, 0);
		else
			ck_assert(n > CALLS / 20 && n < CALLS / 5);
	}
}
END_TEST

/* More than a batch at once is no matter. */
START_TEST(long_batch)
{
	struct tide_io ios[200];
	struct tide_reason why;

	open_around(_i, NULL, 1);
	for (uint32_t i = 0; i < 200; i++)
		ios[i] = fixture_io(1, i, pages + (size_t)i * PAGE_BYTES, 1);
	ck_assert_int_eq(fixture_transfer(&storage, ios, 200, &why), 0);
	tide_fault_next(&storage, TIDE_FAULT_EIO, 100);
	ck_assert_int_eq(fixture_transfer(&storage, ios, 200, &why), TIDE_IO_ERROR);
	for (uint32_t i = 0; i < 200; i++)
		ck_assert_int_eq(ios[i].code, i < 100 ? TIDE_IO_ERROR : 0);
	close_around(_i);
}
END_TEST

static void *suffer(void *argument)
{
	unsigned char *page = fixture_pages(1, PAGE_BYTES);
	uint64_t number = *(uint64_t *)argument;
	uint64_t *failed = argument;

	*failed = 0;
	for (int i = 0; i < 500; i++) {
		*failed += fixture_write(&storage, 1, number, page) != 0;
		*failed += fixture_read(&storage, 1, number, page) != 0;
	}
	free(page);
	return NULL;
}

START_TEST(threads_share_the_faults)
{
	const uint32_t chances[TIDE_FAULTS] = {50000, 50000, 50000, 50000, 0, 1000};
	uint64_t numbers[4] = {1, 2, 3, 4}, failed = 0, counted = 0;
	pthread_t threads[4];

	open_around(IN_MEMORY, chances, 3);
	tide_fault_next(&storage, TIDE_FAULT_EIO, 1000);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, suffer, &numbers[i]), 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		failed += numbers[i];
	}
	for (enum tide_fault fault = 0; fault < TIDE_FAULT_SYNC; fault++)
		counted += tide_fault_count(&storage, fault);
	ck_assert_uint_eq(failed, counted);
	ck_assert_uint_ge(tide_fault_count(&storage, TIDE_FAULT_EIO), 1000);
	close_around(IN_MEMORY);
}
END_TEST

START_TEST(bad_configurations_are_refused)
{
	struct tide_fault_config good = {.page_bytes = PAGE_BYTES}, bad;
	struct tide_reason why;

	ck_assert_int_eq(tide_memory_open(1, 1, PAGE_BYTES, &below, &why), 0);
	good.below = below;
	ck_assert_int_eq(tide_fault_open(NULL, &storage, &why), TIDE_BAD_REQUEST);
	ck_assert_int_eq(tide_fault_open(&good, NULL, &why), TIDE_BAD_REQUEST);
	bad = good;
	bad.below.ops = NULL;
	ck_assert_int_eq(tide_fault_open(&bad, &storage, &why), TIDE_BAD_REQUEST);
	bad = good;
	bad.page_bytes = 1000;
	ck_assert_int_eq(tide_fault_open(&bad, &storage, &why), TIDE_BAD_REQUEST);
	bad = good;
	bad.per_million[TIDE_FAULT_EIO] = bad.per_million[TIDE_FAULT_DELAY] = 500001;
	ck_assert_int_eq(tide_fault_open(&bad, &storage, &why), TIDE_BAD_REQUEST);
	bad = good;
	bad.per_million[TIDE_FAULT_SYNC] = 1000001;
	ck_assert_int_eq(tide_fault_open(&bad, &storage, &why), TIDE_BAD_REQUEST);
	file_plan_set(FILE_ALLOCATE, 1, 1, ENOMEM, FILE_FAILS);
	ck_assert_int_eq(tide_fault_open(&good, &storage, &why), TIDE_NOT_ENOUGH_MEMORY);
	ck_assert_ptr_null(storage.self);
	tide_fault_close(NULL);
	tide_memory_close(&below);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("fault");
	TCase *tcase = tcase_create("fault");

	tcase_add_checked_fixture(tcase, set_up, tear_down);
	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, without_faults_it_is_as_below, 0, BELOWS);
	tcase_add_loop_test(tcase, nothing_is_transferred, 0, BELOWS);
	tcase_add_loop_test(tcase, half_is_written, 0, BELOWS);
	tcase_add_loop_test(tcase, half_is_read, 0, BELOWS);
	tcase_add_test(tcase, torn_extension_is_found);
	tcase_add_test(tcase, tearing_may_fail);
	tcase_add_loop_test(tcase, sync_fails, 0, BELOWS);
	tcase_add_loop_test(tcase, delay_succeeds, 0, BELOWS);
	tcase_add_loop_test(tcase, batch_fails_in_part, 0, BELOWS);
	tcase_add_test(tcase, error_from_below_is_passed_on);
	tcase_add_loop_test(tcase, reads_suffer_no_faults_of_writes, 0, BELOWS);
	tcase_add_test(tcase, same_seed_same_faults);
	tcase_add_loop_test(tcase, long_batch, 0, BELOWS);
	tcase_add_test(tcase, threads_share_the_faults);
	tcase_add_test(tcase, bad_configurations_are_refused);
	suite_add_tcase(suite, tcase);
	return fixture_run(suite);
}
