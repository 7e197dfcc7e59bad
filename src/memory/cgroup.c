/* SPDX-License-Identifier: PostgreSQL */
/* cgroup.c - limits of our control group and of every ancestor, v1, v2 and both at once. */
#include "memory/cgroup.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "memory/fact.h"
#include "memory/prim.h"

/* The files of one meter in one hierarchy. */
struct meter_files {
	char limit[64];
	char usage[64];
	const char *cache[2]; /* fields of memory.stat that can be reclaimed at once */
};

/* "2MB", "1GB": as the kernel names sizes in the files of the hugetlb controller. */
static struct tide_fact_size size_name(uint64_t page_bytes)
{
	struct tide_fact_size name;

	if (page_bytes >= 1u << 30)
		snprintf(name.text, sizeof(name.text), "%" PRIu64 "GB", page_bytes >> 30);
	else if (page_bytes >= 1u << 20)
		snprintf(name.text, sizeof(name.text), "%" PRIu64 "MB", page_bytes >> 20);
	else
		snprintf(name.text, sizeof(name.text), "%" PRIu64 "KB", page_bytes >> 10);
	return name;
}

static struct meter_files meter_files(enum tide_cgroup_meter meter, uint64_t page_bytes,
				      int version)
{
	struct meter_files files = {.cache = {NULL, NULL}};
	const struct tide_fact_size size = size_name(page_bytes);
	const char *limit = version == 2 ? "max" : "limit_in_bytes";
	const char *usage = version == 2 ? "current" : "usage_in_bytes";
	const char *rsvd = meter == TIDE_CGROUP_HUGETLB_RSVD ? "rsvd." : "";

	if (meter == TIDE_CGROUP_MEMORY) {
		snprintf(files.limit, sizeof(files.limit), "memory.%s", limit);
		snprintf(files.usage, sizeof(files.usage), "memory.%s", usage);
		files.cache[0] = version == 2 ? "inactive_file " : "total_inactive_file ";
		files.cache[1] = version == 2 ? "active_file " : "total_active_file ";
	} else {
		snprintf(files.limit, sizeof(files.limit), "hugetlb.%s.%s%s", size.text, rsvd,
			 limit);
		snprintf(files.usage, sizeof(files.usage), "hugetlb.%s.%s%s", size.text, rsvd,
			 usage);
	}
	return files;
}

static uint64_t cache_bytes(const char *folder, const struct meter_files *files)
{
	char path[TIDE_FACT_PATH_BYTES];
	char text[TIDE_FACT_TEXT_BYTES];
	uint64_t sum = 0, bytes;

	if (!files->cache[0] || tide_fact_path(path, "%s/memory.stat", folder) != 0 ||
	    tide_prim_read(path, text, sizeof(text)) != 0)
		return 0;
	for (int i = 0; i < 2; i++)
		if (tide_fact_field(text, files->cache[i], &bytes) == 0)
			sum += bytes;
	return sum;
}

static void bound_by_folder(const char *folder, const struct meter_files *files,
			    struct tide_cgroup_bound *bound)
{
	char path[TIDE_FACT_PATH_BYTES];
	uint64_t limit, used = 0, cache, headroom;

	if (tide_fact_path(path, "%s/%s", folder, files->usage) == 0)
		(void)tide_fact_number(path, &used);
	if (tide_fact_path(path, "%s/%s", folder, files->limit) != 0 ||
	    tide_fact_number(path, &limit) != 0)
		return;
	cache = cache_bytes(folder, files);
	used = used > cache ? used - cache : 0;
	headroom = limit > used ? limit - used : 0;
	if (limit < bound->limit_bytes)
		bound->limit_bytes = limit;
	if (headroom < bound->headroom_bytes) {
		bound->headroom_bytes = headroom;
		bound->tightest_limit_bytes = limit;
		snprintf(bound->file, sizeof(bound->file), "%.255s", path);
	}
}

/* From our group up to the root of the hierarchy, which in a container is the container's own. */
static void bound_by_ancestors(const char *mount, const char *group,
			       const struct meter_files *files, struct tide_cgroup_bound *bound)
{
	char folder[TIDE_FACT_PATH_BYTES];
	size_t mount_length = strlen(mount);

	/* A group outside of our cgroup namespace has no path below the mount. */
	if (strcmp(group, "/") == 0 || strstr(group, "/.."))
		group = "";
	if (tide_fact_path(folder, "%s%s", mount, group) != 0)
		(void)tide_fact_path(folder, "%s", mount);
	for (;;) {
		char *slash = strrchr(folder, '/');

		bound_by_folder(folder, files, bound);
		if (!slash || (size_t)(slash - folder) < mount_length)
			return;
		*slash = '\0';
	}
}

/* Is @name one of the comma-separated words before the next ':'? */
static int lists_controller(const char *list, const char *name)
{
	size_t length = strlen(name);

	for (;;) {
		size_t word = strcspn(list, ",:");

		if (word == length && strncmp(list, name, length) == 0)
			return 1;
		if (list[word] != ',')
			return 0;
		list += word + 1;
	}
}

/*
 * The path of our group in the hierarchy of @controller (v1), or in the unified one (NULL), from
 * lines like "4:memory:/a/b" and "0::/a". Unknown means the root.
 */
static void group_path(const char *text, const char *controller, char group[TIDE_FACT_PATH_BYTES])
{
	const char *line = text;

	(void)tide_fact_path(group, "/");
	while (line) {
		const char *list = strchr(line, ':');
		const char *path = list ? strchr(list + 1, ':') : NULL;
		int match = path && (controller ? lists_controller(list + 1, controller)
						: strncmp(line, "0::", 3) == 0);

		if (match) {
			path++;
			if (tide_fact_path(group, "%.*s", (int)strcspn(path, "\n"), path) != 0)
				(void)tide_fact_path(group, "/");
			return;
		}
		line = strchr(line, '\n');
		if (line)
			line++;
	}
}

void tide_cgroup_read(const struct tide_machine *machine, enum tide_cgroup_meter meter,
		      uint64_t page_bytes, struct tide_cgroup_bound *out)
{
	static const char *const unified[] = {"", "/unified"};
	const struct tide_machine roots = tide_fact_roots(machine);
	const char *controller = meter == TIDE_CGROUP_MEMORY ? "memory" : "hugetlb";
	char path[TIDE_FACT_PATH_BYTES], group[TIDE_FACT_PATH_BYTES];
	char text[TIDE_FACT_TEXT_BYTES] = "";
	struct meter_files files;

	*out = (struct tide_cgroup_bound){UINT64_MAX, UINT64_MAX, UINT64_MAX, ""};
	if (tide_fact_path(path, "%s/self/cgroup", roots.proc_root) != 0 ||
	    tide_prim_read(path, text, sizeof(text)) != 0)
		text[0] = '\0';

	files = meter_files(meter, page_bytes, 1);
	group_path(text, controller, group);
	if (tide_fact_path(path, "%s/%s", roots.cgroup_root, controller) == 0)
		bound_by_ancestors(path, group, &files, out);

	files = meter_files(meter, page_bytes, 2);
	group_path(text, NULL, group);
	for (int i = 0; i < 2; i++)
		if (tide_fact_path(path, "%s%s", roots.cgroup_root, unified[i]) == 0)
			bound_by_ancestors(path, group, &files, out);
}

int tide_cgroup_counts_hugetlb(const struct tide_machine *machine)
{
	char path[TIDE_FACT_PATH_BYTES];
	char text[TIDE_FACT_TEXT_BYTES];
	const char *type, *option;

	if (tide_fact_path(path, "%s/self/mounts", tide_fact_roots(machine).proc_root) != 0 ||
	    tide_prim_read(path, text, sizeof(text)) != 0)
		return 0;
	type = strstr(text, " cgroup2 ");
	option = type ? strstr(type, "memory_hugetlb_accounting") : NULL;
	return option && (size_t)(option - type) < strcspn(type, "\n");
}
