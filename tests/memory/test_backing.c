/* SPDX-License-Identifier: PostgreSQL */
/* test_backing.c - which pages a region gets: policy, preflight, what the kernel offers. */
#include "faulty_prim.h"
#include "fixture.h"

#define POOL "kernel/mm/hugepages/hugepages-2048kB/"
#define POOL_GIB "kernel/mm/hugepages/hugepages-1048576kB/"

static char folder[64];

/* A machine with ten free huge pages of 2 MiB, no overcommit, 1 GiB pages without any. */
static void begin(void)
{
	fixture_folder(folder);
	prim_plan_clear();
	fixture_write(folder, POOL "nr_hugepages", "10\n");
	fixture_write(folder, POOL "free_hugepages", "10\n");
	fixture_write(folder, POOL "resv_hugepages", "0\n");
	fixture_write(folder, POOL "surplus_hugepages", "0\n");
	fixture_write(folder, POOL "nr_overcommit_hugepages", "0\n");
	fixture_write(folder, POOL_GIB "nr_hugepages", "0\n");
	fixture_write(folder, POOL_GIB "free_hugepages", "0\n");
	fixture_write(folder, "kernel/mm/transparent_hugepage/shmem_enabled",
		      "always within_size advise [never] deny force\n");
	fixture_write(folder, "meminfo",
		      "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n"
		      "Hugepagesize: 2048 kB\n");
}

static void end(void)
{
	fixture_remove(folder);
}

static struct tide_region_config played(enum tide_huge_policy huge)
{
	struct tide_region_config config = fixture_config(huge, 4 * GIB_BYTES);

	config.machine = (struct tide_machine){folder, folder, folder};
	return config;
}

/* What a start with so many bytes is given. */
static struct tide_region_info outcome(const struct tide_region_config *config,
				       uint64_t start_bytes)
{
	struct tide_region *region;
	struct tide_region_info info;
	struct tide_reason why = {0};

	ck_assert_msg(tide_region_reserve(config, start_bytes, &region, &why) == 0, "%s",
		      why.message);
	info = *tide_region_info(region);
	tide_region_release(region);
	return info;
}

START_TEST(on_wants_the_start_to_fit)
{
	struct tide_region_config config = played(TIDE_HUGE_ON);
	struct tide_region *region;
	struct tide_reason why;
	int files = fixture_files();

	ck_assert_int_eq((int)outcome(&config, 20 * MIB).backing, TIDE_BACKING_HUGETLB);
	ck_assert_int_eq(outcome(&config, 20 * MIB).fell_back, 0);
	ck_assert_int_eq(tide_region_reserve(&config, 22 * MIB, &region, &why),
			 TIDE_HUGEPAGES_SHORT);
	ck_assert_ptr_null(region);
	ck_assert_uint_eq(why.want_bytes, 22 * MIB);
	ck_assert_uint_eq(why.have_bytes, 20 * MIB);
	ck_assert_str_eq(why.hint, "vm.nr_overcommit_hugepages is 0, 1 more pages are needed: "
				   "sysctl -w vm.nr_overcommit_hugepages=1");
	ck_assert_int_eq(fixture_files(), files);
}
END_TEST

START_TEST(try_falls_back_and_says_why)
{
	const struct tide_region_config config = played(TIDE_HUGE_TRY);
	struct tide_region_info info = outcome(&config, 20 * MIB);

	ck_assert_int_eq((int)info.backing, TIDE_BACKING_HUGETLB);
	ck_assert_int_eq(info.fell_back, 0);

	info = outcome(&config, 22 * MIB);
	ck_assert_int_eq((int)info.backing, TIDE_BACKING_BASE);
	ck_assert_int_eq(info.fell_back, 1);
	ck_assert_int_eq(info.fallback.code, TIDE_HUGEPAGES_SHORT);
	ck_assert_uint_eq(info.fallback.have_bytes, 20 * MIB);

	fixture_write(folder, "kernel/mm/transparent_hugepage/shmem_enabled",
		      "always within_size [advise] never deny force\n");
	info = outcome(&config, 22 * MIB);
	ck_assert_int_eq((int)info.backing, TIDE_BACKING_THP);
	ck_assert_uint_eq(info.page_bytes, HUGE_BYTES);
	ck_assert_int_eq(info.fell_back, 1);
	ck_assert_int_eq(info.fallback.code, TIDE_HUGEPAGES_SHORT);
}
END_TEST

START_TEST(off_never_asks)
{
	const struct tide_region_config config = played(TIDE_HUGE_OFF);
	struct tide_region_info info;

	fixture_write(folder, "kernel/mm/transparent_hugepage/shmem_enabled", "[always] never\n");
	info = outcome(&config, 20 * MIB);
	ck_assert_int_eq((int)info.backing, TIDE_BACKING_BASE);
	ck_assert_int_eq(info.fell_back, 0);
	ck_assert_uint_eq(atomic_load(&prim_counts[PRIM_READ]), 0);
}
END_TEST

START_TEST(a_kernel_without_that_size_is_unavailable)
{
	struct tide_region_config config = played(TIDE_HUGE_ON);
	struct tide_region *region;
	struct tide_reason why;

	/* The kernel refuses the memfd. */
	prim_plan_set(PRIM_MEMFD, 1, 1, ENODEV, 0);
	ck_assert_int_eq(tide_region_reserve(&config, 0, &region, &why),
			 TIDE_HUGEPAGES_UNAVAILABLE);
	ck_assert_int_eq(why.sys_errno, ENODEV);
	prim_plan_set(PRIM_MEMFD, 1, 1, ENODEV, 0);
	config.huge = TIDE_HUGE_TRY;
	ck_assert_int_eq(outcome(&config, 0).fallback.code, TIDE_HUGEPAGES_UNAVAILABLE);
	/* It is not a want of huge pages when there are no files left. */
	prim_plan_set(PRIM_MEMFD, 1, 2, EMFILE, 0);
	ck_assert_int_eq(tide_region_reserve(&config, 0, &region, &why), TIDE_SYSTEM_ERROR);
	prim_plan_clear();

	/* The machine knows no pool of that size. */
	config = played(TIDE_HUGE_ON);
	fixture_remove(folder);
	ck_assert_int_eq(tide_region_reserve(&config, 0, &region, &why),
			 TIDE_HUGEPAGES_UNAVAILABLE);
	ck_assert_str_ne(why.message, "");
}
END_TEST

START_TEST(gib_pages)
{
	struct tide_region_config config = played(TIDE_HUGE_ON);
	struct tide_region *region;
	struct tide_reason why;
	int code;

	config.huge_page_bytes = GIB_BYTES;
	code = tide_region_reserve(&config, GIB_BYTES, &region, &why);
	if (code == TIDE_HUGEPAGES_UNAVAILABLE && why.sys_errno != 0)
		return; /* this processor has none */
	ck_assert_int_eq(code, TIDE_HUGEPAGES_SHORT);
	ck_assert_msg(strstr(why.hint, "1 more pages are needed: echo 1 > "), "%s", why.hint);
	ck_assert_msg(strstr(why.hint, "hugepages-1048576kB/nr_hugepages"), "%s", why.hint);

	config.max_bytes = 3 * GIB_BYTES + 1;
	ck_assert_int_eq(tide_region_reserve(&config, 0, &region, &why), 0);
	ck_assert_uint_eq(tide_region_info(region)->page_bytes, GIB_BYTES);
	ck_assert_uint_eq(tide_region_info(region)->max_bytes, 4 * GIB_BYTES);
	ck_assert_uint_eq((uintptr_t)tide_region_info(region)->base % GIB_BYTES, 0);
	ck_assert_uint_eq(fixture_audit(region), 0);
	tide_region_release(region);
}
END_TEST

START_TEST(a_file_that_is_given_decides)
{
	struct tide_region_config config = played(TIDE_HUGE_OFF);
	struct tide_region *region;
	struct tide_region_info info;
	struct tide_reason why;
	int huge = memfd_create("given", MFD_CLOEXEC | MFD_HUGETLB);
	int files;

	config.fd = memfd_create("given", MFD_CLOEXEC);
	files = fixture_files();
	ck_assert_int_eq((int)outcome(&config, 0).backing, TIDE_BACKING_BASE);
	config.huge = TIDE_HUGE_TRY;
	info = outcome(&config, 0);
	ck_assert_int_eq(info.fell_back, 1);
	ck_assert_int_eq(info.fallback.code, TIDE_HUGEPAGES_UNAVAILABLE);
	config.huge = TIDE_HUGE_ON;
	ck_assert_int_eq(tide_region_reserve(&config, 0, &region, &why), TIDE_BAD_REQUEST);
	if (huge >= 0) {
		close(config.fd);
		config.fd = huge;
		files--;
		ck_assert_int_eq((int)outcome(&config, 20 * MIB).backing, TIDE_BACKING_HUGETLB);
		ck_assert_int_eq(tide_region_reserve(&config, 22 * MIB, &region, &why),
				 TIDE_HUGEPAGES_SHORT);
		config.huge_page_bytes = GIB_BYTES;
		ck_assert_int_eq(tide_region_reserve(&config, 0, &region, &why), TIDE_BAD_REQUEST);
		config.huge = TIDE_HUGE_OFF;
		ck_assert_int_eq(tide_region_reserve(&config, 0, &region, &why), TIDE_BAD_REQUEST);
	}
	ck_assert_int_eq(fixture_files(), files);
	close(config.fd);
	config = played(TIDE_HUGE_OFF);
	prim_plan_clear();
	config.fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(tide_region_reserve(&config, 0, &region, &why), TIDE_BAD_REQUEST);
	close(config.fd);
}
END_TEST

START_TEST(names)
{
	ck_assert_str_eq(tide_backing_name(TIDE_BACKING_BASE), "base");
	ck_assert_str_eq(tide_backing_name(TIDE_BACKING_THP), "thp");
	ck_assert_str_eq(tide_backing_name(TIDE_BACKING_HUGETLB), "hugetlb");
	ck_assert_str_eq(tide_backing_name((enum tide_backing)9), "unknown");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("backing");
	TCase *tcase = tcase_create("backing");

	tcase_add_checked_fixture(tcase, begin, end);
	tcase_add_test(tcase, on_wants_the_start_to_fit);
	tcase_add_test(tcase, try_falls_back_and_says_why);
	tcase_add_test(tcase, off_never_asks);
	tcase_add_test(tcase, a_kernel_without_that_size_is_unavailable);
	tcase_add_test(tcase, gib_pages);
	tcase_add_test(tcase, a_file_that_is_given_decides);
	tcase_add_test(tcase, names);
	suite_add_tcase(suite, tcase);
	return fixture_run(suite);
}
