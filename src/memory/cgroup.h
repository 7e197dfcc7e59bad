/* SPDX-License-Identifier: PostgreSQL */
/* cgroup.h - limits of our control group and of every ancestor, v1, v2 and both at once. */
#ifndef TIDE_MEMORY_CGROUP_H
#define TIDE_MEMORY_CGROUP_H

#include <tidepool/region.h>

/* What is limited. */
enum tide_cgroup_meter {
	TIDE_CGROUP_MEMORY,
	TIDE_CGROUP_HUGETLB,	  /* huge pages in use */
	TIDE_CGROUP_HUGETLB_RSVD, /* promised ones; a fault without a promise counts too */
};

/**
 * struct tide_cgroup_bound - the tightest of the limits found; UINT64_MAX = none
 * @headroom_bytes: the least that is left below any limit
 * @limit_bytes:    the smallest limit, whatever its use
 * @file:           the limit file that leaves the least
 */
struct tide_cgroup_bound {
	uint64_t headroom_bytes;
	uint64_t limit_bytes;
	uint64_t tightest_limit_bytes; /* the number in @file */
	char file[256];
};

/*
 * @page_bytes names the files of the hugetlb meters. A file that is missing or says "max" is no
 * limit.
 */
void tide_cgroup_read(const struct tide_machine *machine, enum tide_cgroup_meter meter,
		      uint64_t page_bytes, struct tide_cgroup_bound *out);

/* Do memory limits count explicit huge pages as well? Only where cgroup2 is mounted to do so. */
int tide_cgroup_counts_hugetlb(const struct tide_machine *machine);

#endif /* TIDE_MEMORY_CGROUP_H */
