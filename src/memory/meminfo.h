/* SPDX-License-Identifier: PostgreSQL */
/* meminfo.h - the memory of the whole machine. */
#ifndef TIDE_MEMORY_MEMINFO_H
#define TIDE_MEMORY_MEMINFO_H

#include <tidepool/region.h>

/**
 * struct tide_meminfo - what /proc/meminfo says, in bytes; UINT64_MAX = it does not say
 * @huge_page_bytes: size of the pages that vm.nr_hugepages counts
 * @commit_left:     with vm.overcommit_memory=2, what may still be promised; else UINT64_MAX
 */
struct tide_meminfo {
	uint64_t total;
	uint64_t available;
	uint64_t huge_page_bytes;
	uint64_t commit_left;
};

/* 0 or -errno; then every member says UINT64_MAX. */
int tide_meminfo_read(const struct tide_machine *machine, struct tide_meminfo *out);

#endif /* TIDE_MEMORY_MEMINFO_H */
