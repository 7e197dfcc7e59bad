/* SPDX-License-Identifier: PostgreSQL */
/* test_preflight.c - could so many bytes be committed? Played machines, one bound after another. */
#include "fixture.h"

#define POOL "kernel/mm/hugepages/hugepages-2048kB/"
#define POOL_GIB "kernel/mm/hugepages/hugepages-1048576kB/"

static char folder[64];
static struct tide_machine machine;
static struct tide_verdict verdict;

static void play_pool(const char *pool, const char *total, const char *free, const char *reserved,
		      const char *surplus, const char *overcommit)
{
	const char *const names[] = {"nr_hugepages", "free_hugepages", "resv_hugepages",
				     "surplus_hugepages", "nr_overcommit_hugepages"};
	const char *const texts[] = {total, free, reserved, surplus, overcommit};
	char name[96];

	for (int i = 0; i < 5; i++) {
		snprintf(name, sizeof(name), "%s%s", pool, names[i]);
		fixture_write(folder, name, texts[i]);
	}
}

/* 16 GiB, 8 of them available; 10 huge pages, 4 free of which 1 is promised; 6 may be surplus. */
static void begin(void)
{
	fixture_folder(folder);
	machine = (struct tide_machine){folder, folder, folder};
	play_pool(POOL, "10\n", "4\n", "1\n", "2\n", "8\n");
	fixture_write(folder, "meminfo",
		      "MemTotal:       16777216 kB\nMemFree:         1000000 kB\n"
		      "MemAvailable:    8388608 kB\nCommitLimit:     4194304 kB\n"
		      "Committed_AS:    3145728 kB\nHugepagesize:       2048 kB\n");
}

static void end(void)
{
	fixture_remove(folder);
}

static int huge(uint64_t bytes)
{
	return tide_preflight(&machine, TIDE_BACKING_HUGETLB, HUGE_BYTES, bytes, &verdict);
}

static int base(uint64_t bytes)
{
	return tide_preflight(&machine, TIDE_BACKING_BASE, 4096, bytes, &verdict);
}

static void expect_pages(uint64_t want, uint64_t have)
{
	ck_assert_uint_eq(verdict.want_pages, want);
	ck_assert_uint_eq(verdict.have_pages, have);
	ck_assert_uint_eq(verdict.short_pages, want > have ? want - have : 0);
	ck_assert_int_eq(verdict.fits, want <= have);
	ck_assert_int_eq(verdict.reason.code == 0, want <= have);
	if (want > have)
		ck_assert_uint_eq(verdict.reason.have_bytes, verdict.have_bytes);
	if (want <= have)
		ck_assert_str_eq(verdict.limit, "");
}

static void expect_limit(const char *file)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", folder, file);
	ck_assert_str_eq(verdict.limit, path);
}

START_TEST(pool_and_overcommit)
{
	ck_assert_int_eq(huge(0), 0);
	expect_pages(0, 9);
	ck_assert_uint_eq(verdict.pool_bytes, 0);
	ck_assert_int_eq(huge(1), 0);
	expect_pages(1, 9);
	ck_assert_int_eq(huge(4 * MIB), 0);
	ck_assert_uint_eq(verdict.pool_bytes, 4 * MIB);
	ck_assert_int_eq(huge(18 * MIB), 0);
	expect_pages(9, 9);
	ck_assert_uint_eq(verdict.pool_bytes, 6 * MIB);
	ck_assert_uint_eq(verdict.short_bytes, 0);

	ck_assert_int_eq(huge(24 * MIB), TIDE_HUGEPAGES_SHORT);
	expect_pages(12, 9);
	expect_limit(POOL "nr_overcommit_hugepages");
	ck_assert_uint_eq(verdict.short_bytes, 6 * MIB);
	ck_assert_uint_eq(verdict.reason.want_bytes, 24 * MIB);
	ck_assert_str_eq(
		verdict.reason.message,
		"12 huge pages of 2 MiB are needed, 9 can be had: 4 free in the pool (1 of "
		"them promised to others), 6 more by overcommit");
	ck_assert_str_eq(verdict.reason.hint,
			 "vm.nr_overcommit_hugepages is 8, 3 more pages are needed: "
			 "sysctl -w vm.nr_overcommit_hugepages=11");
}
END_TEST

START_TEST(a_machine_as_it_comes)
{
	play_pool(POOL, "0\n", "0\n", "0\n", "0\n", "0\n");
	ck_assert_int_eq(huge(4 * GIB_BYTES), TIDE_HUGEPAGES_SHORT);
	expect_pages(2048, 0);
	ck_assert_str_eq(verdict.reason.hint,
			 "vm.nr_overcommit_hugepages is 0, 2048 more pages are needed: "
			 "sysctl -w vm.nr_overcommit_hugepages=2048");
}
END_TEST

START_TEST(a_size_that_sysctl_does_not_mean)
{
	fixture_write(folder, "meminfo",
		      "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n"
		      "Hugepagesize: 1048576 kB\n");
	ck_assert_int_eq(huge(20 * MIB), TIDE_HUGEPAGES_SHORT);
	ck_assert_msg(strstr(verdict.reason.hint, "echo 9 > "), "%s", verdict.reason.hint);
	ck_assert_msg(strstr(verdict.reason.hint, POOL "nr_overcommit_hugepages"), "%s",
		      verdict.reason.hint);
	play_pool(POOL_GIB, "3\n", "1\n", "0\n", "0\n", "0\n");
	ck_assert_int_eq(
		tide_preflight(&machine, TIDE_BACKING_HUGETLB, GIB_BYTES, 2 * GIB_BYTES, &verdict),
		TIDE_HUGEPAGES_SHORT);
	expect_limit(POOL_GIB "nr_hugepages");
	ck_assert_msg(strstr(verdict.reason.hint, "1 more pages are needed: echo 4 > "), "%s",
		      verdict.reason.hint);
}
END_TEST

START_TEST(surplus_pages_need_memory)
{
	fixture_write(folder, "meminfo",
		      "MemTotal: 16777216 kB\nMemAvailable: 5000 kB\n"
		      "Hugepagesize: 2048 kB\n");
	ck_assert_int_eq(huge(10 * MIB), 0);
	expect_pages(5, 5);
	ck_assert_int_eq(huge(12 * MIB), TIDE_NOT_ENOUGH_MEMORY);
	expect_pages(6, 5);
	expect_limit("meminfo");
	ck_assert_str_eq(verdict.reason.message,
			 "12 MiB are needed, 10 MiB can be had: the machine has 5000 kB available "
			 "beside the huge pages free in the pool");
}
END_TEST

START_TEST(hugetlb_limits)
{
	fixture_write(folder, "self/cgroup", "0::/a/b\n");
	fixture_write(folder, "a/hugetlb.2MB.max", "10485760\n");
	fixture_write(folder, "a/hugetlb.2MB.current", "4194304\n");
	ck_assert_int_eq(huge(6 * MIB), 0);
	expect_pages(3, 3);
	ck_assert_int_eq(huge(16 * MIB), TIDE_HUGEPAGE_CGROUP_LIMIT);
	expect_pages(8, 3);
	expect_limit("a/hugetlb.2MB.max");
	ck_assert_str_eq(verdict.reason.hint, "raise that limit by 10 MiB, to 20971520");
	fixture_write(folder, "a/b/hugetlb.2MB.rsvd.max", "2097152\n");
	ck_assert_int_eq(huge(4 * MIB), TIDE_HUGEPAGE_CGROUP_LIMIT);
	expect_pages(2, 1);
	expect_limit("a/b/hugetlb.2MB.rsvd.max");
	/* Limits that were set to nothing under a running server. */
	fixture_write(folder, "hugetlb.2MB.max", "0\n");
	ck_assert_int_eq(huge(1), TIDE_HUGEPAGE_CGROUP_LIMIT);
	expect_pages(1, 0);
}
END_TEST

START_TEST(memory_limits_count_huge_pages_on_demand)
{
	const char *const mounts[] = {
		"cgroup /c cgroup2 rw,nosuid 0 0\nx /y memory_hugetlb_accounting rw 0 0\n",
		"tmpfs /t tmpfs rw 0 0\ncgroup /c cgroup2 rw,memory_hugetlb_accounting 0 0\n"};

	fixture_write(folder, "self/cgroup", "0::/a\n");
	fixture_write(folder, "a/memory.max", "4194304\n");
	ck_assert_int_eq(huge(6 * MIB), 0);
	fixture_write(folder, "self/mounts", mounts[0]);
	ck_assert_int_eq(huge(6 * MIB), 0);
	fixture_write(folder, "self/mounts", mounts[1]);
	ck_assert_int_eq(huge(6 * MIB), TIDE_NOT_ENOUGH_MEMORY);
	expect_pages(3, 2);
	expect_limit("a/memory.max");
}
END_TEST

START_TEST(base_pages)
{
	ck_assert_int_eq(base(8 * GIB_BYTES), 0);
	expect_pages(8 * GIB_BYTES / 4096, 8 * GIB_BYTES / 4096);
	ck_assert_uint_eq(verdict.pool_bytes, 0);
	ck_assert_int_eq(base(8 * GIB_BYTES + 1), TIDE_NOT_ENOUGH_MEMORY);
	expect_limit("meminfo");
	ck_assert_uint_eq(verdict.short_bytes, 4096);
	ck_assert_str_eq(verdict.reason.hint,
			 "4 kB more are needed: free memory, add memory or ask for less");
	/* Strict accounting of promises. */
	fixture_write(folder, "sys/vm/overcommit_memory", "2\n");
	ck_assert_int_eq(base(GIB_BYTES), 0);
	ck_assert_int_eq(base(GIB_BYTES + 4096), TIDE_NOT_ENOUGH_MEMORY);
	ck_assert_msg(strstr(verdict.reason.message, "strict overcommit accounting leaves 1 GiB"),
		      "%s", verdict.reason.message);
	/* A group that may use less than the machine has. */
	fixture_write(folder, "self/cgroup", "5:memory:/a\n");
	fixture_write(folder, "memory/a/memory.limit_in_bytes", "104857600\n");
	fixture_write(folder, "memory/a/memory.usage_in_bytes", "52428800\n");
	ck_assert_int_eq(base(50 * MIB), 0);
	ck_assert_int_eq(base(60 * MIB), TIDE_NOT_ENOUGH_MEMORY);
	expect_limit("memory/a/memory.limit_in_bytes");
	ck_assert_uint_eq(verdict.have_bytes, 50 * MIB);
	ck_assert_str_eq(verdict.reason.hint, "raise that limit by 10 MiB, to 115343360");
	ck_assert_int_eq(tide_preflight(&machine, TIDE_BACKING_THP, HUGE_BYTES, 52 * MIB, &verdict),
			 TIDE_NOT_ENOUGH_MEMORY);
	expect_pages(26, 25);
}
END_TEST

START_TEST(an_empty_machine_has_no_limits_and_no_huge_pages)
{
	fixture_remove(folder);
	ck_assert_int_eq(base(1ull << 50), 0);
	ck_assert_int_eq(verdict.fits, 1);
	ck_assert_int_eq(huge(2 * MIB), TIDE_HUGEPAGES_UNAVAILABLE);
	ck_assert_int_eq(verdict.fits, 0);
	ck_assert_uint_eq(verdict.short_bytes, 2 * MIB);
	ck_assert_uint_eq(verdict.short_pages, 1);
}
END_TEST

START_TEST(bad_input)
{
	ck_assert_int_eq(tide_preflight(&machine, TIDE_BACKING_BASE, 4096, 0, NULL),
			 TIDE_BAD_REQUEST);
	ck_assert_int_eq(tide_preflight(&machine, TIDE_BACKING_BASE, 0, 1, &verdict),
			 TIDE_BAD_REQUEST);
	ck_assert_int_eq(tide_preflight(&machine, TIDE_BACKING_BASE, 4095, 1, &verdict),
			 TIDE_BAD_REQUEST);
	ck_assert_int_eq(tide_preflight(&machine, (enum tide_backing)5, 4096, 1, &verdict),
			 TIDE_BAD_REQUEST);
	ck_assert_int_eq(base(UINT64_MAX), TIDE_BAD_REQUEST);
	ck_assert_int_eq(base(1ull << 63), TIDE_BAD_REQUEST);
	ck_assert_int_eq(verdict.fits, 0);
}
END_TEST

START_TEST(memory_of_the_machine)
{
	struct tide_machine_memory memory;
	struct tide_reason why;

	ck_assert_int_eq(tide_machine_memory(&machine, HUGE_BYTES, &memory, &why), 0);
	ck_assert_uint_eq(memory.mem_total, 16 * GIB_BYTES);
	ck_assert_uint_eq(memory.mem_available, 8 * GIB_BYTES);
	ck_assert_uint_eq(memory.limit, 16 * GIB_BYTES);
	ck_assert_uint_eq(memory.huge_page_bytes, HUGE_BYTES);
	ck_assert_uint_eq(memory.huge_total, 10);
	ck_assert_uint_eq(memory.huge_free, 4);
	ck_assert_uint_eq(memory.huge_reserved, 1);
	ck_assert_uint_eq(memory.huge_surplus, 2);
	ck_assert_uint_eq(memory.huge_overcommit, 8);
	fixture_write(folder, "self/cgroup", "0::/a/b\n");
	fixture_write(folder, "a/memory.max", "1073741824\n");
	fixture_write(folder, "a/b/memory.max", "2147483648\n");
	ck_assert_int_eq(tide_machine_memory(&machine, 0, &memory, &why), 0);
	ck_assert_uint_eq(memory.limit, GIB_BYTES);
	ck_assert_uint_eq(memory.huge_total, 0);
	ck_assert_int_eq(tide_machine_memory(&machine, 0, NULL, &why), TIDE_BAD_REQUEST);
	fixture_remove(folder);
	ck_assert_int_eq(tide_machine_memory(&machine, 0, &memory, &why), TIDE_SYSTEM_ERROR);
	ck_assert_int_eq(why.sys_errno, ENOENT);
	/* The real machine. */
	ck_assert_int_eq(tide_machine_memory(NULL, HUGE_BYTES, &memory, &why), 0);
	ck_assert_uint_ge(memory.mem_total, memory.mem_available);
	ck_assert_uint_ge(memory.mem_total, memory.limit);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("preflight");
	TCase *tcase = tcase_create("preflight");

	tcase_add_checked_fixture(tcase, begin, end);
	tcase_add_test(tcase, pool_and_overcommit);
	tcase_add_test(tcase, a_machine_as_it_comes);
	tcase_add_test(tcase, a_size_that_sysctl_does_not_mean);
	tcase_add_test(tcase, surplus_pages_need_memory);
	tcase_add_test(tcase, hugetlb_limits);
	tcase_add_test(tcase, memory_limits_count_huge_pages_on_demand);
	tcase_add_test(tcase, base_pages);
	tcase_add_test(tcase, an_empty_machine_has_no_limits_and_no_huge_pages);
	tcase_add_test(tcase, bad_input);
	tcase_add_test(tcase, memory_of_the_machine);
	suite_add_tcase(suite, tcase);
	return fixture_run(suite);
}
