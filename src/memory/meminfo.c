/* SPDX-License-Identifier: PostgreSQL */
/* meminfo.c - the memory of the whole machine. */
#include "memory/meminfo.h"

#include "memory/fact.h"
#include "memory/prim.h"

static uint64_t meminfo_bytes(const char *text, const char *key)
{
	uint64_t kilobytes;

	if (tide_fact_field(text, key, &kilobytes) != 0 || kilobytes > UINT64_MAX / 1024)
		return UINT64_MAX;
	return kilobytes * 1024;
}

/* Shared memory is promised page by page when it is allocated, so strict accounting bounds it. */
static uint64_t commit_left(const char *proc_root, const char *text)
{
	char path[TIDE_FACT_PATH_BYTES];
	uint64_t mode, limit, promised;

	if (tide_fact_path(path, "%s/sys/vm/overcommit_memory", proc_root) != 0 ||
	    tide_fact_number(path, &mode) != 0 || mode != 2)
		return UINT64_MAX;
	limit = meminfo_bytes(text, "CommitLimit:");
	promised = meminfo_bytes(text, "Committed_AS:");
	if (limit == UINT64_MAX || promised == UINT64_MAX)
		return UINT64_MAX;
	return limit > promised ? limit - promised : 0;
}

int tide_meminfo_read(const struct tide_machine *machine, struct tide_meminfo *out)
{
	const struct tide_machine roots = tide_fact_roots(machine);
	char path[TIDE_FACT_PATH_BYTES];
	char text[TIDE_FACT_TEXT_BYTES];
	int rc;

	*out = (struct tide_meminfo){UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
	rc = tide_fact_path(path, "%s/meminfo", roots.proc_root);
	if (rc == 0)
		rc = tide_prim_read(path, text, sizeof(text));
	if (rc != 0)
		return rc;
	out->total = meminfo_bytes(text, "MemTotal:");
	out->available = meminfo_bytes(text, "MemAvailable:");
	out->huge_page_bytes = meminfo_bytes(text, "Hugepagesize:");
	out->commit_left = commit_left(roots.proc_root, text);
	return 0;
}
