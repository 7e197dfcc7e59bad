/* SPDX-License-Identifier: PostgreSQL */
/* preflight.c - could so many bytes more be committed? Looks, touches no page. */
#include <tidepool/region.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "memory/cgroup.h"
#include "memory/fact.h"
#include "memory/hugepool.h"
#include "memory/meminfo.h"

/* What is known of the machine at this moment, and the tightest bound found so far. */
struct survey {
	const struct tide_machine *machine;
	uint64_t page_bytes;
	uint64_t want_pages;
	struct tide_meminfo meminfo;
	struct tide_hugepool pool;
	struct tide_cgroup_bound cgroup; /* the one that set @have_pages, if a cgroup did */
	enum bound {
		BOUND_NONE,
		BOUND_POOL,
		BOUND_AVAILABLE,
		BOUND_COMMIT,
		BOUND_MEMORY_CGROUP,
		BOUND_HUGETLB_CGROUP,
	} bound;
	uint64_t have_pages;
};

static void survey_bound(struct survey *survey, enum bound bound, uint64_t pages)
{
	if (pages >= survey->have_pages)
		return;
	survey->have_pages = pages;
	survey->bound = bound;
}

static void survey_cgroup(struct survey *survey, enum bound bound, enum tide_cgroup_meter meter)
{
	struct tide_cgroup_bound found;

	tide_cgroup_read(survey->machine, meter, survey->page_bytes, &found);
	if (found.headroom_bytes == UINT64_MAX ||
	    found.headroom_bytes / survey->page_bytes >= survey->have_pages)
		return;
	survey->cgroup = found;
	survey_bound(survey, bound, found.headroom_bytes / survey->page_bytes);
}

/* The pool gives what is free and not promised, the machine the rest as surplus pages. */
static void survey_hugetlb(struct survey *survey)
{
	const uint64_t pool_pages = tide_hugepool_unreserved(&survey->pool);
	const uint64_t room_pages = tide_hugepool_surplus_room(&survey->pool);
	const uint64_t available = survey->meminfo.available;

	survey_bound(survey, BOUND_POOL, pool_pages + room_pages);
	if (available != UINT64_MAX)
		survey_bound(survey, BOUND_AVAILABLE, pool_pages + available / survey->page_bytes);
	survey_cgroup(survey, BOUND_HUGETLB_CGROUP, TIDE_CGROUP_HUGETLB);
	survey_cgroup(survey, BOUND_HUGETLB_CGROUP, TIDE_CGROUP_HUGETLB_RSVD);
	if (tide_cgroup_counts_hugetlb(survey->machine))
		survey_cgroup(survey, BOUND_MEMORY_CGROUP, TIDE_CGROUP_MEMORY);
}

static void survey_shmem(struct survey *survey)
{
	if (survey->meminfo.available != UINT64_MAX)
		survey_bound(survey, BOUND_AVAILABLE,
			     survey->meminfo.available / survey->page_bytes);
	if (survey->meminfo.commit_left != UINT64_MAX)
		survey_bound(survey, BOUND_COMMIT,
			     survey->meminfo.commit_left / survey->page_bytes);
	survey_cgroup(survey, BOUND_MEMORY_CGROUP, TIDE_CGROUP_MEMORY);
}

/* Which number to set, and to what. */
static void hint_pool(const struct survey *survey, struct tide_reason *why)
{
	const uint64_t more = survey->want_pages - survey->have_pages;
	char path[TIDE_FACT_PATH_BYTES];

	if (survey->page_bytes >= 1u << 30) {
		/* Pages this large cannot be taken from the machine on demand. */
		if (tide_hugepool_path(path, survey->machine, survey->page_bytes, "nr_hugepages") ==
		    0)
			tide_reason_hint(
				why,
				"%" PRIu64 " more pages are needed: echo %" PRIu64 " > %s, best "
				"right after boot (hugepagesz=1G hugepages=%" PRIu64 ")",
				more, survey->pool.total + more, path, survey->pool.total + more);
	} else if (survey->page_bytes == survey->meminfo.huge_page_bytes) {
		tide_reason_hint(
			why,
			"vm.nr_overcommit_hugepages is %" PRIu64 ", %" PRIu64
			" more pages are needed: sysctl -w vm.nr_overcommit_hugepages=%" PRIu64,
			survey->pool.overcommit, more, survey->pool.overcommit + more);
	} else if (tide_hugepool_path(path, survey->machine, survey->page_bytes,
				      "nr_overcommit_hugepages") == 0) {
		tide_reason_hint(why, "%" PRIu64 " more pages are needed: echo %" PRIu64 " > %s",
				 more, survey->pool.overcommit + more, path);
	}
}

static void explain_pool(const struct survey *survey, struct tide_reason *why)
{
	const struct tide_hugepool *pool = &survey->pool;

	tide_reason_set(why, TIDE_HUGEPAGES_SHORT, 0,
			"%" PRIu64 " huge pages of %s are needed, %" PRIu64 " can be had: %" PRIu64
			" free in the pool (%" PRIu64 " of them promised to others), %" PRIu64
			" more by overcommit",
			survey->want_pages, tide_fact_size(survey->page_bytes).text,
			survey->have_pages, pool->free, pool->reserved,
			tide_hugepool_surplus_room(pool));
	hint_pool(survey, why);
}

static void explain_memory(const struct survey *survey, enum tide_backing backing,
			   uint64_t short_bytes, struct tide_reason *why)
{
	const uint64_t want_bytes = survey->want_pages * survey->page_bytes;
	const struct tide_fact_size want = tide_fact_size(want_bytes);

	if (survey->bound == BOUND_COMMIT) {
		tide_reason_set(why, TIDE_NOT_ENOUGH_MEMORY, 0,
				"%s are needed, strict overcommit accounting leaves %s", want.text,
				tide_fact_size(survey->meminfo.commit_left).text);
		tide_reason_hint(why,
				 "raise vm.overcommit_ratio or vm.overcommit_kbytes by %s, or set "
				 "vm.overcommit_memory=0",
				 tide_fact_size(short_bytes).text);
		return;
	}
	tide_reason_set(why, TIDE_NOT_ENOUGH_MEMORY, 0,
			"%s are needed, %s can be had: the machine has %s available%s", want.text,
			tide_fact_size(survey->have_pages * survey->page_bytes).text,
			tide_fact_size(survey->meminfo.available).text,
			backing == TIDE_BACKING_HUGETLB ? " beside the huge pages free in the pool"
							: "");
	tide_reason_hint(why, "%s more are needed: free memory, add memory or ask for less",
			 tide_fact_size(short_bytes).text);
}

static void explain_cgroup(const struct survey *survey, uint64_t short_bytes,
			   struct tide_reason *why)
{
	const struct tide_cgroup_bound *cgroup = &survey->cgroup;
	const int code = survey->bound == BOUND_HUGETLB_CGROUP ? TIDE_HUGEPAGE_CGROUP_LIMIT
							       : TIDE_NOT_ENOUGH_MEMORY;

	tide_reason_set(why, code, 0, "%s are needed, %s is %s and leaves %s",
			tide_fact_size(survey->want_pages * survey->page_bytes).text, cgroup->file,
			tide_fact_size(cgroup->tightest_limit_bytes).text,
			tide_fact_size(cgroup->headroom_bytes).text);
	tide_reason_hint(why, "raise that limit by %s, to %" PRIu64,
			 tide_fact_size(short_bytes).text,
			 cgroup->tightest_limit_bytes + short_bytes);
}

/* The file that holds the tightest limit. */
static void name_limit(const struct survey *survey, struct tide_verdict *verdict)
{
	const struct tide_machine roots = tide_fact_roots(survey->machine);
	char path[TIDE_FACT_PATH_BYTES] = "";

	switch (survey->bound) {
	case BOUND_POOL:
		(void)tide_hugepool_path(path, survey->machine, survey->page_bytes,
					 survey->page_bytes >= 1u << 30
						 ? "nr_hugepages"
						 : "nr_overcommit_hugepages");
		break;
	case BOUND_AVAILABLE:
	case BOUND_COMMIT:
		(void)tide_fact_path(path, "%s/meminfo", roots.proc_root);
		break;
	case BOUND_MEMORY_CGROUP:
	case BOUND_HUGETLB_CGROUP:
		(void)tide_fact_path(path, "%s", survey->cgroup.file);
		break;
	case BOUND_NONE:
		break;
	}
	snprintf(verdict->limit, sizeof(verdict->limit), "%.255s", path);
}

static int conclude(const struct survey *survey, enum tide_backing backing,
		    struct tide_verdict *verdict)
{
	const uint64_t page_bytes = survey->page_bytes;
	struct tide_reason *why = &verdict->reason;

	verdict->want_pages = survey->want_pages;
	verdict->have_pages = survey->have_pages;
	verdict->have_bytes = survey->have_pages > UINT64_MAX / page_bytes
				      ? UINT64_MAX
				      : survey->have_pages * page_bytes;
	if (survey->have_pages >= survey->want_pages) {
		verdict->fits = 1;
		return TIDE_OK;
	}
	verdict->short_pages = survey->want_pages - survey->have_pages;
	verdict->short_bytes = verdict->short_pages * page_bytes;
	name_limit(survey, verdict);
	if (survey->bound == BOUND_POOL)
		explain_pool(survey, why);
	else if (survey->bound == BOUND_AVAILABLE || survey->bound == BOUND_COMMIT)
		explain_memory(survey, backing, verdict->short_bytes, why);
	else
		explain_cgroup(survey, verdict->short_bytes, why);
	tide_reason_bytes(why, survey->want_pages * page_bytes, verdict->have_bytes);
	return why->code;
}

int tide_preflight(const struct tide_machine *machine, enum tide_backing backing,
		   uint64_t page_bytes, uint64_t bytes, struct tide_verdict *verdict)
{
	struct survey survey = {
		.machine = machine, .page_bytes = page_bytes, .have_pages = UINT64_MAX};
	struct tide_reason *why;
	uint64_t pool_pages;

	if (!verdict)
		return TIDE_BAD_REQUEST;
	*verdict = (struct tide_verdict){.want_bytes = bytes};
	why = &verdict->reason;
	if (page_bytes == 0 || (page_bytes & (page_bytes - 1)) != 0 || bytes > INT64_MAX ||
	    (backing != TIDE_BACKING_BASE && backing != TIDE_BACKING_THP &&
	     backing != TIDE_BACKING_HUGETLB))
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "no such backing, a page size of %" PRIu64
				       " or a size of %" PRIu64 " bytes make no sense",
				       page_bytes, bytes);
	survey.want_pages = bytes / page_bytes + (bytes % page_bytes != 0);
	(void)tide_meminfo_read(machine, &survey.meminfo);
	if (backing != TIDE_BACKING_HUGETLB) {
		survey_shmem(&survey);
		return conclude(&survey, backing, verdict);
	}
	if (tide_hugepool_read(machine, page_bytes, &survey.pool) != 0) {
		tide_reason_set(why, TIDE_HUGEPAGES_UNAVAILABLE, 0,
				"this kernel has no huge pages of %s",
				tide_fact_size(page_bytes).text);
		tide_reason_hint(why, "use another size of huge pages or none");
		verdict->want_pages = verdict->short_pages = survey.want_pages;
		verdict->short_bytes = bytes;
		tide_reason_bytes(why, bytes, 0);
		return TIDE_HUGEPAGES_UNAVAILABLE;
	}
	survey_hugetlb(&survey);
	pool_pages = tide_hugepool_unreserved(&survey.pool);
	verdict->pool_bytes = pool_pages >= survey.want_pages ? bytes : pool_pages * page_bytes;
	return conclude(&survey, backing, verdict);
}

int tide_machine_memory(const struct tide_machine *machine, uint64_t huge_page_bytes,
			struct tide_machine_memory *out, struct tide_reason *why)
{
	struct tide_cgroup_bound cgroup;
	struct tide_hugepool pool;
	struct tide_meminfo meminfo;
	int rc;

	if (!out)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0, "no place for the answer");
	rc = tide_meminfo_read(machine, &meminfo);
	if (rc == 0 && (meminfo.total == UINT64_MAX || meminfo.available == UINT64_MAX))
		rc = -ENODATA;
	if (rc != 0)
		return tide_reason_set(why, TIDE_SYSTEM_ERROR, -rc, "%s/meminfo cannot be read",
				       tide_fact_roots(machine).proc_root);
	tide_cgroup_read(machine, TIDE_CGROUP_MEMORY, huge_page_bytes, &cgroup);
	if (huge_page_bytes == 0 || tide_hugepool_read(machine, huge_page_bytes, &pool) != 0)
		pool = (struct tide_hugepool){0};
	*out = (struct tide_machine_memory){
		.mem_total = meminfo.total,
		.mem_available = meminfo.available,
		.limit = cgroup.limit_bytes < meminfo.total ? cgroup.limit_bytes : meminfo.total,
		.huge_page_bytes = huge_page_bytes,
		.huge_total = pool.total,
		.huge_free = pool.free,
		.huge_reserved = pool.reserved,
		.huge_surplus = pool.surplus,
		.huge_overcommit = pool.overcommit,
	};
	return TIDE_OK;
}
