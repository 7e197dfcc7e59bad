/* SPDX-License-Identifier: PostgreSQL */
/* backing.c - which pages a region gets, and the file that holds them. */
#include "memory/backing.h"

#include <errno.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/fact.h"
#include "memory/prim.h"

#define THP_BYTES (2ull << 20)
#define MEMFD_HUGE_SHIFT 26 /* where memfd_create takes the logarithm of the page size */

const char *tide_backing_name(enum tide_backing backing)
{
	switch (backing) {
	case TIDE_BACKING_BASE:
		return "base";
	case TIDE_BACKING_THP:
		return "thp";
	case TIDE_BACKING_HUGETLB:
		return "hugetlb";
	}
	return "unknown";
}

static uint64_t base_page_bytes(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Does shmem give huge pages to a mapping that advises them? */
static int thp_enabled(const struct tide_machine *machine)
{
	static const char *const enabled[] = {"[always]", "[within_size]", "[advise]", "[force]"};
	char path[TIDE_FACT_PATH_BYTES];
	char text[256];

	if (tide_fact_path(path, "%s/kernel/mm/transparent_hugepage/shmem_enabled",
			   tide_fact_roots(machine).sys_root) != 0 ||
	    tide_prim_read(path, text, sizeof(text)) != 0)
		return 0;
	for (size_t i = 0; i < sizeof(enabled) / sizeof(enabled[0]); i++)
		if (strstr(text, enabled[i]))
			return 1;
	return 0;
}

/* The file system comes first: no setting of the machine helps against a mount that is full. */
static int check_start(const struct tide_region *region, uint64_t start_bytes,
		       struct tide_reason *why)
{
	const struct tide_region_info *info = &region->info;
	const uint64_t room = tide_region_room(region);
	struct tide_verdict verdict;
	int code;

	if (room < start_bytes) {
		code = tide_reason_set(
			why, TIDE_HUGEPAGES_SHORT, 0,
			"%s of huge pages are needed, the file system of the region has "
			"%s left",
			tide_fact_size(start_bytes).text, tide_fact_size(room).text);
		tide_reason_hint(why, "mount it with a larger size");
		tide_reason_bytes(why, start_bytes, room);
		return code;
	}
	code = tide_preflight(&region->machine, info->backing, info->page_bytes, start_bytes,
			      &verdict);
	if (code != TIDE_OK && why)
		*why = verdict.reason;
	return code;
}

static int open_hugetlb(struct tide_region *region, const struct tide_region_config *config,
			uint64_t start_bytes, struct tide_reason *why)
{
	struct tide_region_info *info = &region->info;
	unsigned flags;
	int code, rc;

	info->backing = TIDE_BACKING_HUGETLB;
	info->page_bytes = config->huge_page_bytes ? config->huge_page_bytes : 2ull << 20;
	flags = (unsigned)__builtin_ctzll(info->page_bytes) << MEMFD_HUGE_SHIFT;
	rc = tide_prim_memfd(config->name, MFD_CLOEXEC | MFD_HUGETLB | flags, &region->fd);
	if (rc != 0) {
		region->fd = -1;
		if (rc == -EMFILE || rc == -ENFILE)
			return tide_reason_set(why, TIDE_SYSTEM_ERROR, -rc,
					       "no memfd can be opened");
		code = tide_reason_set(why, TIDE_HUGEPAGES_UNAVAILABLE, -rc,
				       "this kernel gives no memfd with huge pages of %s",
				       tide_fact_size(info->page_bytes).text);
		tide_reason_hint(why, "use another size of huge pages or none");
		return code;
	}
	code = check_start(region, start_bytes, why);
	if (code != TIDE_OK) {
		tide_prim_close(region->fd);
		region->fd = -1;
	}
	return code;
}

static int open_shmem(struct tide_region *region, const struct tide_region_config *config,
		      struct tide_reason *why)
{
	struct tide_region_info *info = &region->info;
	int rc;

	info->backing = TIDE_BACKING_BASE;
	info->page_bytes = base_page_bytes();
	if (config->huge != TIDE_HUGE_OFF && thp_enabled(&region->machine)) {
		info->backing = TIDE_BACKING_THP;
		info->page_bytes = THP_BYTES;
	}
	rc = tide_prim_memfd(config->name, MFD_CLOEXEC, &region->fd);
	if (rc != 0) {
		region->fd = -1;
		return tide_reason_set(why, TIDE_SYSTEM_ERROR, -rc, "no memfd can be opened");
	}
	return TIDE_OK;
}

/* A file that is given decides what backs the region; the policy says whether that will do. */
static int judge_given(struct tide_region *region, const struct tide_region_config *config,
		       uint64_t start_bytes, struct tide_reason *why)
{
	struct tide_region_info *info = &region->info;
	struct statfs fs;
	int rc;

	rc = tide_prim_statfs(region->fd, &fs);
	if (rc != 0)
		return tide_reason_set(why, TIDE_SYSTEM_ERROR, -rc,
				       "fstatfs of the file given failed");
	if (fs.f_type == HUGETLBFS_MAGIC) {
		info->backing = TIDE_BACKING_HUGETLB;
		info->page_bytes = (uint64_t)fs.f_bsize;
		if (config->huge == TIDE_HUGE_OFF)
			return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
					       "the file given has huge pages, the policy is off");
		if (config->huge_page_bytes && config->huge_page_bytes != info->page_bytes)
			return tide_reason_set(
				why, TIDE_BAD_REQUEST, 0,
				"the file given has huge pages of %s, asked for were %s",
				tide_fact_size(info->page_bytes).text,
				tide_fact_size(config->huge_page_bytes).text);
		/* There is nothing to fall back to: with the policy "try", commit decides. */
		return config->huge == TIDE_HUGE_ON ? check_start(region, start_bytes, why)
						    : TIDE_OK;
	}
	if (fs.f_type != TMPFS_MAGIC)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "the file given is neither on hugetlbfs nor on tmpfs");
	if (config->huge == TIDE_HUGE_ON)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "the file given has no huge pages, the policy is on");
	info->backing = TIDE_BACKING_BASE;
	info->page_bytes = base_page_bytes();
	if (config->huge == TIDE_HUGE_TRY) {
		info->fell_back = 1;
		tide_reason_set(&info->fallback, TIDE_HUGEPAGES_UNAVAILABLE, 0,
				"the file given has no huge pages");
	}
	return TIDE_OK;
}

int tide_backing_open(struct tide_region *region, const struct tide_region_config *config,
		      uint64_t start_bytes, struct tide_reason *why)
{
	struct tide_reason *fallback = &region->info.fallback;
	int code, rc;

	if (config->fd >= 0) {
		/* A copy, so that the caller may close its own whenever it likes. */
		rc = tide_prim_dup(config->fd, &region->fd);
		if (rc != 0) {
			region->fd = -1;
			return tide_reason_set(why,
					       rc == -EBADF ? TIDE_BAD_REQUEST : TIDE_SYSTEM_ERROR,
					       -rc, "the file given cannot be used");
		}
		code = judge_given(region, config, start_bytes, why);
		if (code != TIDE_OK) {
			tide_prim_close(region->fd);
			region->fd = -1;
		}
		return code;
	}
	if (config->huge == TIDE_HUGE_ON)
		return open_hugetlb(region, config, start_bytes, why);
	if (config->huge == TIDE_HUGE_TRY) {
		if (open_hugetlb(region, config, start_bytes, fallback) == TIDE_OK)
			return TIDE_OK;
		region->info.fell_back = 1;
	}
	return open_shmem(region, config, why);
}
