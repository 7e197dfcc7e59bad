/* SPDX-License-Identifier: PostgreSQL */
/* hugepool.c - the kernel's pool of explicit huge pages of one size. */
#include "memory/hugepool.h"

#include <errno.h>
#include <inttypes.h>

#include "memory/fact.h"

int tide_hugepool_path(char *path, const struct tide_machine *machine, uint64_t page_bytes,
		       const char *file)
{
	return tide_fact_path(path, "%s/kernel/mm/hugepages/hugepages-%" PRIu64 "kB/%s",
			      tide_fact_roots(machine).sys_root, page_bytes / 1024, file);
}

static uint64_t pool_number(const struct tide_machine *machine, uint64_t page_bytes,
			    const char *file)
{
	char path[TIDE_FACT_PATH_BYTES];
	uint64_t number;

	if (tide_hugepool_path(path, machine, page_bytes, file) != 0 ||
	    tide_fact_number(path, &number) != 0)
		return 0;
	return number;
}

int tide_hugepool_read(const struct tide_machine *machine, uint64_t page_bytes,
		       struct tide_hugepool *out)
{
	char path[TIDE_FACT_PATH_BYTES];
	int rc;

	*out = (struct tide_hugepool){0};
	rc = tide_hugepool_path(path, machine, page_bytes, "nr_hugepages");
	if (rc == 0)
		rc = tide_fact_number(path, &out->total);
	if (rc != 0)
		return rc;
	out->free = pool_number(machine, page_bytes, "free_hugepages");
	out->reserved = pool_number(machine, page_bytes, "resv_hugepages");
	out->surplus = pool_number(machine, page_bytes, "surplus_hugepages");
	out->overcommit = pool_number(machine, page_bytes, "nr_overcommit_hugepages");
	return 0;
}

uint64_t tide_hugepool_unreserved(const struct tide_hugepool *pool)
{
	return pool->free > pool->reserved ? pool->free - pool->reserved : 0;
}

uint64_t tide_hugepool_surplus_room(const struct tide_hugepool *pool)
{
	return pool->overcommit > pool->surplus ? pool->overcommit - pool->surplus : 0;
}
