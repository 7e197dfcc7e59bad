/* SPDX-License-Identifier: PostgreSQL */
/*
 * numa_guest.c - where committed pages really are, on a machine with two NUMA nodes. Run by
 * numa-guest inside a virtual machine of its own, as root: it sets the huge pages of each node.
 * Speaks TAP.
 */
#include "faulty_prim.h"

#include <inttypes.h>
#include <numa.h>
#include <numaif.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <tidepool/region.h>

#define HUGE_BYTES (2ull << 20)
#define REGION_BYTES (64ull << 20)
#define POOL_PAGES 24 /* on each node */
#define MAX_PAGES 8192
#define THP_FILE "/sys/kernel/mm/transparent_hugepage/shmem_enabled"

static unsigned tests_run;

__attribute__((format(printf, 2, 3))) static void ok(int passed, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	printf("%sok %u - ", passed ? "" : "not ", ++tests_run);
	vprintf(format, args);
	printf("\n");
	va_end(args);
}

static void put(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	if (file)
		fputs(text, file);
	if (!file || fclose(file) != 0)
		printf("# %s cannot be set to %s", path, text);
}

static void set_pool(int node, unsigned pages)
{
	char path[128], text[32];

	snprintf(path, sizeof(path),
		 "/sys/devices/system/node/node%d/hugepages/hugepages-2048kB/nr_hugepages", node);
	snprintf(text, sizeof(text), "%u\n", pages);
	put(path, text);
}

static struct tide_region *reserve(enum tide_huge_policy huge, enum tide_numa_mode mode,
				   const char *nodes, unsigned threads)
{
	struct tide_region_config config = {
		.name = "numa-guest",
		.max_bytes = REGION_BYTES,
		.huge = huge,
		.numa.mode = mode,
		.commit_threads = threads,
		.fd = -1,
	};
	struct tide_region *region = NULL;
	struct tide_reason why;

	snprintf(config.numa.nodes, sizeof(config.numa.nodes), "%s", nodes);
	if (tide_region_reserve(&config, huge == TIDE_HUGE_TRY ? REGION_BYTES : 0, &region, &why) !=
	    0) {
		printf("Bail out! reserve: %s\n", why.message);
		exit(1);
	}
	return region;
}

static int commit(struct tide_region *region, uint64_t offset, uint64_t bytes)
{
	const struct tide_range range = {offset, bytes};
	struct tide_reason why = {0};
	int code = tide_region_commit(region, &range, 1, &why);

	if (code != 0)
		printf("# commit: %s: %s (%s)\n", tide_code_name(code), why.message, why.hint);
	return code;
}

/* The node of every page of a range into @node; the kernel tells it only of pages we mapped. */
static unsigned locate(const struct tide_region *region, uint64_t offset, uint64_t bytes,
		       int node[MAX_PAGES])
{
	static void *pages[MAX_PAGES];
	const struct tide_region_info *info = tide_region_info(region);
	unsigned count = (unsigned)(bytes / info->page_bytes);

	for (unsigned i = 0; i < count; i++) {
		pages[i] = (char *)info->base + offset + i * info->page_bytes;
		(void)*(volatile char *)pages[i];
	}
	if (move_pages(0, count, pages, NULL, node, 0) != 0)
		perror("# move_pages");
	return count;
}

struct spread {
	unsigned pages;
	unsigned on[2];
	unsigned elsewhere;
	unsigned repeats; /* pages on the same node as the one before */
};

static uint64_t audit(const struct tide_region *region)
{
	uint64_t bytes = 0;

	if (tide_region_audit(region, &bytes, NULL) != 0)
		printf("# the audit failed\n");
	return bytes;
}

static struct spread spread(const struct tide_region *region, uint64_t offset, uint64_t bytes)
{
	static int node[MAX_PAGES];
	const uint64_t before = audit(region);
	struct spread s = {.pages = locate(region, offset, bytes, node)};

	if (audit(region) != before) {
		printf("# looking at pages committed them\n");
		s.elsewhere = 1;
	}

	for (unsigned i = 0; i < s.pages; i++) {
		if (node[i] == 0 || node[i] == 1)
			s.on[node[i]]++;
		else
			s.elsewhere++;
		s.repeats += i > 0 && node[i] == node[i - 1];
	}
	printf("# %u pages: %u on node 0, %u on node 1, %u elsewhere, %u repeats\n", s.pages,
	       s.on[0], s.on[1], s.elsewhere, s.repeats);
	return s;
}

static int alternates(struct spread s)
{
	return s.elsewhere == 0 && s.on[0] == s.pages / 2 && s.on[1] == s.pages / 2 &&
	       s.repeats == 0;
}

static int mappings(const struct tide_region *region)
{
	unsigned long long base = (uintptr_t)tide_region_info(region)->base, first, last;
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	int count = 0;

	while (maps && fgets(line, sizeof(line), maps))
		count += sscanf(line, "%llx-%llx", &first, &last) == 2 &&
			 first < base + REGION_BYTES && last > base;
	if (maps)
		fclose(maps);
	return count;
}

static int all_on(struct spread s, unsigned node)
{
	return s.elsewhere == 0 && s.on[node] == s.pages;
}

/* Run on one node; helper threads inherit it. */
static void run_on(unsigned node)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(node, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus) != 0)
		perror("# sched_setaffinity");
}

static void run_anywhere(void)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	CPU_SET(1, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
}

static void in_words(void)
{
	const struct {
		struct tide_numa numa;
		const char *words;
	} cases[] = {
		{{TIDE_NUMA_INTERLEAVE, ""}, "interleave over nodes 0-1"},
		{{TIDE_NUMA_INTERLEAVE, "all"}, "interleave over nodes 0-1"},
		{{TIDE_NUMA_BIND, "1"}, "bound to node 1"},
		{{TIDE_NUMA_BIND, "!1"}, "bound to node 0"},
		{{TIDE_NUMA_LOCAL, ""}, "local to the thread that commits"},
	};
	const struct tide_numa missing = {TIDE_NUMA_BIND, "0-2"};
	char out[128];

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		ok(tide_numa_describe(&cases[i].numa, out, sizeof(out), NULL) == 0 &&
			   strcmp(out, cases[i].words) == 0,
		   "described as: %s", cases[i].words);
	ok(tide_numa_describe(&missing, out, sizeof(out), NULL) == TIDE_BAD_REQUEST,
	   "a node that is not there is refused");
}

static void interleave(enum tide_huge_policy huge, unsigned threads)
{
	struct tide_region *region = reserve(huge, TIDE_NUMA_INTERLEAVE, "", threads);
	const char *backing = tide_backing_name(tide_region_info(region)->backing);
	pid_t child;
	int status = 1;

	ok(commit(region, 0, REGION_BYTES / 4) == 0 &&
		   alternates(spread(region, 0, REGION_BYTES / 4)),
	   "interleave, %s, %u threads: pages alternate", backing, threads);
	child = fork();
	if (child == 0)
		_exit(commit(region, REGION_BYTES / 4, REGION_BYTES / 4) != 0);
	waitpid(child, &status, 0);
	ok(status == 0 && alternates(spread(region, REGION_BYTES / 4, REGION_BYTES / 4)),
	   "interleave, %s: so do those that a forked process committed", backing);
	ok(mappings(region) == 1, "interleave, %s: one mapping", backing);
	tide_region_release(region);
}

static void bound(enum tide_huge_policy huge, unsigned threads)
{
	struct tide_region *region = reserve(huge, TIDE_NUMA_BIND, "1", threads);
	const char *backing = tide_backing_name(tide_region_info(region)->backing);
	unsigned long mask[16] = {0};
	int mode = -1;

	run_on(0);
	ok(commit(region, 8 << 20, REGION_BYTES / 4) == 0 &&
		   all_on(spread(region, 8 << 20, REGION_BYTES / 4), 1),
	   "bind to node 1, %s, %u threads, from node 0: all there", backing, threads);
	run_anywhere();
	get_mempolicy(&mode, mask, 1024, (char *)tide_region_info(region)->base + (60 << 20),
		      MPOL_F_ADDR);
	ok(mode == MPOL_BIND && mask[0] == 2, "bind, %s: the whole region has the policy", backing);
	ok(mappings(region) == 1, "bind, %s: one mapping", backing);
	tide_region_release(region);
}

static void local(enum tide_huge_policy huge)
{
	for (unsigned node = 0; node < 2; node++) {
		struct tide_region *region = reserve(huge, TIDE_NUMA_LOCAL, "", 2);

		run_on(node);
		ok(commit(region, 0, REGION_BYTES / 4) == 0 &&
			   all_on(spread(region, 0, REGION_BYTES / 4), node),
		   "local, %s: on node %u, where the committing threads run",
		   tide_backing_name(tide_region_info(region)->backing), node);
		tide_region_release(region);
	}
	run_anywhere();
}

/* Node 1 has 4 huge pages and nothing more to give. */
static void one_node_short(void)
{
	const struct tide_range range = {0, 16 * HUGE_BYTES};
	struct tide_region *region;
	struct tide_reason why = {0};
	struct spread s;
	int code;

	set_pool(1, 4);
	region = reserve(TIDE_HUGE_ON, TIDE_NUMA_INTERLEAVE, "", 2);
	ok(commit(region, range.offset, range.bytes) == 0 &&
		   (s = spread(region, range.offset, range.bytes), s.on[0] == 12 && s.on[1] == 4),
	   "interleave with a node short: the other one gives the rest");
	tide_region_release(region);

	region = reserve(TIDE_HUGE_ON, TIDE_NUMA_BIND, "1", 2);
	code = tide_region_commit(region, &range, 1, &why);
	printf("# %s: %s (%s)\n", tide_code_name(code), why.message, why.hint);
	ok(code == TIDE_HUGEPAGES_SHORT && why.want_bytes == range.bytes &&
		   why.have_bytes == 4 * HUGE_BYTES &&
		   strstr(why.message, "NUMA nodes \"1\", which have 8 MiB of huge pages free"),
	   "bind to a node that is short: the exact shortfall");
	ok(audit(region) == 0, "bind to a node that is short: nothing stays committed");
	ok(commit(region, 0, 4 * HUGE_BYTES) == 0 &&
		   (s = spread(region, 0, 4 * HUGE_BYTES), s.on[1] == 4),
	   "bind to a node that is short: what it has can be had");
	tide_region_release(region);
	set_pool(1, POOL_PAGES);
}

/* More than a node has, while the machine has enough: an error, and nobody is killed. */
static void one_node_out_of_memory(void)
{
	struct tide_region_config config = {
		.name = "numa-guest",
		.max_bytes = 1ull << 30,
		.numa = {TIDE_NUMA_BIND, "1"},
		.fd = -1,
	};
	const struct tide_range range = {0, 300ull << 20};
	struct tide_region *region;
	struct tide_reason why = {0};
	int code;

	if (tide_region_reserve(&config, 0, &region, &why) != 0) {
		ok(0, "reserve: %s", why.message);
		return;
	}
	code = tide_region_commit(region, &range, 1, &why);
	printf("# %s: %s (%s)\n", tide_code_name(code), why.message, why.hint);
	ok(code == TIDE_NOT_ENOUGH_MEMORY && audit(region) == 0 && why.want_bytes == range.bytes &&
		   why.have_bytes < range.bytes,
	   "bind, base, to a node that is short of memory: an error");
	tide_region_release(region);
}

/* Without MADV_POPULATE_WRITE, which kernels before 5.14 do not have. */
static void old_kernel(enum tide_huge_policy huge)
{
	struct tide_region *region = reserve(huge, TIDE_NUMA_BIND, "1", 2);

	run_on(0);
	prim_plan_set(PRIM_ADVISE, 1, UINT32_MAX, EINVAL, 0);
	ok(commit(region, 0, REGION_BYTES / 4) == 0, "old kernel, %s: commits",
	   tide_backing_name(tide_region_info(region)->backing));
	prim_plan_clear();
	ok(all_on(spread(region, 0, REGION_BYTES / 4), 1), "old kernel, %s: all on node 1",
	   tide_backing_name(tide_region_info(region)->backing));
	run_anywhere();
	tide_region_release(region);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	put("/proc/sys/vm/nr_overcommit_hugepages", "0\n");
	set_pool(0, POOL_PAGES);
	set_pool(1, POOL_PAGES);
	in_words();
	interleave(TIDE_HUGE_ON, 1);
	interleave(TIDE_HUGE_ON, 2);
	bound(TIDE_HUGE_ON, 1);
	bound(TIDE_HUGE_ON, 2);
	local(TIDE_HUGE_ON);
	one_node_short();
	interleave(TIDE_HUGE_OFF, 2);
	bound(TIDE_HUGE_OFF, 2);
	local(TIDE_HUGE_OFF);
	one_node_out_of_memory();
	old_kernel(TIDE_HUGE_ON);
	old_kernel(TIDE_HUGE_OFF);
	/* Without a pool, "try" takes transparent huge pages. */
	set_pool(0, 0);
	set_pool(1, 0);
	put(THP_FILE, "advise\n");
	interleave(TIDE_HUGE_TRY, 2);
	bound(TIDE_HUGE_TRY, 2);
	printf("1..%u\n", tests_run);
	return 0;
}
