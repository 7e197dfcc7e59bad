/* SPDX-License-Identifier: PostgreSQL */
/*
 * region.c - address space reserved once.
 *
 * One file, mapped once and whole. Base and length are multiples of 1 GiB and the file begins at
 * the base, so that processes share the page tables of a hugetlb mapping. Every attribute is set on the
 * whole mapping, here and never again: it stays one mapping whatever is committed later.
 */
#include "memory/region.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "memory/backing.h"
#include "memory/fact.h"
#include "memory/numa.h"
#include "memory/prim.h"

#define GIB (1ull << 30)
#define NAME_MAX_BYTES 249	   /* of a memfd */
#define MAX_MAX_BYTES (1ull << 56) /* beyond any address space; keeps sums from wrapping */

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

static int check_config(const struct tide_region_config *config, uint64_t start_bytes,
			struct tide_reason *why)
{
	if (!config->name || strlen(config->name) > NAME_MAX_BYTES)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "a region needs a name of at most %d bytes", NAME_MAX_BYTES);
	if (config->max_bytes == 0 || config->max_bytes > MAX_MAX_BYTES)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "%" PRIu64 " bytes are no possible size of a region",
				       config->max_bytes);
	if (start_bytes > config->max_bytes)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "the size to start with, %s, is above the maximum, %s",
				       tide_fact_size(start_bytes).text,
				       tide_fact_size(config->max_bytes).text);
	if (config->huge != TIDE_HUGE_OFF && config->huge != TIDE_HUGE_TRY &&
	    config->huge != TIDE_HUGE_ON)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0, "%d is not a huge page policy",
				       (int)config->huge);
	if (config->huge != TIDE_HUGE_OFF && config->huge_page_bytes != 0 &&
	    config->huge_page_bytes != 2ull << 20 && config->huge_page_bytes != GIB)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "huge pages of %s are not supported, only 2 MiB and 1 GiB",
				       tide_fact_size(config->huge_page_bytes).text);
	return tide_numa_check(&config->numa, why);
}

/* NULL stays NULL; 0 or -ENOMEM. */
static int copy_text(const char *text, const char **copy)
{
	*copy = text ? strdup(text) : NULL;
	return text && !*copy ? -ENOMEM : 0;
}

static int copy_machine(const struct tide_machine *from, struct tide_machine *to)
{
	int rc = copy_text(from->cgroup_root, &to->cgroup_root);

	if (rc == 0)
		rc = copy_text(from->proc_root, &to->proc_root);
	if (rc == 0)
		rc = copy_text(from->sys_root, &to->sys_root);
	return rc;
}

static int no_address_space(uint64_t bytes, int error, struct tide_reason *why)
{
	uint64_t limit = UINT64_MAX;
	int code;

	if (error != ENOMEM)
		return tide_reason_set(why, TIDE_SYSTEM_ERROR, error, "%s could not be mapped",
				       tide_fact_size(bytes).text);
	code = tide_reason_set(why, TIDE_NOT_ENOUGH_MEMORY, error,
			       "%s of address space cannot be reserved",
			       tide_fact_size(bytes).text);
	if (tide_prim_address_limit(&limit) == 0 && limit != UINT64_MAX)
		tide_reason_hint(
			why,
			"the limit of address space (RLIMIT_AS, ulimit -v) is %s: raise it "
			"or lower the maximum",
			tide_fact_size(limit).text);
	else
		tide_reason_hint(why, "lower the maximum, or look at vm.overcommit_memory and "
				      "vm.max_map_count");
	tide_reason_bytes(why, bytes, limit == UINT64_MAX ? 0 : limit);
	return code;
}

/* Reserve 1 GiB more than needed, cut to an aligned range, and put the file there. */
static int map_aligned(struct tide_region *region, struct tide_reason *why)
{
	const uint64_t bytes = region->map_bytes;
	char *room, *base, *end;
	void *mapped;
	int rc;

	rc = tide_prim_map(NULL, bytes + GIB, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, &mapped);
	if (rc != 0)
		return no_address_space(bytes + GIB, -rc, why);
	room = mapped;
	base = (char *)round_up((uintptr_t)room, GIB);
	end = room + bytes + GIB;
	rc = tide_prim_map(base, bytes, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_NORESERVE | MAP_FIXED, region->fd, &mapped);
	if (rc != 0) {
		(void)tide_prim_unmap(room, bytes + GIB);
		return no_address_space(bytes, -rc, why);
	}
	region->info.base = base;
	if (base > room)
		rc = tide_prim_unmap(room, (uint64_t)(base - room));
	if (rc == 0 && end > base + bytes)
		rc = tide_prim_unmap(base + bytes, (uint64_t)(end - base) - bytes);
	if (rc != 0) {
		(void)tide_prim_unmap(room, bytes + GIB);
		region->info.base = NULL;
		return no_address_space(bytes, -rc, why);
	}
	return TIDE_OK;
}

/* The file covers the whole mapping: a page that is touched by mistake is zero and not SIGBUS. */
static int extend_file(const struct tide_region *region, struct tide_reason *why)
{
	struct stat status;
	int rc;

	rc = tide_prim_stat(region->fd, &status);
	if (rc == 0 && (uint64_t)status.st_size < region->map_bytes)
		rc = tide_prim_truncate(region->fd, region->map_bytes);
	if (rc != 0)
		return tide_reason_set(why, TIDE_SYSTEM_ERROR, -rc,
				       "the file of the region cannot be made %s long",
				       tide_fact_size(region->map_bytes).text);
	return TIDE_OK;
}

static int set_attributes(const struct tide_region *region, struct tide_reason *why)
{
	const char *what = "MADV_DONTDUMP";
	int rc;

	rc = tide_prim_advise(region->info.base, region->map_bytes, MADV_DONTDUMP);
	if (rc == 0 && region->info.backing == TIDE_BACKING_THP) {
		what = "MADV_HUGEPAGE";
		rc = tide_prim_advise(region->info.base, region->map_bytes, MADV_HUGEPAGE);
	}
	if (rc != 0)
		return tide_reason_set(why, TIDE_SYSTEM_ERROR, -rc, "%s was refused", what);
	return tide_numa_apply(&region->numa, region->info.base, region->map_bytes, why);
}

int tide_region_reserve(const struct tide_region_config *config, uint64_t start_bytes,
			struct tide_region **out, struct tide_reason *why)
{
	struct tide_region *region;
	int code;

	if (!config || !out)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "no configuration or no place for "
				       "the region");
	*out = NULL;
	code = check_config(config, start_bytes, why);
	if (code != TIDE_OK)
		return code;
	region = calloc(1, sizeof(*region));
	if (!region)
		return tide_reason_set(why, TIDE_NOT_ENOUGH_MEMORY, ENOMEM,
				       "no memory for a region");
	region->fd = -1;
	region->commit_threads = config->commit_threads;
	region->numa = config->numa;
	if (copy_machine(&config->machine, &region->machine) != 0)
		code = tide_reason_set(why, TIDE_NOT_ENOUGH_MEMORY, ENOMEM,
				       "no memory for a region");
	if (code == TIDE_OK)
		code = tide_backing_open(region, config, start_bytes, why);
	if (code == TIDE_OK) {
		region->info.max_bytes = round_up(config->max_bytes, region->info.page_bytes);
		region->map_bytes = round_up(config->max_bytes, GIB);
		code = map_aligned(region, why);
	}
	if (code == TIDE_OK)
		code = extend_file(region, why);
	if (code == TIDE_OK)
		code = set_attributes(region, why);
	if (code != TIDE_OK) {
		tide_region_release(region);
		return code;
	}
	*out = region;
	return TIDE_OK;
}

const struct tide_region_info *tide_region_info(const struct tide_region *region)
{
	return &region->info;
}

int tide_region_fd(const struct tide_region *region)
{
	return region->fd;
}

uint64_t tide_region_room(const struct tide_region *region)
{
	struct statfs fs;

	if (tide_prim_statfs(region->fd, &fs) != 0 || fs.f_blocks == 0)
		return UINT64_MAX;
	return (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
}

void tide_region_release(struct tide_region *region)
{
	if (!region)
		return;
	if (region->info.base)
		(void)tide_prim_unmap(region->info.base, region->map_bytes);
	if (region->fd >= 0)
		tide_prim_close(region->fd);
	free((void *)region->machine.cgroup_root);
	free((void *)region->machine.proc_root);
	free((void *)region->machine.sys_root);
	free(region);
}
