/* SPDX-License-Identifier: PostgreSQL */
/* test_region.c - address space reserved once: place, mapping, limits, bad input. */
#include "fixture.h"
#include "memory/region.h"

#include <sys/resource.h>
#include <sys/wait.h>

#define REGION_BYTES (24 * MIB)

static char folder[64];
static int huge_pages; /* what can be had on this machine */

/* The region of a loop test: one of each backing; NULL where the machine has no huge pages. */
static struct tide_region *reserve_backing(int backing, uint64_t max_bytes)
{
	struct tide_region_config config = fixture_config(TIDE_HUGE_OFF, max_bytes);
	struct tide_region *region;

	if (backing == TIDE_BACKING_HUGETLB && !huge_pages)
		return NULL;
	if (backing == TIDE_BACKING_HUGETLB)
		config.huge = TIDE_HUGE_ON;
	if (backing == TIDE_BACKING_THP) {
		config.huge = TIDE_HUGE_TRY;
		config.machine = fixture_thp_machine(folder);
	}
	region = fixture_reserve(&config);
	ck_assert_int_eq((int)tide_region_info(region)->backing, backing);
	return region;
}

START_TEST(lies_on_a_gib_boundary_and_holds_nothing)
{
	int files = fixture_files();
	int mappings = fixture_mappings(NULL, 0);
	struct tide_region *region = reserve_backing(_i, REGION_BYTES + 1);
	const struct tide_region_info *info;

	if (!region)
		return;
	info = tide_region_info(region);
	ck_assert_uint_eq((uintptr_t)info->base % GIB_BYTES, 0);
	ck_assert_uint_eq(region->map_bytes, GIB_BYTES);
	ck_assert_uint_eq(info->page_bytes,
			  _i == TIDE_BACKING_BASE ? (uint64_t)sysconf(_SC_PAGESIZE) : HUGE_BYTES);
	ck_assert_uint_eq(info->max_bytes, REGION_BYTES + info->page_bytes);
	ck_assert_uint_eq(fixture_audit(region), 0);
	ck_assert_int_eq(fixture_mappings(info->base, GIB_BYTES), 1);
	ck_assert_int_eq(fixture_files(), files + 1);
	tide_region_release(region);
	ck_assert_int_eq(fixture_files(), files);
	ck_assert_int_eq(fixture_mappings(NULL, 0), mappings);
}
END_TEST

/* The flags of the mapping that begins at @base, from smaps. */
static void read_flags(const void *base, char *flags, size_t size)
{
	FILE *smaps = fopen("/proc/self/smaps", "r");
	char line[4096], start[32];
	int found = 0;

	ck_assert_ptr_nonnull(smaps);
	snprintf(start, sizeof(start), "%llx-", (unsigned long long)(uintptr_t)base);
	while (fgets(line, sizeof(line), smaps)) {
		if (strncmp(line, start, strlen(start)) == 0)
			found = 1;
		if (found && strncmp(line, "VmFlags:", 8) == 0)
			break;
	}
	fclose(smaps);
	ck_assert(found);
	snprintf(flags, size, "%.200s", line);
}

START_TEST(stays_out_of_core_dumps)
{
	struct tide_region *region = reserve_backing(_i, REGION_BYTES);
	char flags[256];

	if (!region)
		return;
	fixture_commit(region, 0, 4 * MIB);
	read_flags(tide_region_info(region)->base, flags, sizeof(flags));
	ck_assert_msg(strstr(flags, " dd"), "%s", flags);
	ck_assert_int_eq(strstr(flags, " hg") != NULL, _i == TIDE_BACKING_THP);
	ck_assert_int_eq(strstr(flags, " ht") != NULL, _i == TIDE_BACKING_HUGETLB);
	tide_region_release(region);
}
END_TEST

START_TEST(is_one_mapping_after_a_thousand_cycles)
{
	struct tide_region *region = reserve_backing(_i, REGION_BYTES);
	unsigned char committed[REGION_BYTES / HUGE_BYTES] = {0};
	uint64_t expected = 0;
	unsigned seed = 1;
	int mappings = 0;

	if (!region)
		return;
	for (int cycle = 0; cycle < 1000; cycle++) {
		unsigned slot = (unsigned)rand_r(&seed) % (REGION_BYTES / HUGE_BYTES);

		if (committed[slot])
			fixture_decommit(region, slot * HUGE_BYTES, HUGE_BYTES);
		else
			fixture_commit(region, slot * HUGE_BYTES, HUGE_BYTES);
		committed[slot] = !committed[slot];
		expected += committed[slot] ? HUGE_BYTES : -HUGE_BYTES;
		ck_assert_uint_eq(fixture_audit(region), expected);
		if (cycle == 0)
			mappings = fixture_mappings(NULL, 0);
	}
	ck_assert_int_eq(fixture_mappings(tide_region_info(region)->base, region->map_bytes), 1);
	ck_assert_int_eq(fixture_mappings(NULL, 0), mappings);
	for (unsigned slot = 0; slot < sizeof(committed); slot++)
		if (committed[slot])
			fixture_decommit(region, slot * HUGE_BYTES, HUGE_BYTES);
	ck_assert_uint_eq(fixture_audit(region), 0);
	tide_region_release(region);
}
END_TEST

static void in_child(void (*run)(struct tide_region *region), struct tide_region *region)
{
	pid_t child = fork();
	int status;

	ck_assert_int_ge(child, 0);
	if (child == 0) {
		run(region);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
}

static void expect_and_commit(struct tide_region *region)
{
	unsigned char *base = tide_region_info(region)->base;

	if (base[0] != 1 || base[2 * MIB - 1] != 2)
		_exit(1);
	fixture_decommit(region, 0, 2 * MIB);
	fixture_commit(region, 8 * MIB, 4 * MIB);
	base[8 * MIB] = 3;
}

START_TEST(is_shared_with_forked_processes)
{
	struct tide_region *region = reserve_backing(_i, REGION_BYTES);
	unsigned char *base;

	if (!region)
		return;
	base = tide_region_info(region)->base;
	fixture_commit(region, 0, 2 * MIB);
	base[0] = 1;
	base[2 * MIB - 1] = 2;
	in_child(expect_and_commit, region);
	ck_assert_uint_eq(fixture_audit(region), 4 * MIB);
	ck_assert_int_eq(base[8 * MIB], 3);
	ck_assert_int_eq(base[8 * MIB + 1], 0);
	tide_region_release(region);
}
END_TEST

START_TEST(may_be_far_larger_than_the_machine)
{
	const uint64_t sizes[] = {1ull << 40, (1ull << 31) * 8192};
	struct tide_region *region;
	const struct tide_region_info *info;

	for (int i = 0; i < 2; i++) {
		region = reserve_backing(_i, sizes[i]);
		if (!region)
			return;
		info = tide_region_info(region);
		ck_assert_uint_eq(info->max_bytes, sizes[i]);
		fixture_commit(region, sizes[i] - HUGE_BYTES, HUGE_BYTES);
		((char *)info->base)[sizes[i] - 1] = 1;
		ck_assert_uint_eq(fixture_audit(region), HUGE_BYTES);
		fixture_decommit(region, sizes[i] - HUGE_BYTES, HUGE_BYTES);
		ck_assert_uint_eq(fixture_audit(region), 0);
		tide_region_release(region);
	}
}
END_TEST

#ifndef FIXTURE_SANITIZED
START_TEST(a_small_address_space_is_named)
{
	const struct tide_region_config config = fixture_config(TIDE_HUGE_OFF, 64 * GIB_BYTES);
	struct rlimit limit, before;
	struct tide_region *region = (void *)1;
	struct tide_reason why;
	int files = fixture_files();

	ck_assert_int_eq(getrlimit(RLIMIT_AS, &before), 0);
	limit = before;
	limit.rlim_cur = 8 * GIB_BYTES;
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
	ck_assert_int_eq(tide_region_reserve(&config, 0, &region, &why), TIDE_NOT_ENOUGH_MEMORY);
	ck_assert_ptr_null(region);
	ck_assert_int_eq(tide_region_reserve(&config, 0, &region, NULL), TIDE_NOT_ENOUGH_MEMORY);
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &before), 0);
	ck_assert_int_eq(why.sys_errno, ENOMEM);
	ck_assert_uint_eq(why.want_bytes, 65 * GIB_BYTES);
	ck_assert_uint_eq(why.have_bytes, 8 * GIB_BYTES);
	ck_assert_msg(strstr(why.hint, "RLIMIT_AS, ulimit -v) is 8 GiB"), "%s", why.hint);
	ck_assert_int_eq(fixture_files(), files);
}
END_TEST
#endif

START_TEST(bad_input_changes_nothing)
{
	const struct tide_region_config good = fixture_config(TIDE_HUGE_OFF, GIB_BYTES);
	struct tide_region_config bad[12];
	struct tide_region *region = NULL;
	struct tide_reason why;
	char name[300];
	int files = fixture_files();
	int mappings = fixture_mappings(NULL, 0);

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	for (int i = 0; i < 12; i++)
		bad[i] = good;
	bad[0].name = NULL;
	bad[1].name = name;
	bad[2].max_bytes = 0;
	bad[3].max_bytes = UINT64_MAX;
	bad[4].max_bytes = 1ull << 63;
	bad[5].huge = (enum tide_huge_policy)7;
	bad[6].huge = TIDE_HUGE_TRY;
	bad[6].huge_page_bytes = 4096;
	bad[7].huge = TIDE_HUGE_ON;
	bad[7].huge_page_bytes = 3 * MIB;
	bad[8].numa.mode = (enum tide_numa_mode)9;
	strcpy(bad[9].numa.nodes, "0-");
	strcpy(bad[10].numa.nodes, "1023");
	bad[11].fd = 9999;
	for (int i = 0; i < 12; i++) {
		why.message[0] = '\0';
		ck_assert_msg(tide_region_reserve(&bad[i], 0, &region, &why) == TIDE_BAD_REQUEST,
			      "case %d", i);
		ck_assert_int_eq(why.code, TIDE_BAD_REQUEST);
		ck_assert_str_ne(why.message, "");
		ck_assert_ptr_null(region);
	}
	ck_assert_int_eq(tide_region_reserve(NULL, 0, &region, &why), TIDE_BAD_REQUEST);
	ck_assert_int_eq(tide_region_reserve(&good, 0, NULL, NULL), TIDE_BAD_REQUEST);
	ck_assert_int_eq(tide_region_reserve(&good, GIB_BYTES + 1, &region, &why),
			 TIDE_BAD_REQUEST);
	ck_assert_int_eq(fixture_files(), files);
	ck_assert_int_eq(fixture_mappings(NULL, 0), mappings);
	tide_region_release(NULL);
}
END_TEST

START_TEST(strings_of_the_machine_are_its_own)
{
	struct tide_region_config config = fixture_config(TIDE_HUGE_OFF, GIB_BYTES);
	struct tide_region *region;
	char root[] = "/proc";

	config.machine.proc_root = root;
	region = fixture_reserve(&config);
	memset(root, 'x', sizeof(root) - 1);
	ck_assert_str_eq(region->machine.proc_root, "/proc");
	ck_assert_ptr_null(region->machine.sys_root);
	tide_region_release(region);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("region");
	TCase *tcase = tcase_create("region");
	int raised = fixture_huge_pages(REGION_BYTES / HUGE_BYTES) == 0;
	int failed;

	fixture_folder(folder);
	huge_pages = fixture_has_huge_pages(REGION_BYTES);
	if (!huge_pages)
		puts("no huge pages to be had: tests on them do nothing");
	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, lies_on_a_gib_boundary_and_holds_nothing, 0, 3);
	tcase_add_loop_test(tcase, stays_out_of_core_dumps, 0, 3);
	tcase_add_loop_test(tcase, is_one_mapping_after_a_thousand_cycles, 0, 3);
	tcase_add_loop_test(tcase, is_shared_with_forked_processes, 0, 3);
	tcase_add_loop_test(tcase, may_be_far_larger_than_the_machine, 0, 3);
#ifndef FIXTURE_SANITIZED
	tcase_add_test(tcase, a_small_address_space_is_named);
#endif
	tcase_add_test(tcase, bad_input_changes_nothing);
	tcase_add_test(tcase, strings_of_the_machine_are_its_own);
	suite_add_tcase(suite, tcase);
	failed = fixture_run(suite);
	fixture_remove(folder);
	if (raised)
		fixture_huge_pages(-(long)(REGION_BYTES / HUGE_BYTES));
	return failed;
}
