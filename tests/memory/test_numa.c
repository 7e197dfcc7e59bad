/* SPDX-License-Identifier: PostgreSQL */
/*
 * test_numa.c - placement, as far as it shows on the machine at hand; tests/memory/numa-guest is
 * the proof on two nodes.
 */
#include "faulty_prim.h"
#include "fixture.h"
#include "memory/numa.h"

#include <numa.h>

static int one_node;

static int describe(enum tide_numa_mode mode, const char *nodes, char out[128],
		    struct tide_reason *why)
{
	struct tide_numa numa = {.mode = mode};

	snprintf(numa.nodes, sizeof(numa.nodes), "%s", nodes);
	return tide_numa_describe(&numa, out, 128, why);
}

START_TEST(placement_in_words)
{
	const char *const lists[] = {"", "all", "0", "0-0", "0,0"};
	struct tide_reason why;
	char out[128];

	for (int mode = TIDE_NUMA_LOCAL; mode <= TIDE_NUMA_BIND; mode++) {
		for (int i = 0; i < 5; i++) {
			ck_assert_int_eq(describe((enum tide_numa_mode)mode, lists[i], out, &why),
					 0);
			if (one_node)
				ck_assert_str_eq(out, "one node: placement has no effect");
			else
				ck_assert_ptr_null(strstr(out, "no effect"));
		}
	}
}
END_TEST

START_TEST(lists_that_make_no_sense)
{
	const char *const lists[] = {
		"x", "0-",  "-1",   "0,",     ",0",    "0-x",  "1-0",	"0 1",
		"!", "!0x", "1023", "0-1023", "99999", "!all", "all,0", "18446744073709551616"};
	struct tide_reason why;
	char out[128];

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		why.message[0] = '\0';
		ck_assert_msg(describe(TIDE_NUMA_BIND, lists[i], out, &why) == TIDE_BAD_REQUEST,
			      "%s", lists[i]);
		ck_assert_str_ne(why.message, "");
	}
	if (one_node)
		ck_assert_int_eq(describe(TIDE_NUMA_BIND, "!0", out, &why), TIDE_BAD_REQUEST);
	ck_assert_int_eq(describe((enum tide_numa_mode)3, "", out, &why), TIDE_BAD_REQUEST);
	ck_assert_int_eq(tide_numa_describe(NULL, out, sizeof(out), &why), TIDE_BAD_REQUEST);
	ck_assert_int_eq(tide_numa_describe(&(struct tide_numa){0}, NULL, 0, &why),
			 TIDE_BAD_REQUEST);
}
END_TEST

START_TEST(a_list_without_end)
{
	struct tide_numa numa = {.mode = TIDE_NUMA_BIND};
	struct tide_reason why;

	memset(numa.nodes, '0', sizeof(numa.nodes));
	ck_assert_int_eq(tide_numa_check(&numa, &why), TIDE_BAD_REQUEST);
}
END_TEST

START_TEST(one_node_needs_no_policy)
{
	struct tide_region_config config = fixture_config(TIDE_HUGE_OFF, GIB_BYTES);
	struct tide_region *region;

	for (int mode = TIDE_NUMA_LOCAL; mode <= TIDE_NUMA_BIND; mode++) {
		config.numa.mode = (enum tide_numa_mode)mode;
		prim_plan_clear();
		region = fixture_reserve(&config);
		ck_assert_uint_eq(atomic_load(&prim_counts[PRIM_BIND]),
				  one_node || mode == TIDE_NUMA_LOCAL ? 0 : 1);
		fixture_commit(region, 0, 4 * MIB);
		ck_assert_uint_eq(fixture_audit(region), 4 * MIB);
		tide_region_release(region);
	}
	if (one_node)
		ck_assert_uint_eq(tide_numa_left(&config.numa, NULL, TIDE_BACKING_BASE, 4096),
				  UINT64_MAX);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("numa");
	TCase *tcase = tcase_create("numa");

	one_node = numa_available() < 0 || numa_num_configured_nodes() == 1;
	tcase_add_test(tcase, placement_in_words);
	tcase_add_test(tcase, lists_that_make_no_sense);
	tcase_add_test(tcase, a_list_without_end);
	tcase_add_test(tcase, one_node_needs_no_policy);
	suite_add_tcase(suite, tcase);
	return fixture_run(suite);
}
