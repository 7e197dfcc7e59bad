/* SPDX-License-Identifier: PostgreSQL */
/* numa.c - placement of committed pages on NUMA nodes. */
#include "memory/numa.h"

#include <inttypes.h>
#include <numa.h>
#include <numaif.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory/fact.h"
#include "memory/prim.h"

#define MAX_NODES 1024
#define MASK_BITS (MAX_NODES + 1) /* the kernel takes the number of bits plus one */
#define WORD_BITS (8 * sizeof(unsigned long))

/* A set of nodes on the stack: libnuma's own sets end the process when memory is short. */
struct node_set {
	unsigned long word[MAX_NODES / (8 * sizeof(unsigned long))];
};

static void set_add(struct node_set *set, unsigned long node)
{
	set->word[node / WORD_BITS] |= 1ul << (node % WORD_BITS);
}

static int set_has(const struct node_set *set, unsigned long node)
{
	return (set->word[node / WORD_BITS] >> (node % WORD_BITS)) & 1;
}

static unsigned set_count(const struct node_set *set)
{
	unsigned count = 0;

	for (unsigned long node = 0; node < MAX_NODES; node++)
		count += (unsigned)set_has(set, node);
	return count;
}

/* Nodes that have memory and that this process may use; one when there is no choice. */
static struct node_set nodes_usable(void)
{
	struct node_set set = {{0}};

	if (numa_available() >= 0)
		for (unsigned node = 0; node < MAX_NODES; node++)
			if ((int)node <= numa_max_node() &&
			    numa_bitmask_isbitset(numa_all_nodes_ptr, node))
				set_add(&set, node);
	if (set_count(&set) == 0)
		set_add(&set, 0);
	return set;
}

/* "3" or "0-2" at *text, which is moved behind it; -1 when there is no such thing. */
static int parse_span(const char **text, unsigned long *first, unsigned long *last)
{
	char *end;

	if (**text < '0' || **text > '9')
		return -1;
	*first = *last = strtoul(*text, &end, 10);
	if (*end == '-') {
		if (end[1] < '0' || end[1] > '9')
			return -1;
		*last = strtoul(end + 1, &end, 10);
	}
	*text = end;
	return *first <= *last && *last < MAX_NODES ? 0 : -1;
}

/* numactl's notation: "all", "0,2-3", "!1". */
static int parse_nodes(const char *list, const struct node_set *usable, struct node_set *out,
		       struct tide_reason *why)
{
	const char *text = list[0] == '!' ? list + 1 : list;
	struct node_set named = {{0}};
	unsigned long first, last;

	*out = *usable;
	if (list[0] == '\0' || strcmp(list, "all") == 0)
		return TIDE_OK;
	for (;;) {
		if (parse_span(&text, &first, &last) != 0 || (*text != ',' && *text != '\0')) {
			tide_reason_set(why, TIDE_BAD_REQUEST, 0,
					"\"%s\" is not a list of NUMA nodes", list);
			tide_reason_hint(why,
					 "write it like numactl: \"0,2-3\", \"!1\" or \"all\"");
			return TIDE_BAD_REQUEST;
		}
		for (unsigned long node = first; node <= last; node++) {
			if (!set_has(usable, node))
				return tide_reason_set(
					why, TIDE_BAD_REQUEST, 0,
					"NUMA node %lu of \"%s\" does not exist, has no "
					"memory or is not allowed to this process",
					node, list);
			set_add(&named, node);
		}
		if (*text == '\0')
			break;
		text++;
	}
	if (list[0] != '!') {
		*out = named;
		return TIDE_OK;
	}
	for (size_t i = 0; i < MAX_NODES / WORD_BITS; i++)
		out->word[i] = usable->word[i] & ~named.word[i];
	if (set_count(out) == 0)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0, "\"%s\" leaves no NUMA node",
				       list);
	return TIDE_OK;
}

/* The nodes meant by a placement, and how many there are to choose from. */
static int resolve(const struct tide_numa *numa, struct node_set *nodes, unsigned *n_usable,
		   struct tide_reason *why)
{
	const struct node_set usable = nodes_usable();

	*n_usable = set_count(&usable);
	if (numa->mode != TIDE_NUMA_LOCAL && numa->mode != TIDE_NUMA_INTERLEAVE &&
	    numa->mode != TIDE_NUMA_BIND)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0, "%d is not a NUMA mode",
				       (int)numa->mode);
	if (memchr(numa->nodes, '\0', sizeof(numa->nodes)) == NULL)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "the list of NUMA nodes has no end");
	return parse_nodes(numa->nodes, &usable, nodes, why);
}

int tide_numa_check(const struct tide_numa *numa, struct tide_reason *why)
{
	struct node_set nodes = {{0}};
	unsigned n_usable;

	return resolve(numa, &nodes, &n_usable, why);
}

static int kernel_mode(const struct tide_numa *numa)
{
	return numa->mode == TIDE_NUMA_BIND ? MPOL_BIND : MPOL_INTERLEAVE;
}

int tide_numa_apply(const struct tide_numa *numa, void *address, uint64_t bytes,
		    struct tide_reason *why)
{
	struct node_set nodes = {{0}};
	unsigned n_usable;
	int rc;

	rc = resolve(numa, &nodes, &n_usable, why);
	if (rc != TIDE_OK || numa->mode == TIDE_NUMA_LOCAL || n_usable == 1)
		return rc;
	rc = tide_prim_bind(address, bytes, kernel_mode(numa), nodes.word, MASK_BITS);
	if (rc != 0)
		return tide_reason_set(why, TIDE_SYSTEM_ERROR, -rc,
				       "NUMA placement on nodes \"%s\" was refused", numa->nodes);
	return TIDE_OK;
}

int tide_numa_fallocate(const struct tide_numa *numa, int fd, uint64_t offset, uint64_t bytes)
{
	struct node_set nodes, nodes_before;
	int mode_before, restored, rc;
	unsigned n_usable;

	if (numa->mode == TIDE_NUMA_LOCAL || resolve(numa, &nodes, &n_usable, NULL) != TIDE_OK ||
	    n_usable == 1)
		return tide_prim_fallocate(fd, 0, offset, bytes);
	rc = tide_prim_get_policy(&mode_before, nodes_before.word, MASK_BITS);
	if (rc == 0)
		rc = tide_prim_set_policy(kernel_mode(numa), nodes.word, MASK_BITS);
	if (rc != 0)
		return rc;
	rc = tide_prim_fallocate(fd, 0, offset, bytes);
	restored = tide_prim_set_policy(mode_before, nodes_before.word, MASK_BITS);
	return rc ? rc : restored;
}

static uint64_t node_free_huge_bytes(const char *sys_root, unsigned long node, uint64_t page_bytes)
{
	char path[TIDE_FACT_PATH_BYTES];
	uint64_t pages;

	if (tide_fact_path(path,
			   "%s/devices/system/node/node%lu/hugepages/hugepages-%" PRIu64
			   "kB/free_hugepages",
			   sys_root, node, page_bytes / 1024) != 0 ||
	    tide_fact_number(path, &pages) != 0)
		return 0;
	return pages * page_bytes;
}

static uint64_t node_free_bytes(const char *sys_root, unsigned long node)
{
	static const char *const fields[] = {"MemFree", "Active(file)", "Inactive(file)"};
	char path[TIDE_FACT_PATH_BYTES], text[TIDE_FACT_TEXT_BYTES], key[64];
	uint64_t sum = 0, kilobytes;

	if (tide_fact_path(path, "%s/devices/system/node/node%lu/meminfo", sys_root, node) != 0 ||
	    tide_prim_read(path, text, sizeof(text)) != 0)
		return 0;
	for (int i = 0; i < 3; i++) {
		snprintf(key, sizeof(key), "Node %lu %s:", node, fields[i]);
		if (tide_fact_field(text, key, &kilobytes) == 0)
			sum += i == 0 ? kilobytes * 1024 : kilobytes * 512;
	}
	return sum;
}

uint64_t tide_numa_left(const struct tide_numa *numa, const struct tide_machine *machine,
			enum tide_backing backing, uint64_t page_bytes)
{
	const struct tide_machine roots = tide_fact_roots(machine);
	struct node_set nodes = {{0}};
	unsigned n_usable;
	uint64_t sum = 0;

	if (numa->mode != TIDE_NUMA_BIND || resolve(numa, &nodes, &n_usable, NULL) != TIDE_OK ||
	    n_usable == 1)
		return UINT64_MAX;
	for (unsigned long node = 0; node < MAX_NODES; node++)
		if (set_has(&nodes, node))
			sum += backing == TIDE_BACKING_HUGETLB
				       ? node_free_huge_bytes(roots.sys_root, node, page_bytes)
				       : node_free_bytes(roots.sys_root, node);
	return sum;
}

/* "0-1,3" */
static void set_print(const struct node_set *set, char *out, size_t out_size)
{
	size_t used = 0;

	out[0] = '\0';
	for (unsigned long node = 0; node < MAX_NODES && used < out_size; node++) {
		unsigned long last = node;

		if (!set_has(set, node))
			continue;
		while (last + 1 < MAX_NODES && set_has(set, last + 1))
			last++;
		used += (size_t)snprintf(out + used, out_size - used, "%s%lu", used ? "," : "",
					 node);
		if (last > node && used < out_size)
			used += (size_t)snprintf(out + used, out_size - used, "-%lu", last);
		node = last;
	}
}

int tide_numa_describe(const struct tide_numa *numa, char *out, size_t out_size,
		       struct tide_reason *why)
{
	struct node_set nodes = {{0}};
	char list[128];
	unsigned n_usable;
	int rc;

	if (!numa || !out || out_size == 0)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0, "no placement or no place for it");
	rc = resolve(numa, &nodes, &n_usable, why);
	if (rc != TIDE_OK)
		return rc;
	set_print(&nodes, list, sizeof(list));
	if (n_usable == 1)
		snprintf(out, out_size, "one node: placement has no effect");
	else if (numa->mode == TIDE_NUMA_LOCAL)
		snprintf(out, out_size, "local to the thread that commits");
	else
		snprintf(out, out_size, "%s node%s %s",
			 numa->mode == TIDE_NUMA_BIND ? "bound to" : "interleave over",
			 set_count(&nodes) == 1 ? "" : "s", list);
	return TIDE_OK;
}
