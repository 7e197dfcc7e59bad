/* SPDX-License-Identifier: PostgreSQL */
/*
 * test_hugetlbfs.c - huge pages run out: a hugetlbfs mount of 16 MiB is all there is. Real ENOSPC,
 * EFAULT and SIGBUS without harm to the machine; needs the right to mount.
 */
#include "faulty_prim.h"
#include "fixture.h"

#include <sys/mount.h>

#define MOUNT_BYTES (16 * MIB)
#define SPARE_BYTES (32 * MIB) /* what the machine could give if the mount did not bound it */

static char folder[64];

static struct tide_region_config given(void)
{
	struct tide_region_config config = fixture_config(TIDE_HUGE_ON, 64 * MIB);
	char path[96];

	snprintf(path, sizeof(path), "%s/region", folder);
	config.fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ck_assert_int_ge(config.fd, 0);
	unlink(path);
	return config;
}

static struct tide_region *reserve(unsigned threads)
{
	struct tide_region_config config = given();
	struct tide_region *region;

	config.commit_threads = threads;
	region = fixture_reserve(&config);
	close(config.fd);
	ck_assert_int_eq((int)tide_region_info(region)->backing, TIDE_BACKING_HUGETLB);
	return region;
}

/* 8 MiB are in use; 12 MiB in two places do not fit, 8 MiB do. */
static void exhaust(struct tide_region *region, int error)
{
	const struct tide_range list[] = {{16 * MIB, 4 * MIB}, {32 * MIB, 8 * MIB}};
	char *base = tide_region_info(region)->base;
	struct tide_reason why;

	fixture_commit(region, 0, 8 * MIB);
	memset(base, 'x', 8 * MIB);
	for (int cycle = 0; cycle < 3; cycle++) {
		ck_assert_int_eq(tide_region_commit(region, list, 2, &why), TIDE_HUGEPAGES_SHORT);
		ck_assert_int_eq(why.sys_errno, error);
		ck_assert_uint_eq(why.want_bytes, 12 * MIB);
		ck_assert_uint_eq(why.have_bytes, 8 * MIB);
		ck_assert_str_eq(why.message,
				 "12 MiB were asked for, the file system of the region "
				 "has 8 MiB left");
		ck_assert_uint_eq(fixture_audit(region), 8 * MIB);
	}
	for (uint64_t at = 0; at < 8 * MIB; at += 4096)
		ck_assert_int_eq(base[at], 'x');
	fixture_commit(region, 32 * MIB, 8 * MIB);
	memset(base + 32 * MIB, 'y', 8 * MIB);
	ck_assert_uint_eq(fixture_audit(region), MOUNT_BYTES);
	fixture_decommit(region, 0, 64 * MIB);
	ck_assert_uint_eq(fixture_audit(region), 0);
}

START_TEST(exhaustion_gives_back_what_was_got)
{
	for (unsigned threads = 1; threads <= 2; threads++) {
		struct tide_region *region;

		prim_plan_clear();
		region = reserve(threads);
		exhaust(region, EFAULT);
		prim_plan_set(PRIM_ADVISE, 1, UINT32_MAX, EINVAL, 0);
		exhaust(region, ENOSPC);
		tide_region_release(region);
	}
	prim_plan_clear();
}
END_TEST

START_TEST(a_start_that_does_not_fit_is_refused)
{
	struct tide_region_config config = given();
	struct tide_region *region;
	struct tide_reason why;

	ck_assert_int_eq(tide_region_reserve(&config, MOUNT_BYTES + HUGE_BYTES, &region, &why),
			 TIDE_HUGEPAGES_SHORT);
	ck_assert_uint_eq(why.have_bytes, MOUNT_BYTES);
	ck_assert_int_eq(tide_region_reserve(&config, MOUNT_BYTES, &region, &why), 0);
	tide_region_release(region);
	close(config.fd);
}
END_TEST

/* The lesson behind the audit: a stray read of what was given back allocates it again. */
START_TEST(the_audit_sees_a_stray_read)
{
	struct tide_region *region = reserve(1);
	const volatile char *base = tide_region_info(region)->base;

	fixture_commit(region, 0, 4 * MIB);
	fixture_decommit(region, 0, 4 * MIB);
	ck_assert_int_eq(base[0], 0);
	ck_assert_uint_eq(fixture_audit(region), HUGE_BYTES);
	fixture_decommit(region, 0, 4 * MIB);
	ck_assert_uint_eq(fixture_audit(region), 0);
	tide_region_release(region);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("hugetlbfs");
	TCase *tcase = tcase_create("hugetlbfs");
	int failed = TEST_SKIPPED;

	fixture_folder(folder);
	if (mount("none", folder, "hugetlbfs", 0, "pagesize=2M,size=16M") != 0) {
		printf("a hugetlbfs cannot be mounted: %s\n", strerror(errno));
		rmdir(folder);
		return TEST_SKIPPED;
	}
	if (fixture_huge_pages(SPARE_BYTES / HUGE_BYTES) == 0) {
		tcase_set_timeout(tcase, 60);
		tcase_add_test(tcase, exhaustion_gives_back_what_was_got);
		tcase_add_test(tcase, a_start_that_does_not_fit_is_refused);
		tcase_add_test(tcase, the_audit_sees_a_stray_read);
		suite_add_tcase(suite, tcase);
		failed = fixture_run(suite);
		fixture_huge_pages(-(long)(SPARE_BYTES / HUGE_BYTES));
	} else {
		printf("%s cannot be written\n", OVERCOMMIT_FILE);
	}
	umount(folder);
	rmdir(folder);
	return failed;
}
