/* SPDX-License-Identifier: PostgreSQL */
/*
 * commit.c - back ranges of a region with memory and give it back.
 *
 * 1. All or nothing: when a page cannot be had, every range of the call is punched, so that the
 *    committed size is what it was. The ranges held nothing before; that is the caller's promise.
 * 2. Nothing here touches a page by a load or store, so nothing can raise SIGBUS.
 * 3. Every call to the kernel is bounded by a piece, and resumed when a signal cut it short.
 * 4. Giving back needs no memory.
 */
#include <tidepool/region.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "memory/fact.h"
#include "memory/numa.h"
#include "memory/prim.h"
#include "memory/range.h"
#include "memory/region.h"

/* Bounds of one system call: a few milliseconds with huge pages. */
#define PIECE_MIN_BYTES (4ull << 20)
#define PIECE_MAX_BYTES (32ull << 20)
#define THREADS_MAX 64
/* Calls in a row that brought nothing before we call it an error. */
#define RETRIES_MAX 10000

/* Why a call to the kernel failed; @error 0 = it did not. */
struct failure {
	int error;
	const char *call;
};

/* One commit, shared by the threads that work on it. */
struct commit {
	const struct tide_region *region;
	uint64_t piece_bytes;
	pthread_mutex_t lock; /* guards @walk and @failure */
	struct tide_range_walk walk;
	struct failure failure;	    /* the first one; it ends the walk */
	atomic_int cannot_populate; /* the kernel is older than MADV_POPULATE_WRITE */
};

static int interrupted(int rc)
{
	return rc == -EINTR || rc == -EAGAIN;
}

/* One call on one step of a piece; 0 or -errno. */
static int back_step(struct commit *commit, uint64_t offset, uint64_t bytes, const char **call)
{
	const struct tide_region *region = commit->region;
	int rc;

	/* Relaxed: only a hint that spares a call; whoever misses it learns the same by itself. */
	if (!atomic_load_explicit(&commit->cannot_populate, memory_order_relaxed)) {
		*call = "madvise(MADV_POPULATE_WRITE)";
		rc = tide_prim_advise((char *)region->info.base + offset, bytes,
				      MADV_POPULATE_WRITE);
		if (rc != -EINVAL)
			return rc;
		atomic_store_explicit(&commit->cannot_populate, 1, memory_order_relaxed);
	}
	*call = "fallocate";
	return tide_numa_fallocate(&region->numa, region->fd, offset, bytes);
}

/*
 * Back one piece. An interrupted fallocate on shmem undoes what it did, so under a storm of signals
 * only steps that are shorter than the time between two of them get anywhere: halve them.
 */
static struct failure back_piece(struct commit *commit, struct tide_range piece)
{
	const uint64_t page_bytes = commit->region->info.page_bytes;
	struct failure failure = {0, ""};
	uint64_t step = piece.bytes;
	unsigned retries = 0;

	while (piece.bytes > 0) {
		uint64_t bytes = step < piece.bytes ? step : piece.bytes;
		int rc = back_step(commit, piece.offset, bytes, &failure.call);

		if (rc == 0) {
			piece.offset += bytes;
			piece.bytes -= bytes;
			retries = 0;
		} else if (interrupted(rc) && retries++ < RETRIES_MAX) {
			step = step / 2 / page_bytes * page_bytes;
			if (step < page_bytes)
				step = page_bytes;
		} else {
			failure.error = -rc;
			return failure;
		}
	}
	return failure;
}

/* The loop of every thread: take the next piece until none is left or one failed. */
static void *commit_run(void *argument)
{
	struct commit *commit = argument;
	struct failure failure = {0, ""};
	struct tide_range piece;
	int more;

	for (;;) {
		pthread_mutex_lock(&commit->lock);
		if (failure.error != 0 && commit->failure.error == 0)
			commit->failure = failure;
		more = commit->failure.error == 0 &&
		       tide_range_next(&commit->walk, commit->piece_bytes, &piece);
		pthread_mutex_unlock(&commit->lock);
		if (!more)
			return NULL;
		failure = back_piece(commit, piece);
	}
}

/* Pieces small enough that threads end together, large enough that the calls do not count. */
static uint64_t piece_bytes(const struct tide_region *region, uint64_t total, unsigned n_threads)
{
	const uint64_t page_bytes = region->info.page_bytes;
	uint64_t bytes = total / n_threads / 4;

	if (bytes < PIECE_MIN_BYTES)
		bytes = PIECE_MIN_BYTES;
	if (bytes > PIECE_MAX_BYTES)
		bytes = PIECE_MAX_BYTES;
	bytes = bytes / page_bytes * page_bytes;
	return bytes ? bytes : page_bytes;
}

static struct failure commit_all(struct commit *commit, uint64_t total)
{
	unsigned n_wanted = commit->region->commit_threads;
	uint64_t n_pieces;
	pthread_t helper[THREADS_MAX];
	unsigned n_helpers = 0;

	if (n_wanted < 1)
		n_wanted = 1;
	if (n_wanted > THREADS_MAX)
		n_wanted = THREADS_MAX;
	commit->piece_bytes = piece_bytes(commit->region, total, n_wanted);
	n_pieces = (total + commit->piece_bytes - 1) / commit->piece_bytes;
	/* A thread that cannot be had only makes it slower. */
	while (n_helpers + 1 < n_wanted && n_helpers + 1 < n_pieces &&
	       tide_prim_thread(&helper[n_helpers], commit_run, commit) == 0)
		n_helpers++;
	commit_run(commit);
	for (unsigned i = 0; i < n_helpers; i++)
		pthread_join(helper[i], NULL);
	return commit->failure;
}

/* Give ranges back, going on after a failure; the first one is returned. */
static struct failure punch_all(const struct tide_region *region, const struct tide_range *ranges,
				size_t n_ranges, int go_on)
{
	struct tide_range_walk walk = tide_range_walk(ranges, n_ranges);
	struct failure failure = {0, "fallocate(FALLOC_FL_PUNCH_HOLE)"};
	struct tide_range piece;

	while (tide_range_next(&walk, UINT64_MAX, &piece)) {
		unsigned retries = 0;
		int rc;

		do {
			rc = tide_prim_fallocate(region->fd,
						 FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
						 piece.offset, piece.bytes);
		} while (interrupted(rc) && retries++ < RETRIES_MAX);
		if (rc != 0 && failure.error == 0)
			failure.error = -rc;
		if (rc != 0 && !go_on)
			break;
	}
	return failure;
}

/* The kernel had no page although nothing that can be looked at is short. */
static int explain_unknown(const struct tide_region *region, struct failure failure, uint64_t total,
			   uint64_t got, struct tide_reason *why)
{
	const enum tide_backing backing = region->info.backing;
	const uint64_t page_bytes = region->info.page_bytes;
	const int no_memory = failure.error == ENOMEM || failure.error == ENOSPC;
	int code;

	if (backing == TIDE_BACKING_HUGETLB && (no_memory || failure.error == EFAULT)) {
		code = tide_reason_set(why, TIDE_HUGEPAGES_SHORT, failure.error,
				       "%" PRIu64
				       " huge pages of %s were asked for, the kernel gave %" PRIu64
				       " although more looked obtainable; %s",
				       total / page_bytes, tide_fact_size(page_bytes).text,
				       got / page_bytes, failure.call);
		tide_reason_hint(
			why, "somebody else took them meanwhile, or memory is too fragmented "
			     "for surplus pages: try again, or reserve them in vm.nr_hugepages");
	} else if (no_memory) {
		code = tide_reason_set(why, TIDE_NOT_ENOUGH_MEMORY, failure.error,
				       "%s were asked for, the kernel gave %s; %s",
				       tide_fact_size(total).text, tide_fact_size(got).text,
				       failure.call);
		tide_reason_hint(why, "somebody else took the memory meanwhile: try again");
	} else {
		code = tide_reason_set(why, TIDE_SYSTEM_ERROR, failure.error,
				       "%s of %s failed after %s", failure.call,
				       tide_fact_size(total).text, tide_fact_size(got).text);
	}
	tide_reason_bytes(why, total, got);
	return code;
}

/* Do the nodes that pages are bound to have too little? */
static int explain_nodes(const struct tide_region *region, uint64_t total, struct tide_reason *why)
{
	const struct tide_region_info *info = &region->info;
	const int huge = info->backing == TIDE_BACKING_HUGETLB;
	const uint64_t left =
		tide_numa_left(&region->numa, &region->machine, info->backing, info->page_bytes);
	int code;

	if (left >= total)
		return TIDE_OK;
	code = tide_reason_set(why, huge ? TIDE_HUGEPAGES_SHORT : TIDE_NOT_ENOUGH_MEMORY, 0,
			       "%s were asked for on NUMA nodes \"%s\", which have %s%s free",
			       tide_fact_size(total).text, region->numa.nodes,
			       tide_fact_size(left).text, huge ? " of huge pages" : "");
	tide_reason_hint(why, huge ? "raise nr_hugepages of those nodes, or bind to more nodes"
				   : "free memory on those nodes, or bind to more nodes");
	tide_reason_bytes(why, total, left);
	return code;
}

/* What can be looked at and is short; 0 = nothing. */
static int explain_shortage(const struct tide_region *region, uint64_t total,
			    struct tide_reason *why)
{
	const struct tide_region_info *info = &region->info;
	const uint64_t room = tide_region_room(region);
	struct tide_verdict verdict;
	int code;

	if (room < total) {
		code = tide_reason_set(
			why,
			info->backing == TIDE_BACKING_HUGETLB ? TIDE_HUGEPAGES_SHORT
							      : TIDE_NOT_ENOUGH_MEMORY,
			0, "%s were asked for, the file system of the region has %s left",
			tide_fact_size(total).text, tide_fact_size(room).text);
		tide_reason_hint(why, "mount it with a larger size");
		tide_reason_bytes(why, total, room);
		return code;
	}
	if (tide_preflight(&region->machine, info->backing, info->page_bytes, total, &verdict) !=
	    0) {
		if (why)
			*why = verdict.reason;
		return verdict.reason.code;
	}
	return explain_nodes(region, total, why);
}

/* After everything was given back: what was short, exactly? */
static int explain(const struct tide_region *region, struct failure failure, uint64_t total,
		   uint64_t got, struct tide_reason *why)
{
	int code = TIDE_OK;

	if (failure.error == ENOMEM || failure.error == ENOSPC || failure.error == EFAULT)
		code = explain_shortage(region, total, why);
	if (code == TIDE_OK)
		return explain_unknown(region, failure, total, got, why);
	if (why)
		why->sys_errno = failure.error;
	return code;
}

int tide_region_commit(struct tide_region *region, const struct tide_range *ranges, size_t n_ranges,
		       struct tide_reason *why)
{
	struct commit commit = {
		.region = region,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.walk = tide_range_walk(ranges, n_ranges),
	};
	uint64_t before = 0, reached = 0, total;
	struct failure failure, undo;
	int code;

	if (!region)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0, "no region was given");
	code = tide_range_check(ranges, n_ranges, region->info.page_bytes, region->info.max_bytes,
				why);
	if (code == TIDE_OK)
		code = tide_region_audit(region, &before, why);
	if (code != TIDE_OK)
		return code;
	total = tide_range_total(ranges, n_ranges);
	/*
	 * Want of huge pages on a node is an error of the call. Want of memory on the only nodes
	 * that are allowed makes the kernel kill processes, so that is looked at before.
	 */
	if (region->info.backing != TIDE_BACKING_HUGETLB)
		code = explain_nodes(region, total, why);
	if (code != TIDE_OK)
		return code;
	failure = commit_all(&commit, total);
	if (failure.error == 0)
		return TIDE_OK;

	if (tide_region_audit(region, &reached, NULL) != TIDE_OK || reached < before)
		reached = before;
	undo = punch_all(region, ranges, n_ranges, 1);
	if (undo.error != 0)
		return tide_reason_set(
			why, TIDE_SYSTEM_ERROR, undo.error,
			"%s failed after %s (errno %d), and what was got could not be "
			"given back; %s",
			failure.call, tide_fact_size(reached - before).text, failure.error,
			undo.call);
	return explain(region, failure, total, reached - before, why);
}

int tide_region_decommit(struct tide_region *region, const struct tide_range *ranges,
			 size_t n_ranges, struct tide_reason *why)
{
	struct failure failure;
	int code;

	if (!region)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0, "no region was given");
	code = tide_range_check(ranges, n_ranges, region->info.page_bytes, region->info.max_bytes,
				why);
	if (code != TIDE_OK)
		return code;
	failure = punch_all(region, ranges, n_ranges, 0);
	if (failure.error != 0)
		return tide_reason_set(why, TIDE_SYSTEM_ERROR, failure.error,
				       "memory could not be given back; %s", failure.call);
	return TIDE_OK;
}

int tide_region_audit(const struct tide_region *region, uint64_t *committed_bytes,
		      struct tide_reason *why)
{
	struct stat status;
	int rc;

	if (!region || !committed_bytes)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "no region or no place for the answer");
	rc = tide_prim_stat(region->fd, &status);
	if (rc != 0)
		return tide_reason_set(why, TIDE_SYSTEM_ERROR, -rc, "fstat of the region failed");
	*committed_bytes = (uint64_t)status.st_blocks * 512;
	return TIDE_OK;
}
