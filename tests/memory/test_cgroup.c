/* SPDX-License-Identifier: PostgreSQL */
/* test_cgroup.c - limits in played trees of control groups: v1, v2, both, and what is missing. */
#include "fixture.h"
#include "memory/cgroup.h"

static char folder[64];

static void begin(void)
{
	fixture_folder(folder);
}

static void end(void)
{
	fixture_remove(folder);
}

static struct tide_cgroup_bound bound(enum tide_cgroup_meter meter, uint64_t page_bytes)
{
	const struct tide_machine machine = {folder, folder, folder};
	struct tide_cgroup_bound out;

	tide_cgroup_read(&machine, meter, page_bytes, &out);
	return out;
}

static void expect(struct tide_cgroup_bound got, uint64_t headroom, uint64_t limit,
		   const char *file)
{
	ck_assert_uint_eq(got.headroom_bytes, headroom);
	ck_assert_uint_eq(got.limit_bytes, limit);
	ck_assert_msg(strlen(got.file) >= strlen(file) &&
			      strcmp(got.file + strlen(got.file) - strlen(file), file) == 0,
		      "%s is not %s", got.file, file);
}

START_TEST(nothing_there_is_no_limit)
{
	expect(bound(TIDE_CGROUP_MEMORY, 4096), UINT64_MAX, UINT64_MAX, "");
	expect(bound(TIDE_CGROUP_HUGETLB, HUGE_BYTES), UINT64_MAX, UINT64_MAX, "");
	fixture_write(folder, "self/cgroup", "0::/a/b\n");
	fixture_write(folder, "a/b/memory.max", "max\n");
	fixture_write(folder, "a/b/memory.current", "500\n");
	expect(bound(TIDE_CGROUP_MEMORY, 4096), UINT64_MAX, UINT64_MAX, "");
}
END_TEST

START_TEST(v2_memory_of_every_ancestor)
{
	fixture_write(folder, "self/cgroup", "0::/a/b/c\n");
	fixture_write(folder, "a/b/c/memory.max", "1000\n");
	fixture_write(folder, "a/b/c/memory.current", "100\n");
	fixture_write(folder, "a/b/memory.max", "max\n");
	fixture_write(folder, "a/memory.max", "2000\n");
	fixture_write(folder, "a/memory.current", "1900\n");
	expect(bound(TIDE_CGROUP_MEMORY, 4096), 100, 1000, "/a/memory.max");
	ck_assert_uint_eq(bound(TIDE_CGROUP_MEMORY, 4096).tightest_limit_bytes, 2000);
	/* Page cache can be reclaimed; the kernel's v2 counters are those of the whole subtree. */
	fixture_write(folder, "a/memory.stat",
		      "anon 5\nfile 900\ninactive_file 300\nactive_file 500\nshmem 100\n");
	expect(bound(TIDE_CGROUP_MEMORY, 4096), 900, 1000, "/a/b/c/memory.max");
	/* The root of the tree, where a container finds its own limit. */
	fixture_write(folder, "memory.max", "800\n");
	fixture_write(folder, "memory.current", "1800\n");
	expect(bound(TIDE_CGROUP_MEMORY, 4096), 0, 800, "/memory.max");
	/* More cache than use: nothing is in use. */
	fixture_write(folder, "memory.stat", "inactive_file 3000\nactive_file 1\n");
	expect(bound(TIDE_CGROUP_MEMORY, 4096), 800, 800, "/memory.max");
}
END_TEST

START_TEST(v1_memory_of_every_ancestor)
{
	fixture_write(folder, "self/cgroup",
		      "9:name=systemd:/x\n7:cpu,memory:/a/b\n4:hugetlb:/h\n0::/u\n");
	fixture_write(folder, "memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
	fixture_write(folder, "memory/a/b/memory.usage_in_bytes", "700\n");
	ck_assert_uint_ge(bound(TIDE_CGROUP_MEMORY, 4096).headroom_bytes, 1ull << 62);
	fixture_write(folder, "memory/a/memory.limit_in_bytes", "1000\n");
	fixture_write(folder, "memory/a/memory.usage_in_bytes", "900\n");
	fixture_write(
		folder, "memory/a/memory.stat",
		"inactive_file 1\nactive_file 1\ntotal_inactive_file 30\ntotal_active_file 20\n");
	expect(bound(TIDE_CGROUP_MEMORY, 4096), 150, 1000, "memory/a/memory.limit_in_bytes");
}
END_TEST

START_TEST(hugetlb_by_size_and_by_promise)
{
	fixture_write(folder, "self/cgroup", "4:hugetlb:/h\n0::/u/v\n");
	fixture_write(folder, "hugetlb/h/hugetlb.2MB.limit_in_bytes", "8388608\n");
	fixture_write(folder, "hugetlb/h/hugetlb.2MB.usage_in_bytes", "2097152\n");
	fixture_write(folder, "hugetlb/hugetlb.2MB.rsvd.limit_in_bytes", "4194304\n");
	fixture_write(folder, "hugetlb/hugetlb.2MB.rsvd.usage_in_bytes", "0\n");
	expect(bound(TIDE_CGROUP_HUGETLB, HUGE_BYTES), 6 * MIB, 8 * MIB, "2MB.limit_in_bytes");
	expect(bound(TIDE_CGROUP_HUGETLB_RSVD, HUGE_BYTES), 4 * MIB, 4 * MIB,
	       "hugetlb/hugetlb.2MB.rsvd.limit_in_bytes");
	/* A hybrid machine: the v2 tree beside the v1 ones; the tightest wins. */
	fixture_write(folder, "unified/u/hugetlb.2MB.max", "6291456\n");
	fixture_write(folder, "unified/u/hugetlb.2MB.current", "4194304\n");
	fixture_write(folder, "unified/u/v/hugetlb.2MB.rsvd.max", "0\n");
	expect(bound(TIDE_CGROUP_HUGETLB, HUGE_BYTES), 2 * MIB, 6 * MIB,
	       "unified/u/hugetlb.2MB.max");
	expect(bound(TIDE_CGROUP_HUGETLB_RSVD, HUGE_BYTES), 0, 0, "u/v/hugetlb.2MB.rsvd.max");
	/* Another size has limits of its own. */
	expect(bound(TIDE_CGROUP_HUGETLB, GIB_BYTES), UINT64_MAX, UINT64_MAX, "");
	fixture_write(folder, "unified/hugetlb.1GB.max", "1073741824\n");
	expect(bound(TIDE_CGROUP_HUGETLB, GIB_BYTES), GIB_BYTES, GIB_BYTES, "hugetlb.1GB.max");
	fixture_write(folder, "unified/hugetlb.64KB.max", "65536\n");
	expect(bound(TIDE_CGROUP_HUGETLB, 65536), 65536, 65536, "hugetlb.64KB.max");
}
END_TEST

START_TEST(a_path_from_elsewhere_leads_to_the_root)
{
	/* A group outside of our namespace, and one that is not mounted here. */
	fixture_write(folder, "self/cgroup", "0::/../outside\n");
	fixture_write(folder, "memory.max", "1000\n");
	fixture_write(folder, "memory.current", "1\n");
	expect(bound(TIDE_CGROUP_MEMORY, 4096), 999, 1000, "/memory.max");
	fixture_write(folder, "self/cgroup", "0::/docker/0123456789\n");
	expect(bound(TIDE_CGROUP_MEMORY, 4096), 999, 1000, "/memory.max");
	fixture_write(folder, "self/cgroup", "garbage");
	expect(bound(TIDE_CGROUP_MEMORY, 4096), 999, 1000, "/memory.max");
	fixture_write(folder, "self/cgroup", "0::/");
	expect(bound(TIDE_CGROUP_MEMORY, 4096), 999, 1000, "/memory.max");
}
END_TEST

START_TEST(a_path_without_end_is_cut_off)
{
	char text[4096] = "0::";

	for (int i = 0; i < 500; i++)
		strcat(text, "/abcd");
	fixture_write(folder, "self/cgroup", text);
	fixture_write(folder, "memory.max", "1000\n");
	expect(bound(TIDE_CGROUP_MEMORY, 4096), 1000, 1000, "/memory.max");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("cgroup");
	TCase *tcase = tcase_create("cgroup");

	tcase_add_checked_fixture(tcase, begin, end);
	tcase_add_test(tcase, nothing_there_is_no_limit);
	tcase_add_test(tcase, v2_memory_of_every_ancestor);
	tcase_add_test(tcase, v1_memory_of_every_ancestor);
	tcase_add_test(tcase, hugetlb_by_size_and_by_promise);
	tcase_add_test(tcase, a_path_from_elsewhere_leads_to_the_root);
	tcase_add_test(tcase, a_path_without_end_is_cut_off);
	suite_add_tcase(suite, tcase);
	return fixture_run(suite);
}
