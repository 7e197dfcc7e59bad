/* SPDX-License-Identifier: PostgreSQL */
/* test_hugetlb_cgroup.c - real limits of the hugetlb controller, in a control group of its own. */
#include "fixture.h"

#define SPARE_BYTES (32 * MIB)

static const char *const roots[] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"};

static const char *root;
static char group[128];
static int was_enabled; /* the controller, before us */

static int put(const char *folder, const char *name, const char *text)
{
	char path[256];
	ssize_t length = (ssize_t)strlen(text);
	int rc = 0;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, text, (size_t)length) != length)
		rc = -errno;
	close(fd);
	return rc;
}

static void limit(const char *name, const char *text)
{
	ck_assert_int_eq(put(group, name, text), 0);
}

static struct tide_region *enter_and_reserve(void)
{
	struct tide_region_config config = fixture_config(TIDE_HUGE_ON, 32 * MIB);

	limit("hugetlb.2MB.max", "max");
	limit("hugetlb.2MB.rsvd.max", "max");
	ck_assert_int_eq(put(group, "cgroup.procs", "0"), 0);
	return fixture_reserve(&config);
}

static void expect_refusal(struct tide_region *region, uint64_t have_bytes, const char *file)
{
	const struct tide_range range = {8 * MIB, 16 * MIB};
	const uint64_t before = fixture_audit(region);
	struct tide_verdict verdict;
	struct tide_reason why;

	ck_assert_int_eq(
		tide_preflight(NULL, TIDE_BACKING_HUGETLB, HUGE_BYTES, range.bytes, &verdict),
		TIDE_HUGEPAGE_CGROUP_LIMIT);
	ck_assert_uint_eq(verdict.have_bytes, have_bytes);
	ck_assert_ptr_nonnull(strstr(verdict.limit, file));
	ck_assert_int_eq(tide_region_commit(region, &range, 1, &why), TIDE_HUGEPAGE_CGROUP_LIMIT);
	ck_assert_int_eq(why.sys_errno, EFAULT);
	ck_assert_uint_eq(why.want_bytes, range.bytes);
	ck_assert_uint_eq(why.have_bytes, have_bytes);
	ck_assert_ptr_nonnull(strstr(why.message, file));
	ck_assert_uint_eq(fixture_audit(region), before);
}

START_TEST(a_limit_below_the_wish)
{
	struct tide_region *region = enter_and_reserve();

	fixture_commit(region, 0, 4 * MIB);
	limit("hugetlb.2MB.max", "12M");
	expect_refusal(region, 8 * MIB, "hugetlb.2MB.max");
	fixture_commit(region, 8 * MIB, 8 * MIB);
	ck_assert_uint_eq(fixture_audit(region), 12 * MIB);
	tide_region_release(region);
}
END_TEST

START_TEST(a_limit_on_promises)
{
	struct tide_region *region = enter_and_reserve();

	limit("hugetlb.2MB.rsvd.max", "6M");
	expect_refusal(region, 6 * MIB, "hugetlb.2MB.rsvd.max");
	fixture_commit(region, 8 * MIB, 6 * MIB);
	tide_region_release(region);
}
END_TEST

/* An orchestrator takes away under a running server all that the kernel lets it: what is unused. */
START_TEST(a_limit_at_the_use)
{
	struct tide_region *region = enter_and_reserve();

	fixture_commit(region, 0, 8 * MIB);
	ck_assert_int_eq(put(group, "hugetlb.2MB.max", "0"), -EBUSY);
	limit("hugetlb.2MB.max", "8M");
	expect_refusal(region, 0, "hugetlb.2MB.max");
	fixture_decommit(region, 0, 4 * MIB);
	ck_assert_uint_eq(fixture_audit(region), 4 * MIB);
	expect_refusal(region, 4 * MIB, "hugetlb.2MB.max");
	limit("hugetlb.2MB.max", "4M");
	expect_refusal(region, 0, "hugetlb.2MB.max");
	limit("hugetlb.2MB.max", "32M");
	fixture_commit(region, 8 * MIB, 16 * MIB);
	ck_assert_uint_eq(fixture_audit(region), 20 * MIB);
	tide_region_release(region);
}
END_TEST

static int is_enabled(void)
{
	char path[128], text[256] = "";
	FILE *file;

	snprintf(path, sizeof(path), "%s/cgroup.subtree_control", root);
	file = fopen(path, "r");
	if (file && !fgets(text, sizeof(text), file))
		text[0] = '\0';
	if (file)
		fclose(file);
	return strstr(text, "hugetlb") != NULL;
}

/*
 * Tests that do not fork leave us in the group. The controller stays on while somebody else has a
 * group that may use it.
 */
static void remove_group(void)
{
	struct stat status;

	if (rmdir(group) != 0 && put(root, "cgroup.procs", "0") == 0)
		rmdir(group);
	if (!was_enabled && stat(root, &status) == 0 && status.st_nlink == 2)
		put(root, "cgroup.subtree_control", "-hugetlb");
}

/* A group that limits huge pages: 0, or -errno and the step that failed. */
static int make_group(const char **step)
{
	int rc;

	for (int i = 0; i < 2; i++) {
		root = roots[i];
		snprintf(group, sizeof(group), "%s/tidepool-test-%d", root, getpid());
		*step = "the hugetlb controller cannot be enabled";
		was_enabled = is_enabled();
		rc = put(root, "cgroup.subtree_control", "+hugetlb");
		if (rc != 0)
			continue;
		*step = "no control group can be made";
		rc = mkdir(group, 0755) != 0 ? -errno : 0;
		if (rc == 0)
			return 0;
	}
	return rc;
}

int main(void)
{
	Suite *suite = suite_create("hugetlb_cgroup");
	TCase *tcase = tcase_create("hugetlb_cgroup");
	const char *step;
	int failed = TEST_SKIPPED;
	int rc = make_group(&step);

	if (rc != 0) {
		printf("%s: %s\n", step, strerror(-rc));
		return TEST_SKIPPED;
	}
	if (fixture_huge_pages(SPARE_BYTES / HUGE_BYTES) == 0) {
		tcase_add_test(tcase, a_limit_below_the_wish);
		tcase_add_test(tcase, a_limit_on_promises);
		tcase_add_test(tcase, a_limit_at_the_use);
		suite_add_tcase(suite, tcase);
		failed = fixture_run(suite);
		fixture_huge_pages(-(long)(SPARE_BYTES / HUGE_BYTES));
	} else {
		printf("%s cannot be written\n", OVERCOMMIT_FILE);
	}
	remove_group();
	return failed;
}
