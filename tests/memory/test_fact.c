/* SPDX-License-Identifier: PostgreSQL */
/* test_fact.c - small facts read from text files, and the files they are read from. */
#include "fixture.h"
#include "memory/fact.h"
#include "memory/hugepool.h"
#include "memory/meminfo.h"

static char folder[64];

static void begin(void)
{
	fixture_folder(folder);
}

static void end(void)
{
	fixture_remove(folder);
}

static struct tide_machine played(void)
{
	return (struct tide_machine){folder, folder, folder};
}

START_TEST(sizes_are_exact)
{
	ck_assert_str_eq(tide_fact_size(0).text, "0 bytes");
	ck_assert_str_eq(tide_fact_size(1).text, "1 byte");
	ck_assert_str_eq(tide_fact_size(1025).text, "1025 bytes");
	ck_assert_str_eq(tide_fact_size(8192).text, "8 kB");
	ck_assert_str_eq(tide_fact_size(1536 * MIB).text, "1536 MiB");
	ck_assert_str_eq(tide_fact_size(4 * GIB_BYTES).text, "4 GiB");
	ck_assert_str_eq(tide_fact_size(1ull << 40).text, "1 TiB");
	ck_assert_str_eq(tide_fact_size(1ull << 60).text, "1048576 TiB");
}
END_TEST

START_TEST(numbers_and_what_is_none)
{
	char path[TIDE_FACT_PATH_BYTES];
	uint64_t value = 5;

	fixture_write(folder, "number", "42\n");
	fixture_write(folder, "max", "max\n");
	fixture_write(folder, "empty", "");
	fixture_write(folder, "huge", "99999999999999999999999\n");
	ck_assert_int_eq(tide_fact_path(path, "%s/number", folder), 0);
	ck_assert_int_eq(tide_fact_number(path, &value), 0);
	ck_assert_uint_eq(value, 42);
	ck_assert_int_eq(tide_fact_path(path, "%s/huge", folder), 0);
	ck_assert_int_eq(tide_fact_number(path, &value), 0);
	ck_assert_uint_eq(value, UINT64_MAX);
	ck_assert_int_eq(tide_fact_path(path, "%s/max", folder), 0);
	ck_assert_int_eq(tide_fact_number(path, &value), -EINVAL);
	ck_assert_int_eq(tide_fact_path(path, "%s/empty", folder), 0);
	ck_assert_int_eq(tide_fact_number(path, &value), -EINVAL);
	ck_assert_int_eq(tide_fact_path(path, "%s/none", folder), 0);
	ck_assert_int_eq(tide_fact_number(path, &value), -ENOENT);
	ck_assert_int_eq(tide_fact_path(path, "%02000d", 1), -ENAMETOOLONG);
}
END_TEST

START_TEST(fields_begin_a_line)
{
	const char *text = "total_cache 1\ncache 22\nrss x\nlast 4";
	uint64_t value;

	ck_assert_int_eq(tide_fact_field(text, "cache ", &value), 0);
	ck_assert_uint_eq(value, 22);
	ck_assert_int_eq(tide_fact_field(text, "last ", &value), 0);
	ck_assert_uint_eq(value, 4);
	ck_assert_int_eq(tide_fact_field(text, "rss ", &value), -ENOENT);
	ck_assert_int_eq(tide_fact_field(text, "none ", &value), -ENOENT);
}
END_TEST

START_TEST(meminfo_reads_what_is_there)
{
	const struct tide_machine machine = played();
	struct tide_meminfo meminfo;

	ck_assert_int_eq(tide_meminfo_read(&machine, &meminfo), -ENOENT);
	ck_assert_uint_eq(meminfo.available, UINT64_MAX);
	fixture_write(folder, "meminfo",
		      "MemTotal:  1000 kB\nMemFree: 5 kB\nMemAvailable:   600 kB\n"
		      "CommitLimit:  900 kB\nCommitted_AS: 650 kB\nHugepagesize:    2048 kB\n");
	ck_assert_int_eq(tide_meminfo_read(&machine, &meminfo), 0);
	ck_assert_uint_eq(meminfo.total, 1000 * 1024);
	ck_assert_uint_eq(meminfo.available, 600 * 1024);
	ck_assert_uint_eq(meminfo.huge_page_bytes, HUGE_BYTES);
	ck_assert_uint_eq(meminfo.commit_left, UINT64_MAX);
	fixture_write(folder, "sys/vm/overcommit_memory", "2\n");
	ck_assert_int_eq(tide_meminfo_read(&machine, &meminfo), 0);
	ck_assert_uint_eq(meminfo.commit_left, 250 * 1024);
}
END_TEST

START_TEST(hugepool_counts)
{
	const struct tide_machine machine = played();
	struct tide_hugepool pool;

	ck_assert_int_eq(tide_hugepool_read(&machine, HUGE_BYTES, &pool), -ENOENT);
	fixture_write(folder, "kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "10\n");
	ck_assert_int_eq(tide_hugepool_read(&machine, HUGE_BYTES, &pool), 0);
	ck_assert_uint_eq(pool.total, 10);
	ck_assert_uint_eq(pool.free, 0);
	fixture_write(folder, "kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "7\n");
	fixture_write(folder, "kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "2\n");
	fixture_write(folder, "kernel/mm/hugepages/hugepages-2048kB/surplus_hugepages", "3\n");
	fixture_write(folder, "kernel/mm/hugepages/hugepages-2048kB/nr_overcommit_hugepages",
		      "8\n");
	ck_assert_int_eq(tide_hugepool_read(&machine, HUGE_BYTES, &pool), 0);
	ck_assert_uint_eq(tide_hugepool_unreserved(&pool), 5);
	ck_assert_uint_eq(tide_hugepool_surplus_room(&pool), 5);
	pool.reserved = 9;
	pool.overcommit = 1;
	ck_assert_uint_eq(tide_hugepool_unreserved(&pool), 0);
	ck_assert_uint_eq(tide_hugepool_surplus_room(&pool), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("fact");
	TCase *tcase = tcase_create("fact");

	tcase_add_checked_fixture(tcase, begin, end);
	tcase_add_test(tcase, sizes_are_exact);
	tcase_add_test(tcase, numbers_and_what_is_none);
	tcase_add_test(tcase, fields_begin_a_line);
	tcase_add_test(tcase, meminfo_reads_what_is_there);
	tcase_add_test(tcase, hugepool_counts);
	suite_add_tcase(suite, tcase);
	return fixture_run(suite);
}
