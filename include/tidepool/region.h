/* SPDX-License-Identifier: PostgreSQL */
/*
 * tidepool/region.h - memory layer: address space reserved once, backed on demand.
 *
 * A region is one memfd mapped once. Parts of it are committed (backed by the kernel, populated)
 * and decommitted (given back at once); addresses never move. It knows nothing of buffers.
 *
 * Caveats:
 *  - A hugetlb or shmem page that is merely touched after decommit is allocated again, zeroed. The
 *    caller keeps readers away; tide_region_audit() shows when one slipped through.
 *  - A region is inherited by fork(): parent and children share mapping and memory. Any process may
 *    commit and decommit, but only one at a time; the library takes no lock of its own.
 *  - The whole mapping is excluded from core dumps: the flag is per process, so a range committed
 *    by one process could not be put back into the dumps of another, and per-range flags would
 *    split the mapping.
 *  - Nothing here prints, exits or raises a signal. All functions may block in the kernel.
 */
#ifndef TIDEPOOL_REGION_H
#define TIDEPOOL_REGION_H

#include <stddef.h>
#include <stdint.h>

#include <tidepool/reason.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What backs a region. */
enum tide_backing {
	TIDE_BACKING_BASE,    /* base pages of shmem */
	TIDE_BACKING_THP,     /* shmem with transparent huge pages advised */
	TIDE_BACKING_HUGETLB, /* explicit huge pages */
};

/* Whether to ask for huge pages: never, if possible, or refuse to go without. */
enum tide_huge_policy {
	TIDE_HUGE_OFF,
	TIDE_HUGE_TRY,
	TIDE_HUGE_ON,
};

/* Where pages go on a machine with several NUMA nodes. */
enum tide_numa_mode {
	TIDE_NUMA_LOCAL,      /* the kernel's default: the node of the thread that commits */
	TIDE_NUMA_INTERLEAVE, /* page by page over the nodes given, or over all */
	TIDE_NUMA_BIND,	      /* only on the nodes given */
};

/**
 * struct tide_numa - placement of committed pages
 * @mode:  how
 * @nodes: a node list in numactl's notation ("0-1", "all"), or "" = all nodes with memory
 */
struct tide_numa {
	enum tide_numa_mode mode;
	char nodes[64];
};

/**
 * struct tide_machine - where the facts about this machine are read
 * @cgroup_root: mount point of the cgroup tree(s), normally "/sys/fs/cgroup"
 * @proc_root:   normally "/proc"
 * @sys_root:    normally "/sys"
 *
 * Settings rather than constants so that a container that mounts them elsewhere works and tests can
 * play any machine. A NULL member means the normal place.
 */
struct tide_machine {
	const char *cgroup_root;
	const char *proc_root;
	const char *sys_root;
};

/**
 * struct tide_region_config - what to reserve
 * @name:            shown by the kernel as the name of the memfd; not NULL
 * @max_bytes:       ceiling; rounded up to the backing page; the address range is rounded up to 1 GiB
 * @huge:            huge page policy
 * @huge_page_bytes: 2 MiB or 1 GiB; 0 = 2 MiB; ignored with TIDE_HUGE_OFF
 * @numa:            placement, applied to each range before it is committed
 * @commit_threads:  threads that populate disjoint ranges at commit; 0 or 1 = the calling thread
 *                   only. Helper threads live only inside tide_region_commit() and block all signals.
 * @machine:         where to read facts
 * @fd:              -1 = create a memfd; otherwise an open file on hugetlbfs or tmpfs to use instead
 *                   (the caller keeps ownership of it)
 */
struct tide_region_config {
	const char *name;
	uint64_t max_bytes;
	enum tide_huge_policy huge;
	uint64_t huge_page_bytes;
	struct tide_numa numa;
	unsigned commit_threads;
	struct tide_machine machine;
	int fd;
};

struct tide_region;

/* A byte range of a region; both multiples of the backing page. */
struct tide_range {
	uint64_t offset;
	uint64_t bytes;
};

/**
 * struct tide_region_info - what was reserved
 * @base:        first byte, 1 GiB aligned; the same in every process that inherited the region
 * @max_bytes:   usable ceiling
 * @page_bytes:  size of a backing page: commit and decommit work in multiples of it (2 MiB for THP)
 * @backing:     what really backs it
 * @fell_back:   1 when huge pages were asked for (TIDE_HUGE_TRY) and could not be had
 * @fallback:    why, when @fell_back
 */
struct tide_region_info {
	void *base;
	uint64_t max_bytes;
	uint64_t page_bytes;
	enum tide_backing backing;
	int fell_back;
	struct tide_reason fallback;
};

/**
 * tide_region_reserve() - reserve address space for a region; commits nothing
 *
 * @start_bytes: bytes that the caller is about to commit. With TIDE_HUGE_TRY they decide between
 *               hugetlb and the fallback (a preflight for that many bytes); with TIDE_HUGE_ON a
 *               shortfall is an error here, before anything is touched.
 *
 * Return: 0 and *out, or TIDE_BAD_REQUEST, TIDE_NOT_ENOUGH_MEMORY (address space: RLIMIT_AS or
 * overcommit), TIDE_HUGEPAGES_UNAVAILABLE, TIDE_HUGEPAGES_SHORT, TIDE_HUGEPAGE_CGROUP_LIMIT,
 * TIDE_SYSTEM_ERROR; on error nothing stays reserved.
 * Ownership: the caller releases *out with tide_region_release().
 */
TIDE_PUBLIC TIDE_CHECKED int tide_region_reserve(const struct tide_region_config *config,
						 uint64_t start_bytes, struct tide_region **out,
						 struct tide_reason *why);

/** tide_region_info() - what was reserved; valid as long as the region */
TIDE_PUBLIC const struct tide_region_info *tide_region_info(const struct tide_region *region);

/**
 * tide_region_fd() - its file, to be passed to another process, which maps it by tide_region_config.fd
 *
 * Open until tide_region_release(); the caller does not close it.
 */
TIDE_PUBLIC int tide_region_fd(const struct tide_region *region);

/**
 * tide_region_commit() - back ranges with memory, populated
 *
 * The ranges must not be committed yet and not overlap. All or nothing: on error every page that was
 * obtained on the way is given back, so the committed size is what it was. No preflight is made,
 * but for what it cannot know: the memory left on the nodes that base pages are bound to.
 *
 * Return: 0, or TIDE_BAD_REQUEST (unaligned, outside), TIDE_HUGEPAGES_SHORT,
 * TIDE_HUGEPAGE_CGROUP_LIMIT, TIDE_NOT_ENOUGH_MEMORY, TIDE_SYSTEM_ERROR. EINTR is resumed inside.
 */
TIDE_PUBLIC TIDE_CHECKED int tide_region_commit(struct tide_region *region,
						const struct tide_range *ranges, size_t n_ranges,
						struct tide_reason *why);

/**
 * tide_region_decommit() - give the memory of ranges back to where it came from, at once
 *
 * Return: 0, or TIDE_BAD_REQUEST, TIDE_SYSTEM_ERROR (ranges before the failing one are released).
 * Needs no memory of its own.
 */
TIDE_PUBLIC TIDE_CHECKED int tide_region_decommit(struct tide_region *region,
						  const struct tide_range *ranges, size_t n_ranges,
						  struct tide_reason *why);

/**
 * tide_region_audit() - what the kernel says is committed, in bytes; O(1)
 */
TIDE_PUBLIC TIDE_CHECKED int tide_region_audit(const struct tide_region *region,
					       uint64_t *committed_bytes, struct tide_reason *why);

/**
 * tide_region_release() - unmap and close; the memory goes when the last process lets go of it
 */
TIDE_PUBLIC void tide_region_release(struct tide_region *region);

/**
 * struct tide_verdict - answer of a preflight
 * @fits:        1 when the bytes can be had as far as can be known
 * @want_bytes, @have_bytes, @short_bytes: asked, obtainable, missing
 * @want_pages, @have_pages, @short_pages: the same in backing pages
 * @pool_bytes:  of the bytes asked for, how many the huge-page pool has free (the rest would be
 *               surplus, taken from and given back to the machine)
 * @limit:       the file that holds the tightest limit ("" when it fits)
 * @reason:      code, sentence and what to do (which sysctl, how many pages)
 */
struct tide_verdict {
	int fits;
	uint64_t want_bytes, have_bytes, short_bytes;
	uint64_t want_pages, have_pages, short_pages;
	uint64_t pool_bytes;
	char limit[256];
	struct tide_reason reason;
};

/**
 * tide_preflight() - could @bytes more be committed with this backing? Touches no page.
 *
 * Looks at free huge pages not reserved by others, surplus headroom (bounded by MemAvailable),
 * hugetlb limits and reservation limits, memory limits of every cgroup ancestor (v1 and v2) and
 * MemAvailable. A file that is missing or says "max" is no limit. Advisory: somebody else may
 * take the memory in between, and commit then says so.
 *
 * Return: the verdict's code (0 = fits).
 */
TIDE_PUBLIC TIDE_CHECKED int tide_preflight(const struct tide_machine *machine,
					    enum tide_backing backing, uint64_t page_bytes,
					    uint64_t bytes, struct tide_verdict *verdict);

/**
 * struct tide_machine_memory - sizes that people plan with, all bytes except counts
 * @mem_total, @mem_available: the machine
 * @limit:      the smallest memory limit of any cgroup ancestor, or @mem_total
 * @huge_*:     state of the huge-page pool of @huge_page_bytes, in pages
 */
struct tide_machine_memory {
	uint64_t mem_total, mem_available, limit;
	uint64_t huge_page_bytes;
	uint64_t huge_total, huge_free, huge_reserved, huge_surplus, huge_overcommit;
};

/** tide_machine_memory() - read them; TIDE_SYSTEM_ERROR when meminfo cannot be read */
TIDE_PUBLIC TIDE_CHECKED int tide_machine_memory(const struct tide_machine *machine,
						 uint64_t huge_page_bytes,
						 struct tide_machine_memory *out,
						 struct tide_reason *why);

/**
 * tide_numa_describe() - the placement in words, into @out: "interleave over nodes 0-1", or
 * "one node: placement has no effect"
 *
 * Return: 0 or TIDE_BAD_REQUEST for a node list that does not parse or names no existing node.
 */
TIDE_PUBLIC TIDE_CHECKED int tide_numa_describe(const struct tide_numa *numa, char *out,
						size_t out_size, struct tide_reason *why);

/**
 * tide_backing_name() - "base", "thp", "hugetlb"
 */
TIDE_PUBLIC const char *tide_backing_name(enum tide_backing backing);

#ifdef __cplusplus
}
#endif

#endif /* TIDEPOOL_REGION_H */
