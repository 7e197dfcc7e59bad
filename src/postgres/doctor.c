/*-------------------------------------------------------------------------
 *
 * doctor.c
 *	  tidepool.doctor(): what server and machine look like from the pool's
 *	  point of view, one row a check.
 *
 * A check never fails: what cannot be read is a finding too.  "fail" is said
 * of what does not work or will not at the next start, "warn" of what costs
 * more or reaches less than it could; whatever is not "ok" comes with advice.
 *
 *-------------------------------------------------------------------------
 */
#include "compat.h"

#include <sys/resource.h>

#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "storage/pg_shmem.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/tuplestore.h"

#include "host.h"
#include "settings.h"
#include "shared.h"

#define DOCTOR_COLUMNS 4

#define GIB ((uint64) 1 << 30)

/* A ceiling so many times the current size costs more than it should. */
#define CEILING_RATIO_LIMIT 16

typedef enum Verdict
{
	VERDICT_OK,
	VERDICT_WARN,
	VERDICT_FAIL,
} Verdict;

static const char *const verdict_names[] = {"ok", "warn", "fail"};

typedef struct Finding
{
	Verdict		verdict;
	char	   *found;
	char	   *advice;			/* NULL: there is nothing to do */
} Finding;

/* What several checks want to know, looked up once. */
typedef struct Facts
{
	const TideLayout *layout;
	struct tide_machine machine;
	struct tide_machine_memory memory;
	bool		memory_known;
	uint64		huge_page_bytes;	/* in use or asked for */
	uint64		floor_bytes;
	pid_t		worker_pid;
	bool		running;		/* an operation runs */
	uint64		allocatable_bytes;
	uint64		committed_bytes;	/* without the metadata */
	bool		committed_known;
	uint64		rest_bytes;		/* what is missing to the ceiling */
} Facts;

/* ----------------------------------------------------------------- reading */

static char *
size_text(uint64 bytes)
{
	int64		value = (int64) Min(bytes, (uint64) PG_INT64_MAX);

	return TextDatumGetCString(DirectFunctionCall1(pg_size_pretty, Int64GetDatum(value)));
}

/* The first line of a file that starts with prefix, without it. */
static bool
read_line(const char *path, const char *prefix, char *line, size_t size)
{
	FILE	   *file = AllocateFile(path, "r");
	bool		found = false;

	if (file == NULL)
		return false;
	while (!found && fgets(line, (int) size, file) != NULL)
		found = strncmp(line, prefix, strlen(prefix)) == 0;
	FreeFile(file);
	if (!found)
		return false;
	line[strcspn(line, "\n")] = '\0';
	memmove(line, line + strlen(prefix), strlen(line + strlen(prefix)) + 1);
	return true;
}

/* The number behind a prefix. */
static bool
read_number(const char *path, const char *prefix, uint64 *value)
{
	char		line[256];
	char	   *end;

	if (!read_line(path, prefix, line, sizeof(line)))
		return false;
	*value = strtoull(line, &end, 10);
	return end != line;
}

static bool
read_kilobytes(const char *path, const char *prefix, uint64 *bytes)
{
	if (!read_number(path, prefix, bytes))
		return false;
	*bytes *= 1024;
	return true;
}

static Facts
gather_facts(void)
{
	const TideLayout *layout = &tide_shared->layout;
	Facts		facts = {.layout = layout, .machine = TideMachine()};
	uint32		counts[TIDE_CHUNK_STATES];
	uint64_t	committed = 0;

	LWLockAcquire(tide_shared->lock, LW_SHARED);
	facts.floor_bytes = tide_shared->floor_bytes;
	facts.worker_pid = tide_shared->worker_pid;
	facts.running = !tide_op_state_ended(tide_shared->progress.state);
	LWLockRelease(tide_shared->lock);

	facts.huge_page_bytes = layout->region.backing == TIDE_BACKING_HUGETLB ?
		layout->region.page_bytes :
		(tide_huge_page_size_kb > 0 ? (uint64) tide_huge_page_size_kb * 1024 : (uint64) 2 << 20);
	facts.memory_known = tide_machine_memory(&facts.machine, facts.huge_page_bytes,
											 &facts.memory, NULL) == 0;
	tide_chunk_counts(tide_chunks, counts);
	facts.allocatable_bytes = counts[TIDE_CHUNK_ACTIVE] * layout->chunk_bytes;
	facts.committed_known = tide_host_audit(NULL, &committed, NULL) == 0;
	facts.committed_bytes = facts.committed_known ? committed : facts.allocatable_bytes;
	facts.rest_bytes = layout->max_bytes - Min(facts.committed_bytes, layout->max_bytes);
	return facts;
}

static void
unknown(Finding *finding, const char *what)
{
	finding->verdict = VERDICT_WARN;
	finding->found = psprintf("unknown: %s cannot be read", what);
	finding->advice = pstrdup("Let the server's user read it.");
}

/* -------------------------------------------------------------- huge pages */

/*
 * The server's segment is allocated for the ceiling.  In huge pages it
 * reserves all of them until its part with the pool has been given back.
 */
static void
check_server_huge_pages(const Facts *facts, Finding *finding)
{
	const char *setting = GetConfigOption("huge_pages", false, false);
	const char *pages = GetConfigOption("shared_memory_size_in_huge_pages", true, false);

	if (huge_pages == HUGE_PAGES_OFF)
	{
		finding->found = pstrdup("\"huge_pages\" is off: the server itself reserves no huge pages at start");
		return;
	}
	finding->verdict = VERDICT_WARN;
	finding->found = psprintf("\"huge_pages\" is %s: at start the server reserves %s huge pages for a moment, the whole ceiling included; %s",
							  setting, pages ? pages : "all its",
							  facts->layout->server_huge ?
							  "it got them, and those of the pool have been given back" :
							  "this time it got none");
	finding->advice = psprintf("Set \"huge_pages\" to off and \"tidepool.huge_pages\" to %s, and restart the server: then huge pages are needed for the pool's size only. To keep \"huge_pages\", have %s huge pages free at every start.",
							   tide_huge_pages == TIDE_HUGE_ON ? "on" : "try",
							   pages ? pages : "that many");
}

static void
check_backing(const Facts *facts, Finding *finding)
{
	const struct tide_region_info *region = &facts->layout->region;
	const char *asked = GetConfigOption("tidepool.huge_pages", false, false);

	finding->found = psprintf("\"tidepool.huge_pages\" is %s, the pool lies in pages of %s (%s)",
							  asked, size_text(region->page_bytes),
							  tide_backing_name(region->backing));
	if (!region->fell_back)
		return;
	finding->verdict = VERDICT_WARN;
	finding->found = psprintf("%s: %s", finding->found, region->fallback.message);
	finding->advice = psprintf("%s%sRestart the server after that.", region->fallback.hint,
							   region->fallback.hint[0] != '\0' ? ".  " : "");
}

/* How to let the machine give so many huge pages more. */
static char *
huge_page_advice(const Facts *facts, uint64 missing)
{
	const struct tide_machine_memory *memory = &facts->memory;
	bool		on_demand = facts->huge_page_bytes < GIB;
	const char *knob = on_demand ? "nr_overcommit_hugepages" : "nr_hugepages";
	uint64		value = (on_demand ? memory->huge_overcommit : memory->huge_total) + missing;
	uint64		usual;

	if (read_kilobytes("/proc/meminfo", "Hugepagesize:", &usual) && usual == facts->huge_page_bytes)
		return psprintf("sysctl -w vm.%s=" UINT64_FORMAT, knob, value);
	return psprintf("echo " UINT64_FORMAT " > /sys/kernel/mm/hugepages/hugepages-" UINT64_FORMAT "kB/%s",
					value, facts->huge_page_bytes / 1024, knob);
}

/* Could the pool grow to its ceiling with the huge pages that can be had? */
static void
check_huge_page_headroom(const Facts *facts, Finding *finding)
{
	const struct tide_machine_memory *memory = &facts->memory;
	bool		hugetlb = facts->layout->region.backing == TIDE_BACKING_HUGETLB;
	uint64		free_pages,
				room_pages,
				need_bytes,
				need_pages;

	if (tide_huge_pages == TIDE_HUGE_OFF)
	{
		finding->found = pstrdup("not needed: \"tidepool.huge_pages\" is off");
		return;
	}
	if (!facts->memory_known)
	{
		unknown(finding, "/proc/meminfo");
		return;
	}
	need_bytes = hugetlb ? facts->rest_bytes :
		facts->layout->max_bytes + facts->layout->meta_bytes;
	need_pages = (need_bytes + facts->huge_page_bytes - 1) / facts->huge_page_bytes;
	free_pages = memory->huge_free - Min(memory->huge_free, memory->huge_reserved);
	room_pages = memory->huge_overcommit - Min(memory->huge_overcommit, memory->huge_surplus);
	finding->found = psprintf(UINT64_FORMAT " huge pages of %s are needed %s; " UINT64_FORMAT " are free in the pool and not promised, " UINT64_FORMAT " more may be taken from the machine",
							  need_pages, size_text(facts->huge_page_bytes),
							  hugetlb ? "to grow to the ceiling" : "for the ceiling",
							  free_pages, room_pages);
	if (free_pages + room_pages >= need_pages)
		return;
	finding->verdict = VERDICT_WARN;
	finding->found = psprintf("%s: " UINT64_FORMAT " are missing", finding->found,
							  need_pages - free_pages - room_pages);
	finding->advice = huge_page_advice(facts, need_pages - free_pages - room_pages);
}

/* The word in brackets: "always [madvise] never". */
static char *
chosen_word(char *words)
{
	char	   *start = strchr(words, '[');
	char	   *end = start ? strchr(start, ']') : NULL;

	if (end == NULL)
		return words;
	*end = '\0';
	return start + 1;
}

/* The second choice, when explicit huge pages cannot be had. */
static void
check_transparent_huge_pages(const Facts *facts, Finding *finding)
{
	const char *path = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
	enum tide_backing backing = facts->layout->region.backing;
	char		words[128];
	const char *word;

	if (backing == TIDE_BACKING_HUGETLB || tide_huge_pages == TIDE_HUGE_OFF)
	{
		finding->found = psprintf("not needed: %s",
								  backing == TIDE_BACKING_HUGETLB ?
								  "the pool lies in explicit huge pages" :
								  "\"tidepool.huge_pages\" is off");
		return;
	}
	if (!read_line(path, "", words, sizeof(words)))
	{
		unknown(finding, path);
		return;
	}
	word = chosen_word(words);
	finding->found = psprintf("shared memory gets transparent huge pages: %s; the pool %s", word,
							  backing == TIDE_BACKING_THP ? "uses them" : "does not use them");
	if (backing == TIDE_BACKING_THP)
		return;
	finding->verdict = VERDICT_WARN;
	finding->advice = psprintf("%sRestart the server; explicit huge pages are better still, see huge_page_headroom.",
							   strcmp(word, "never") == 0 || strcmp(word, "deny") == 0 ?
							   psprintf("echo advise > %s.  ", path) : "");
}

/* ------------------------------------------------------------------ limits */

/* The server's own segment, which is as large as the ceiling whatever the pool's size. */
static uint64
segment_bytes(void)
{
	const char *megabytes = GetConfigOption("shared_memory_size", true, false);

	return megabytes ? strtoull(megabytes, NULL, 10) << 20 : (uint64) NBuffers * BLCKSZ;
}

static void
judge_strict_overcommit(const Facts *facts, Finding *finding)
{
	uint64		limit,
				promised,
				left;
	bool		counted = facts->layout->region.backing != TIDE_BACKING_HUGETLB;

	if (!read_kilobytes("/proc/meminfo", "CommitLimit:", &limit) ||
		!read_kilobytes("/proc/meminfo", "Committed_AS:", &promised))
	{
		unknown(finding, "/proc/meminfo");
		return;
	}
	left = limit - Min(limit, promised);
	finding->found = psprintf("vm.overcommit_memory is 2: the server's own segment of %s counts in full%s; %s of %s are left",
							  size_text(segment_bytes()),
							  counted ? ", and so does every page of the pool" : "",
							  size_text(left), size_text(limit));
	if (!counted || left >= facts->rest_bytes)
		return;
	finding->verdict = VERDICT_WARN;
	finding->advice = psprintf("The pool cannot grow to its ceiling: set vm.overcommit_memory to 1, or raise vm.overcommit_kbytes or vm.overcommit_ratio by %s.",
							   size_text(facts->rest_bytes - left));
}

static void
check_overcommit(const Facts *facts, Finding *finding)
{
	const char *path = "/proc/sys/vm/overcommit_memory";
	uint64		mode,
				swap = 0,
				machine_bytes,
				segment = segment_bytes();

	if (!read_number(path, "", &mode) || !facts->memory_known)
	{
		unknown(finding, facts->memory_known ? path : "/proc/meminfo");
		return;
	}
	if (mode == 2 && !facts->layout->server_huge)
	{
		judge_strict_overcommit(facts, finding);
		return;
	}
	(void) read_kilobytes("/proc/meminfo", "SwapTotal:", &swap);
	machine_bytes = facts->memory.mem_total + swap;
	finding->found = psprintf("vm.overcommit_memory is " UINT64_FORMAT ", the server's own segment takes %s of address space, the machine has %s of memory and swap",
							  mode, size_text(segment), size_text(machine_bytes));
	if (mode == 0 && segment > machine_bytes && !facts->layout->server_huge)
	{
		finding->verdict = VERDICT_FAIL;
		finding->advice = pstrdup("The kernel will refuse the segment at the next start: set vm.overcommit_memory to 1, or lower \"shared_buffers\".");
	}
	else if (facts->layout->max_bytes > facts->memory.mem_total)
	{
		finding->verdict = VERDICT_WARN;
		finding->advice = pstrdup("The ceiling is above the machine's memory: the pool can grow there only after memory has been added.");
	}
}

/* What of machine and cgroups stands between the pool and its ceiling, huge pages aside. */
static void
check_cgroup_limits(const Facts *facts, Finding *finding)
{
	const struct tide_region_info *region = &facts->layout->region;
	struct tide_verdict verdict;
	int			code = tide_preflight(&facts->machine, region->backing, region->page_bytes,
									  facts->rest_bytes, &verdict);

	if (!facts->memory_known)
	{
		unknown(finding, "/proc/meminfo");
		return;
	}
	if (code == TIDE_OK || code == TIDE_HUGEPAGES_SHORT)
	{
		finding->found = psprintf("the tightest memory limit is %s; to its ceiling the pool needs %s more, and no limit is in the way%s",
								  size_text(facts->memory.limit), size_text(facts->rest_bytes),
								  code == TIDE_OK ? "" : " before huge pages are short");
		return;
	}
	finding->verdict = VERDICT_WARN;
	finding->found = psprintf("growing to the ceiling: %s%s%s", verdict.reason.message,
							  verdict.limit[0] != '\0' ? "; limit: " : "", verdict.limit);
	finding->advice = pstrdup(verdict.reason.hint[0] != '\0' ? verdict.reason.hint :
							  "Raise the limit, or do not grow that far.");
}

static void
check_memlock(const Facts *facts, Finding *finding)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0)
	{
		unknown(finding, "RLIMIT_MEMLOCK");
		return;
	}
	finding->found = psprintf("RLIMIT_MEMLOCK is %s; the pool's memory is not locked and not counted against it",
							  limit.rlim_cur == RLIM_INFINITY ? "unlimited" :
							  size_text((uint64) limit.rlim_cur));
}

static void
check_address_space(const Facts *facts, Finding *finding)
{
	struct rlimit limit;
	uint64		used;

	if (getrlimit(RLIMIT_AS, &limit) != 0 ||
		!read_kilobytes("/proc/self/status", "VmSize:", &used))
	{
		unknown(finding, "RLIMIT_AS or /proc/self/status");
		return;
	}
	if (limit.rlim_cur == RLIM_INFINITY)
	{
		finding->found = psprintf("RLIMIT_AS is unlimited; this session maps %s", size_text(used));
		return;
	}
	finding->found = psprintf("RLIMIT_AS is %s; this session maps %s, pool and segment at their ceiling included",
							  size_text((uint64) limit.rlim_cur), size_text(used));

	/* so much more is mapped for a moment while the pool is placed at start */
	if (used + GIB <= (uint64) limit.rlim_cur)
		return;
	finding->verdict = VERDICT_WARN;
	finding->advice = pstrdup("Less than 1 GB is left for the session's own memory and for the next start: raise the limit (ulimit -v, LimitAS=) or lower \"shared_buffers\".");
}

/* -------------------------------------------------------------------- pool */

/* What the ceiling costs at any size. */
static void
check_ceiling_overhead(const Facts *facts, Finding *finding)
{
	const TideLayout *layout = facts->layout;
	uint64		segment = BufTableShmemSize(NBuffers + NUM_BUFFER_PARTITIONS) +
		TideSharedSize(layout->n_chunks);
	uint64		size = Max(facts->allocatable_bytes, layout->chunk_bytes);
	double		ratio = (double) layout->max_bytes / (double) size;

	finding->found = psprintf("a ceiling of %s costs %s at any size: %s beside the pool's pages, up to %s in the server's segment (lookup table); that is %.1f%% of the current %s",
							  size_text(layout->max_bytes), size_text(layout->meta_bytes + segment),
							  size_text(layout->meta_bytes), size_text(segment),
							  100.0 * (double) (layout->meta_bytes + segment) / (double) size,
							  size_text(size));
	if (ratio <= CEILING_RATIO_LIMIT)
		return;
	finding->verdict = VERDICT_WARN;
	finding->advice = psprintf("The ceiling is %.0f times the size: if the pool stays that small, lower \"shared_buffers\" at the next restart.",
							   ratio);
}

static void
check_floor(const Facts *facts, Finding *finding)
{
	const TideLayout *layout = facts->layout;

	finding->found = psprintf("the pool can be made as small as %s; %s follow from up to %d processes (\"max_connections\" is %d) and the pages that each may hold at a time%s",
							  size_text(facts->floor_bytes), size_text(layout->floor_bytes),
							  MaxBackends, MaxConnections,
							  facts->floor_bytes > layout->floor_bytes ?
							  ", the rest from \"tidepool.min_size\"" : "");
	if (facts->floor_bytes <= layout->max_bytes / 2)
		return;
	finding->verdict = VERDICT_WARN;
	finding->advice = psprintf("Little can be given back: %s.",
							   facts->floor_bytes > layout->floor_bytes ?
							   "lower \"tidepool.min_size\"" :
							   "lower \"max_connections\" or raise \"shared_buffers\"");
}

static void
check_worker(const Facts *facts, Finding *finding)
{
	if (facts->worker_pid != 0)
	{
		finding->found = psprintf("the resize worker runs as process %d", (int) facts->worker_pid);
		return;
	}
	finding->verdict = VERDICT_FAIL;
	finding->found = pstrdup("the resize worker is not running: the pool keeps its size");
	finding->advice = pstrdup("It starts again by itself within a second; if it does not, see the server log and \"max_worker_processes\".");
}

/* The size asked for by the settings against the one that the pool has. */
static void
check_tidepool_size(const Facts *facts, Finding *finding)
{
	const TideLayout *layout = facts->layout;
	uint64		wanted = TideWantedSize(facts->floor_bytes, layout->max_bytes);

	finding->found = psprintf("\"tidepool.size\" is %s, which means %s; the server started with %s, the pool has %s",
							  *tide_size_setting != '\0' ? tide_size_setting : "not set",
							  size_text(wanted), size_text(layout->start_bytes),
							  size_text(facts->allocatable_bytes));
	if (wanted > layout->max_bytes || wanted < facts->floor_bytes)
	{
		finding->verdict = VERDICT_FAIL;
		finding->advice = psprintf("The server will refuse to start with that: the size lies between %s and %s.",
								   size_text(facts->floor_bytes), size_text(layout->max_bytes));
		return;
	}
	/* sizes are rounded to chunks, down when growing and up when shrinking */
	if (facts->running ||
		(wanted < facts->allocatable_bytes + layout->chunk_bytes &&
		 facts->allocatable_bytes < wanted + layout->chunk_bytes))
		return;
	finding->verdict = VERDICT_WARN;
	finding->advice = psprintf("A restart brings back %s: to keep the current size give persist => true to tidepool.resize(), or set \"tidepool.size\".",
							   size_text(wanted));
}

/* Chunks that the kernel must back; false while some are on their way. */
static bool
expected_bytes(uint64 *bytes)
{
	uint32		counts[TIDE_CHUNK_STATES];

	tide_chunk_counts(tide_chunks, counts);
	*bytes = (counts[TIDE_CHUNK_ACTIVE] + counts[TIDE_CHUNK_LINGERING]) *
		tide_shared->layout.chunk_bytes;
	return counts[TIDE_CHUNK_ACTIVE] + counts[TIDE_CHUNK_LINGERING] +
		counts[TIDE_CHUNK_RETIRED] == tide_chunks->n_chunks;
}

/*
 * Whoever merely reads memory that was given back gets it again, zeroed.  The
 * chunks are counted before and after the kernel is asked, because a resize
 * may begin at any moment.
 */
static void
check_retired_memory(const Facts *facts, Finding *finding)
{
	uint64		before,
				after;
	uint64_t	committed = 0;
	bool		settled = expected_bytes(&before);
	int			code = tide_host_audit(NULL, &committed, NULL);

	if (!settled || !expected_bytes(&after) || before != after)
	{
		finding->found = pstrdup("not compared: a resize is under way");
		return;
	}
	if (code != 0)
	{
		unknown(finding, "what the kernel has committed for the pool");
		return;
	}
	finding->found = psprintf("the kernel backs %s, the chunks in use take %s",
							  size_text(committed), size_text(before));
	if (committed > before)
	{
		finding->verdict = VERDICT_WARN;
		finding->found = psprintf("%s: " UINT64_FORMAT " bytes that were given back have been allocated again",
								  finding->found, (uint64) committed - before);
		finding->advice = pstrdup("Something read memory of retired chunks: a debugger, or a tool that walks the pool.  The next resize gives it back.");
	}
	else if (committed < before)
	{
		finding->verdict = VERDICT_FAIL;
		finding->found = psprintf("%s: " UINT64_FORMAT " bytes in use are not backed",
								  finding->found, before - (uint64) committed);
		finding->advice = pstrdup("Something released memory of the pool from outside.  Restart the server, and see who writes to its memory.");
	}
}

/* -------------------------------------------------------------------- cost */

/* Pages of the pool on each node, as far as this process has seen them. */
typedef struct NodePages
{
	int			nodes;			/* with any page */
	uint64		least,
				most;			/* pages on one of these nodes */
	char	   *text;
} NodePages;

static bool
count_node_pages(const void *base, NodePages *pages)
{
	char		prefix[32];
	char		line[4096];
	char	   *rest = NULL;
	StringInfoData text;

	snprintf(prefix, sizeof(prefix), "%lx ", (unsigned long) (uintptr_t) base);
	if (!read_line("/proc/self/numa_maps", prefix, line, sizeof(line)))
		return false;
	*pages = (NodePages) {.least = PG_UINT64_MAX};
	initStringInfo(&text);
	for (char *word = strtok_r(line, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
	{
		unsigned	node;
		unsigned long long n;

		if (sscanf(word, "N%u=%llu", &node, &n) != 2)
			continue;
		appendStringInfo(&text, "%snode %u: %llu", pages->nodes > 0 ? ", " : "", node, n);
		pages->nodes++;
		pages->least = Min(pages->least, n);
		pages->most = Max(pages->most, n);
	}
	pages->text = text.data;
	return true;
}

static void
check_numa(const Facts *facts, Finding *finding)
{
	char		nodes[256];
	NodePages	pages;

	/* a kernel without NUMA has no such file */
	if (!read_line("/sys/devices/system/node/has_memory", "", nodes, sizeof(nodes)) ||
		strpbrk(nodes, ",-") == NULL)
	{
		finding->found = pstrdup("one node");
		return;
	}
	if (!count_node_pages(facts->layout->region.base, &pages))
	{
		unknown(finding, "/proc/self/numa_maps");
		return;
	}
	finding->found = psprintf("nodes with memory: %s; placement: %s; pages that this session has seen: %s",
							  nodes, facts->layout->numa, pages.nodes > 0 ? pages.text : "none");
	if (TideNumaSetting().mode != TIDE_NUMA_INTERLEAVE || pages.nodes < 2 ||
		pages.most <= 2 * pages.least)
		return;
	finding->verdict = VERDICT_WARN;
	finding->advice = pstrdup("A node was short of pages when the pool was committed: see free_hugepages of each node in /sys/devices/system/node, then shrink and grow again.");
}

/* Page tables of a session: 4 kB for each 2 MB touched in 4 kB pages. */
static void
check_page_tables(const Facts *facts, Finding *finding)
{
	uint64		mine,
				with_small_pages = facts->allocatable_bytes / 512,
				all = with_small_pages * (uint64) MaxConnections;

	if (!read_kilobytes("/proc/self/status", "VmPTE:", &mine))
	{
		unknown(finding, "/proc/self/status");
		return;
	}
	if (facts->layout->region.backing != TIDE_BACKING_BASE)
	{
		finding->found = psprintf("%s in this session; with 4 kB pages a session that has touched the whole pool would have %s more",
								  size_text(mine), size_text(with_small_pages));
		return;
	}
	finding->found = psprintf("%s in this session; one that has touched the whole pool has %s, %d of them %s",
							  size_text(mine), size_text(with_small_pages), MaxConnections,
							  size_text(all));
	if (all <= facts->allocatable_bytes / 10)
		return;
	finding->verdict = VERDICT_WARN;
	finding->advice = pstrdup("With all connections in use page tables take more than a tenth of the pool's size: use huge pages, see backing and huge_page_headroom.");
}

static void
check_double_buffering(const Facts *facts, Finding *finding)
{
	const char *direct = GetConfigOption("debug_io_direct", true, false);
	uint64		cached,
				shared;

	if (direct != NULL && strstr(direct, "data") != NULL)
	{
		finding->found = psprintf("\"debug_io_direct\" is %s: the kernel keeps no second copy of data pages", direct);
		return;
	}
	if (!read_kilobytes("/proc/meminfo", "Cached:", &cached) ||
		!read_kilobytes("/proc/meminfo", "Shmem:", &shared))
	{
		unknown(finding, "/proc/meminfo");
		return;
	}
	cached -= Min(cached, shared);
	finding->found = psprintf("data pages are read through the kernel's page cache, which holds %s of files now: up to %s may be second copies of pages in the pool; %s",
							  size_text(cached), size_text(Min(cached, facts->allocatable_bytes)),
							  direct != NULL ?
							  "\"debug_io_direct\" = data does without them, for trials" :
							  "this version of the server knows no direct I/O");
}

/* --------------------------------------------------------------------- SQL */

static const struct
{
	const char *name;
	void		(*look) (const Facts *facts, Finding *finding);
}			checks[] = {
	{"server_huge_pages", check_server_huge_pages},
	{"backing", check_backing},
	{"huge_page_headroom", check_huge_page_headroom},
	{"transparent_huge_pages", check_transparent_huge_pages},
	{"overcommit", check_overcommit},
	{"cgroup_limits", check_cgroup_limits},
	{"memlock", check_memlock},
	{"address_space", check_address_space},
	{"ceiling_overhead", check_ceiling_overhead},
	{"floor", check_floor},
	{"worker", check_worker},
	{"tidepool_size", check_tidepool_size},
	{"retired_memory", check_retired_memory},
	{"numa", check_numa},
	{"page_tables", check_page_tables},
	{"double_buffering", check_double_buffering},
};

/* Paths of the machine may hold bytes that the database's encoding does not allow. */
static Datum
ascii_text(char *text)
{
	for (char *at = text; *at != '\0'; at++)
		if (IS_HIGHBIT_SET(*at))
			*at = '?';
	return CStringGetTextDatum(text);
}

PG_FUNCTION_INFO_V1(tidepool_doctor);
Datum
tidepool_doctor(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Facts		facts;

	TideCheckActive();
	InitMaterializedSRF(fcinfo, 0);
	if (rsinfo->setDesc->natts != DOCTOR_COLUMNS)
		elog(ERROR, "tidepool.doctor() is declared with other columns than this library returns");

	facts = gather_facts();
	for (size_t i = 0; i < lengthof(checks); i++)
	{
		Finding		finding = {0};
		Datum		values[DOCTOR_COLUMNS];
		bool		nulls[DOCTOR_COLUMNS] = {0};

		checks[i].look(&facts, &finding);
		values[0] = CStringGetTextDatum(checks[i].name);
		values[1] = CStringGetTextDatum(verdict_names[finding.verdict]);
		values[2] = ascii_text(finding.found);
		nulls[3] = finding.advice == NULL;
		values[3] = nulls[3] ? (Datum) 0 : ascii_text(finding.advice);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
