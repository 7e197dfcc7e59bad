/*-------------------------------------------------------------------------
 *
 * arrays.c
 *	  Moves the server's buffer arrays into a region of ours.
 *
 * The server has just allocated and initialised its arrays in its own shared
 * memory segment and found them through exported pointers.  Before the first
 * child exists the pointers are set to our region: all children inherit
 * mapping and pointers.  Layout of the region:
 *
 *	[ pages: one slot per chunk, committed or not ][ descriptors, I/O
 *	condition variables, checkpoint array: always committed ]
 *
 * The condition variables and locks in these arrays link waiters by process
 * number, not by address, and nobody waits yet: a copy is as good as the
 * original.
 *
 * What the arrays occupied in the server's segment is given back (segment.c).
 *
 * After a crash the postmaster comes here again, with the region of its last
 * life.  The region is used again: closing it would free nothing as long as
 * some process (the log collector lives on) still maps it.
 *
 *-------------------------------------------------------------------------
 */
#include "arrays.h"

#include "miscadmin.h"
#include "utils/timestamp.h"

#include "guard.h"
#include "park.h"
#include "report.h"
#include "segment.h"
#include "settings.h"
#include "shared.h"

/* A chunk is at least as large as a 2 MB huge page, whatever backs it. */
#define MIN_CHUNK_BYTES ((uint64) 2 << 20)

struct tide_region *tide_region = NULL;

typedef struct ArrayPlace
{
	const char *name;			/* in the server's index of shared memory */
	void	  **pointer;		/* the server's exported variable */
	Size		bytes;
	bool		copy;			/* initialised by the server, or scratch space */
} ArrayPlace;

uint64
TideChunkBytes(void)
{
	uint64		page = tide_huge_pages == TIDE_HUGE_OFF ? 0 : (uint64) tide_huge_page_size_kb * 1024;

	return Max(page, MIN_CHUNK_BYTES);
}

uint32
TideChunkCount(void)
{
	uint64		chunk = TideChunkBytes();

	return (uint32) (((uint64) NBuffers * BLCKSZ + chunk - 1) / chunk);
}

/* The arrays that go behind the pages. */
static int
meta_arrays(ArrayPlace places[3])
{
	places[0] = (ArrayPlace) {"Buffer Descriptors", (void **) &BufferDescriptors, NBuffers * sizeof(BufferDescPadded), true};
	places[1] = (ArrayPlace) {"Buffer IO Condition Variables", (void **) &BufferIOCVArray, NBuffers * sizeof(ConditionVariableMinimallyPadded), true};
	places[2] = (ArrayPlace) {"Checkpoint BufferIds", (void **) &CkptBufferIds, NBuffers * sizeof(CkptSortItem), false};
	return 3;
}

static uint64
meta_bytes(uint64 page_bytes)
{
	ArrayPlace	places[3];
	uint64		bytes = 0;

	for (int i = 0, n = meta_arrays(places); i < n; i++)
		bytes += TYPEALIGN(PG_CACHE_LINE_SIZE, places[i].bytes);
	return TYPEALIGN(page_bytes, bytes);
}

/*
 * Buffers that the server needs at least: every backend with all the pins it
 * may hold at a time, and a start of 16 MB.
 */
static uint64
derived_floor(uint64 chunk_bytes, uint64 max_bytes)
{
	uint64		pins = (uint64) MaxBackends * (TIDE_PINS_PER_BACKEND + TIDE_PINS_PER_STREAM);
	uint64		bytes = Max(pins * BLCKSZ, (uint64) 16 << 20);

	return Min(TYPEALIGN(chunk_bytes, bytes), max_bytes);
}

static void
reserve_region(TideLayout *layout)
{
	struct tide_reason why;
	struct tide_region_config config = {
		.name = "postgres buffer pool",
		.max_bytes = layout->max_bytes + layout->meta_bytes,
		.huge = (enum tide_huge_policy) tide_huge_pages,
		.huge_page_bytes = (uint64) tide_huge_page_size_kb * 1024,
		.numa = TideNumaSetting(),
		.commit_threads = 1,
		.machine = TideMachine(),
		.fd = -1,
	};

	if (tide_region_reserve(&config, layout->start_bytes + layout->meta_bytes,
							&tide_region, &why) != 0)
		TideReportReason(FATAL, "could not reserve the buffer pool", &why);
	if (tide_region_info(tide_region)->fell_back)
		TideReportReason(LOG, "the buffer pool goes without explicit huge pages",
						 &tide_region_info(tide_region)->fallback);
}

/* Byte ranges of the chunks with this value in chosen[], and of the metadata. */
static size_t
chunk_ranges(const TideLayout *layout, const uint8 *chosen, uint8 value,
			 struct tide_range *ranges)
{
	size_t		n = 0;

	for (uint32 i = 0; i < layout->n_chunks; i++)
		if (chosen[i] == value)
			ranges[n++] = (struct tide_range) {i * layout->chunk_bytes, layout->chunk_bytes};
	return n;
}

/*
 * Commit what the server starts with.  After a crash the pages of dead
 * processes may come back a moment late: try for a while.
 */
static int
commit_start(const TideLayout *layout, const uint8 *chosen, struct tide_reason *why)
{
	struct tide_range *ranges = palloc((layout->n_chunks + 1) * sizeof(struct tide_range));
	size_t		n;
	int			code = 0;

	n = chunk_ranges(layout, chosen, 0, ranges);
	code = tide_region_decommit(tide_region, ranges, n, why);

	n = chunk_ranges(layout, chosen, 1, ranges);
	ranges[n++] = (struct tide_range) {layout->max_bytes, layout->meta_bytes};
	for (int attempt = 0; code == 0 && attempt < 50; attempt++)
	{
		code = tide_region_commit(tide_region, ranges, n, why);
		if (code == 0 || !tide_code_retryable(code))
			break;
		pg_usleep(100000L);
		if (attempt < 49)
			code = 0;
	}
	pfree(ranges);
	return code;
}

static void
move_arrays(const TideLayout *layout, const TideSegment *segment, char *base)
{
	ArrayPlace	places[3];
	char	   *at = base + layout->max_bytes;

	for (int i = 0, n = meta_arrays(places); i < n; i++)
	{
		void	   *old = *places[i].pointer;

		if (places[i].copy)
			memcpy(at, old, places[i].bytes);
		*places[i].pointer = at;
		at += TYPEALIGN(PG_CACHE_LINE_SIZE, places[i].bytes);
		TideSegmentAbandon(segment, places[i].name, old, places[i].bytes);
	}
	BufferBlocks = base;
}

/* Sizes that follow from settings and machine; nothing is touched. */
static void
compute_layout(TideLayout *layout)
{
	uint64		wanted;

	layout->chunk_bytes = TideChunkBytes();
	layout->n_chunks = TideChunkCount();
	layout->buffers_per_chunk = (int) (layout->chunk_bytes / BLCKSZ);
	layout->max_bytes = layout->n_chunks * layout->chunk_bytes;
	layout->meta_bytes = meta_bytes(layout->chunk_bytes);
	layout->floor_bytes = derived_floor(layout->chunk_bytes, layout->max_bytes);
	layout->started_at = GetCurrentTimestamp();

	wanted = TideWantedSize(TideFloorInForce(layout->floor_bytes, layout->max_bytes),
							layout->max_bytes);
	if (wanted > layout->max_bytes)
		ereport(FATAL,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"tidepool.size\" is above the ceiling"),
				 errdetail("It asks for " UINT64_FORMAT " kB, \"shared_buffers\" allows " UINT64_FORMAT " kB.",
						   wanted / 1024, layout->max_bytes / 1024),
				 errhint("Raise \"shared_buffers\" or lower \"tidepool.size\".")));
	if (wanted < TideFloorInForce(layout->floor_bytes, layout->max_bytes))
		ereport(FATAL,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"tidepool.size\" is below the floor"),
				 errdetail("It asks for " UINT64_FORMAT " kB, the floor is " UINT64_FORMAT " kB.",
						   wanted / 1024,
						   TideFloorInForce(layout->floor_bytes, layout->max_bytes) / 1024),
				 errhint("Raise \"tidepool.size\", or lower \"max_connections\" or \"tidepool.min_size\".")));
	layout->start_bytes = wanted / layout->chunk_bytes * layout->chunk_bytes;
}

void
TidePlaceArrays(void)
{
	TideLayout *layout = &tide_shared->layout;
	TideSegment segment = TideSegmentFind(BufferBlocks);
	struct tide_numa numa = TideNumaSetting();
	struct tide_reason why;
	uint8	   *chosen;

	compute_layout(layout);
	layout->server_huge = segment.huge;
	if (tide_numa_describe(&numa, layout->numa, sizeof(layout->numa), &why) != 0)
		TideReportReason(FATAL, "cannot place the buffer pool as \"tidepool.numa\" asks", &why);

	/*
	 * The pages hold nothing yet, and in huge pages the segment reserved them
	 * all: let go of them before memory is asked for.
	 */
	TideSegmentAbandon(&segment, "Buffer Blocks", BufferBlocks, (Size) NBuffers * BLCKSZ);
	if (tide_region == NULL)
		reserve_region(layout);
	layout->region = *tide_region_info(tide_region);

	chosen = palloc0(layout->n_chunks);
	tide_chunk_spread(layout->n_chunks, (uint32) (layout->start_bytes / layout->chunk_bytes), chosen);
	if (commit_start(layout, chosen, &why) != 0)
		TideReportReason(FATAL, "could not commit the buffer pool", &why);
	for (uint32 i = 0; i < layout->n_chunks; i++)
		if (chosen[i])
			atomic_store_explicit(&tide_chunks->chunk[i].state, TIDE_CHUNK_ACTIVE,
								  memory_order_relaxed);
	pfree(chosen);

	move_arrays(layout, &segment, layout->region.base);
	TideParkAtStart();
	TideGuardInstall();
	layout->active = true;
}
