/*-------------------------------------------------------------------------
 *
 * segment.c
 *	  The server's own shared memory segment, as far as arrays leave it.
 *
 * Three things happen to the place of an array that has moved:
 *	1. Its pages are given back.
 *	2. Private read-only zero memory is mapped over it, so that reading it
 *	   costs nothing (and is not accounted, whatever vm.overcommit_memory is).
 *	3. The server's index of shared memory lists it with size 0: what
 *	   pg_shmem_allocations shows is then true, and pg_shmem_allocations_numa,
 *	   which asks for the node of every page listed, is not told that zero
 *	   memory has none.  The place counts as <anonymous> from then on.
 *
 * The server keeps its handles of segment and index to itself.  The segment
 * begins with a public header, which says where the index lies; a shared hash
 * table can be attached to by address, as a process that was not forked would.
 *
 *-------------------------------------------------------------------------
 */
#include "segment.h"

#include <sys/mman.h>
#include <unistd.h>

#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/hsearch.h"

#define HUGE_PAGE ((Size) 2 << 20)

/* Bytes of huge pages touched at a time, so that little memory is needed. */
#define TOUCH_STEP (32 * HUGE_PAGE)

TideSegment
TideSegmentFind(const void *address)
{
	TideSegment segment = {NULL, false};
	FILE	   *smaps = fopen("/proc/self/smaps", "r");
	char		line[512];

	if (smaps == NULL)
		return segment;
	while (fgets(line, sizeof(line), smaps) != NULL)
	{
		unsigned long start,
					end;

		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			segment.header = (uintptr_t) address >= start && (uintptr_t) address < end ?
				(PGShmemHeader *) start : NULL;
		else if (segment.header != NULL && strncmp(line, "VmFlags:", strlen("VmFlags:")) == 0)
		{
			segment.huge = strstr(line, " ht") != NULL;
			break;
		}
	}
	fclose(smaps);
	if (segment.header != NULL && segment.header->magic != PGShmemMagic)
		segment.header = NULL;
	return segment;
}

static void
forget_in_index(const TideSegment *segment, const char *name)
{
	HASHCTL		info = {
		.keysize = SHMEM_INDEX_KEYSIZE,
		.entrysize = sizeof(ShmemIndexEnt),
		.hctl = (HASHHDR *) segment->header->index,
		.alloc = ShmemAllocNoError,
	};
	HTAB	   *index = hash_create("ShmemIndex", SHMEM_INDEX_SIZE, &info,
									HASH_ELEM | HASH_STRINGS | HASH_SHARED_MEM | HASH_ATTACH | HASH_ALLOC);
	ShmemIndexEnt *entry;

	LWLockAcquire(ShmemIndexLock, LW_EXCLUSIVE);
	entry = hash_search(index, name, HASH_FIND, NULL);
	if (entry != NULL)
	{
		entry->size = 0;
		entry->allocated_size = 0;
	}
	LWLockRelease(ShmemIndexLock);
}

/*
 * A segment in huge pages reserved them all when it was mapped, and a
 * reservation is only released by touching its page and punching it.
 */
static void
release_pages(bool huge, char *start, char *end)
{
	Size		step = huge ? TOUCH_STEP : (Size) (end - start);

	for (char *at = start; at < end; at += step)
	{
		Size		length = Min(step, (Size) (end - at));

		if (huge)
			(void) madvise(at, length, MADV_POPULATE_WRITE);
		if (madvise(at, length, MADV_REMOVE) != 0)
			ereport(LOG,
					(errmsg("could not release the server's own buffer memory: %m"),
					 errdetail("%zu bytes stay allocated and unused.", length)));
	}
}

void
TideSegmentAbandon(const TideSegment *segment, const char *name, void *start, Size bytes)
{
	Size		page = segment->huge ? HUGE_PAGE : (Size) sysconf(_SC_PAGESIZE);
	char	   *first = (char *) TYPEALIGN(page, (uintptr_t) start);
	char	   *end = (char *) TYPEALIGN_DOWN(page, (uintptr_t) start + bytes);

	if (segment->header != NULL)
		forget_in_index(segment, name);
	if (end <= first)
		return;
	release_pages(segment->huge, first, end);
	if (mmap(first, end - first, PROT_READ,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
		ereport(LOG,
				(errmsg("could not cover the server's own buffer memory: %m")));
}
