/* SPDX-License-Identifier: PostgreSQL */
/*
 * tidepool/resize.h - resize layer: chunks, the plan and the engine that carries it out.
 *
 * The pool is divided into chunks. The engine moves chunks between states through operations of a
 * host (PostgreSQL, an embedded pool, a test) and owns everything that has to do with time: slices,
 * deadlines, cancellation, back-off. It never blocks and never sleeps: the host calls
 * tide_engine_step() from its own loop and waits between calls as long as it is told.
 *
 * Caveats:
 *  - One engine at a time works on a chunk table. The table lives where the host puts it (shared
 *    memory) and is the only truth about progress: an engine opened after another one died calls
 *    tide_engine_recover() first, which finishes or undoes what it finds.
 *  - Only the engine writes chunk states; any process may read them at any time.
 *  - Memory is committed before a chunk is published and released only after it is drained and
 *    quiescent; a chunk is never both usable by victims and without memory.
 *  - All functions of one engine are called from one thread.
 */
#ifndef TIDEPOOL_RESIZE_H
#define TIDEPOOL_RESIZE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <tidepool/reason.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * retired -> committing -> active -> fenced -> draining -> quiescing -> [lingering ->] releasing
 * -> retired. A cancel goes back to active from any state before releasing. lingering = drained but
 * still committed, so that a size that swings does not pay for the memory twice; it goes straight
 * back to active when the pool grows. A chunk that is committed, or lingered, is fenced while it is
 * being published, so that an engine that dies in the middle leaves it to be published again.
 */
enum tide_chunk_state {
	TIDE_CHUNK_RETIRED,    /* no memory, no buffer usable */
	TIDE_CHUNK_COMMITTING, /* memory being obtained */
	TIDE_CHUNK_ACTIVE,     /* committed, usable */
	TIDE_CHUNK_FENCED,     /* no new page enters */
	TIDE_CHUNK_DRAINING,   /* pages are being written and dropped */
	TIDE_CHUNK_QUIESCING,  /* empty; waiting for readers that may still look */
	TIDE_CHUNK_LINGERING,  /* empty, retired but still committed */
	TIDE_CHUNK_RELEASING,  /* memory being given back */
	TIDE_CHUNK_STATES
};

/* One chunk, in shared memory. @since_ns: host clock when the state was entered. */
struct tide_chunk {
	_Atomic uint32_t state;
	uint32_t unused;
	_Atomic uint64_t since_ns;
};

#define TIDE_CHUNK_TABLE_MAGIC 0x43444954u /* "TIDC" */
#define TIDE_CHUNK_TABLE_VERSION 1u

/* The chunk table, in shared memory. Begins with magic, layout version and size. */
struct tide_chunk_table {
	uint32_t magic;
	uint32_t version;
	uint64_t table_bytes;
	uint64_t chunk_bytes;
	uint32_t n_chunks;
	uint32_t unused;
	struct tide_chunk chunk[];
};

/** tide_chunk_table_bytes() - memory needed for a table of @n_chunks */
TIDE_PUBLIC size_t tide_chunk_table_bytes(uint32_t n_chunks);

/**
 * tide_chunk_table_init() - lay out a table in @table; every chunk is retired
 *
 * Runs before any other process can see the table.
 */
TIDE_PUBLIC void tide_chunk_table_init(struct tide_chunk_table *table, uint32_t n_chunks,
				       uint64_t chunk_bytes);

/**
 * tide_chunk_table_valid() - 1 when header and every state make sense
 */
TIDE_PUBLIC int tide_chunk_table_valid(const struct tide_chunk_table *table);

/** tide_chunk_counts() - number of chunks by state; a snapshot without a lock */
TIDE_PUBLIC void tide_chunk_counts(const struct tide_chunk_table *table,
				   uint32_t counts[TIDE_CHUNK_STATES]);

/** tide_chunk_state_name() - "retired", "committing", ... */
TIDE_PUBLIC const char *tide_chunk_state_name(enum tide_chunk_state state);

/**
 * tide_chunk_spread() - the first @n_active chunks to activate at start: evenly spread
 *
 * Sets chunk[i] = 1 for the chosen ones; chunk 0 is always among them (n_active >= 1).
 */
TIDE_PUBLIC void tide_chunk_spread(uint32_t n_chunks, uint32_t n_active, uint8_t *chosen);

/* What the host knows about a chunk when chunks are chosen. */
struct tide_chunk_fact {
	uint32_t heat; /* sum of usage counts, or whatever orders chunks by value of their pages */
	uint32_t pinned; /* buffers in use at this moment */
	uint32_t dirty;	 /* buffers that would have to be written */
};

/* How much one drain step may do. */
struct tide_drain_budget {
	uint64_t write_bytes; /* at most so many bytes written; UINT64_MAX = no limit */
	uint64_t work_ns;     /* return after about so long */
};

/* What is left in one chunk after a drain step. */
struct tide_drain_report {
	uint32_t left;	 /* buffers not drained yet; 0 = the chunk is drained */
	uint32_t pinned; /* of those, in use by somebody or in I/O */
	uint32_t dirty;	 /* of those, dirty and not written yet */
};

/* What one drain step did, over all its chunks. */
struct tide_drain_work {
	uint64_t evicted_pages;
	uint64_t written_pages;
};

/**
 * struct tide_host_ops - what the host can do; every operation is bounded and never waits
 *
 * Operations return 0 or a negative code and fill @why. @chunks arrays are ascending.
 *
 * @clock_ns:  monotonic clock
 * @survey:    fill facts[i] for chunk first+i; may be approximate, takes no lock for long
 * @preflight: could so many bytes more be committed? Called once before a grow
 * @commit:    back these chunks; all or nothing
 * @publish:   the chunks' buffers become usable; after commit, or when a drain is taken back
 * @fence:     no new page may enter these chunks from now on, as far as the host can say so before
 *             the drain; what enters all the same is found by drain
 * @drain:     one bounded step over the chunks: write, drop; fills reports[i] for chunks[i] and adds
 *             to *work. A buffer once drained stays drained until publish.
 * @quiesce:   1 while somebody may still look at memory of these drained chunks, 0 when nobody can
 * @decommit:  give the memory of these chunks back
 * @audit:     committed bytes of the chunks as the kernel sees them
 * @changed:   the operation entered a phase or ended; may be NULL. Called after the engine's state
 *             is consistent; the host may report, wake waiters or pause here.
 */
struct tide_progress;
struct tide_host_ops {
	uint64_t (*clock_ns)(void *host);
	void (*survey)(void *host, uint32_t first, uint32_t n, struct tide_chunk_fact *facts);
	int (*preflight)(void *host, uint64_t bytes, struct tide_reason *why);
	int (*commit)(void *host, const uint32_t *chunks, uint32_t n, struct tide_reason *why);
	int (*publish)(void *host, const uint32_t *chunks, uint32_t n, struct tide_reason *why);
	int (*fence)(void *host, const uint32_t *chunks, uint32_t n, struct tide_reason *why);
	int (*drain)(void *host, const uint32_t *chunks, uint32_t n,
		     const struct tide_drain_budget *budget, struct tide_drain_report *reports,
		     struct tide_drain_work *work, struct tide_reason *why);
	int (*quiesce)(void *host, const uint32_t *chunks, uint32_t n);
	int (*decommit)(void *host, const uint32_t *chunks, uint32_t n, struct tide_reason *why);
	int (*audit)(void *host, uint64_t *committed_bytes, struct tide_reason *why);
	void (*changed)(void *host, const struct tide_progress *progress);
};

/* States of an operation; the first six are phases that take time. */
enum tide_op_state {
	TIDE_OP_COMMIT,	 /* grow: a slice is being committed */
	TIDE_OP_PUBLISH, /* grow: a slice is being made usable */
	TIDE_OP_FENCE,	 /* shrink: chunks are chosen and fenced */
	TIDE_OP_DRAIN,	 /* shrink: pages are written and dropped */
	TIDE_OP_QUIESCE, /* shrink: grace period */
	TIDE_OP_RELEASE, /* shrink: memory is given back */
	TIDE_OP_VERIFY,	 /* the kernel's figure against the plan's */
	TIDE_OP_UNDO,	 /* taking back what was done */
	TIDE_OP_PHASES,
	TIDE_OP_IDLE = TIDE_OP_PHASES, /* no operation since the engine was opened */
	TIDE_OP_DONE,
	TIDE_OP_PARTIAL,
	TIDE_OP_DENIED,
	TIDE_OP_CANCELLED,
	TIDE_OP_SUPERSEDED,
	TIDE_OP_FAILED, /* undone */
	TIDE_OP_STATES
};

/** tide_op_state_name() - "commit", ..., "done", "partial", ... in lower case */
TIDE_PUBLIC const char *tide_op_state_name(enum tide_op_state state);

/** tide_op_state_ended() - 1 for idle and the six ends */
TIDE_PUBLIC int tide_op_state_ended(enum tide_op_state state);

enum tide_direction {
	TIDE_DIRECTION_NONE, /* the pool already has that size */
	TIDE_DIRECTION_GROW,
	TIDE_DIRECTION_SHRINK,
};

/**
 * struct tide_request - one resize
 * @target_bytes:         size wished for; rounded to whole chunks, down when growing, up when shrinking
 * @min_acceptable_bytes: the size that must at least be reached: when growing a smaller result is
 *                        undone, when shrinking a larger one is. 0 = growing all or nothing,
 *                        shrinking any progress is kept
 * @deadline_ns:          relative to submission; 0 = none
 * @flush_bytes_per_s:    limit on writing dirty pages; 0 = none
 * @linger_ns:            how long drained chunks stay committed; 0 = released at once
 * @dry_run:              answer what would happen, change nothing
 */
struct tide_request {
	uint64_t target_bytes;
	uint64_t min_acceptable_bytes;
	uint64_t deadline_ns;
	uint64_t flush_bytes_per_s;
	uint64_t linger_ns;
	int dry_run;
};

/**
 * struct tide_progress - the running or last operation; also its outcome when it has ended
 *
 * Five sizes, never one for another: requested (after rounding), allocatable (active chunks),
 * committed (what the kernel backs, as of the last audit), returned (given back by this operation
 * and confirmed by the audit), maximum (chunk table).
 */
struct tide_progress {
	uint64_t op; /* number of the operation, counts from 1; 0 = none yet */
	enum tide_op_state state;
	enum tide_direction direction;
	int dry_run;
	uint64_t from_bytes; /* allocatable when it began */
	uint64_t requested_bytes;
	uint64_t allocatable_bytes;
	uint64_t committed_bytes;
	uint64_t returned_bytes;
	uint32_t chunks_total; /* chunks this operation has to move */
	uint32_t chunks_done;
	uint32_t
		blocked_chunks; /* held up by pins or by dirty pages at this moment, or at the end */
	uint64_t evicted_pages;
	uint64_t written_pages;
	uint64_t start_ns; /* host clock */
	uint64_t elapsed_ns;
	uint64_t
		first_publish_ns; /* grow: from start to the first new buffer usable; 0 = none yet */
	uint64_t phase_ns[TIDE_OP_PHASES];
	uint64_t eta_ns;	   /* estimate of what is left; 0 = unknown or ended */
	struct tide_reason reason; /* code 0 unless it ended otherwise than done */
};

/**
 * struct tide_engine_config
 * @table:     the chunk table, valid
 * @min_bytes: floor; a request below is TIDE_BELOW_MIN
 * @step_ns:   how long one step should take at most (slices adapt to it); 0 = 5 ms
 * @first_op:  number given to the first operation; so that numbers go on after a restart; 0 = 1
 * @compact:   where the chunks in use lie. 1 = densely from chunk 0 on: growing takes the lowest
 *             retired chunks, shrinking retires the highest first, whatever their heat. 0 = evenly
 *             spread, coldest first. In both, chunks that linger come back before others, and chunks
 *             with pinned buffers go last and are exchanged for others when the pins stay: so a pin
 *             can leave a chunk in use above retired ones.
 */
struct tide_engine_config {
	struct tide_chunk_table *table;
	uint64_t min_bytes;
	uint64_t step_ns;
	uint64_t first_op;
	int compact;
};

struct tide_engine;

/**
 * tide_engine_open() - an engine on a chunk table; changes nothing
 *
 * Return: 0 and *out, or TIDE_BAD_REQUEST (table not valid), TIDE_NOT_ENOUGH_MEMORY.
 * All memory that resizing needs is allocated here: shrinking works when the machine has none left.
 */
TIDE_PUBLIC TIDE_CHECKED int tide_engine_open(const struct tide_engine_config *config,
					      const struct tide_host_ops *ops, void *host,
					      struct tide_engine **out, struct tide_reason *why);

/**
 * tide_engine_recover() - finish or undo what a dead engine left in the chunk table
 *
 * committing -> its memory is given back, retired; fenced, draining, quiescing -> published, active;
 * releasing -> released, retired; lingering stays. Call before the first request.
 *
 * Return: 0, or the host's error; then the chunk concerned keeps its state and recovery may be
 * called again. *repaired (may be NULL): number of chunks changed.
 */
TIDE_PUBLIC TIDE_CHECKED int tide_engine_recover(struct tide_engine *engine, uint32_t *repaired,
						 struct tide_reason *why);

/** tide_engine_set_min() - change the floor for requests from now on */
TIDE_PUBLIC void tide_engine_set_min(struct tide_engine *engine, uint64_t min_bytes);

/**
 * tide_engine_submit() - begin an operation
 *
 * With one running: TIDE_OP_IN_PROGRESS unless @supersede; then the running one ends as SUPERSEDED
 * (its fenced and draining chunks return to active; what is done stays done) before the new one
 * begins, and supersede never waits for it.
 *
 * Return: 0 and the operation is running, or has ended at once (nothing to do, dry run, denied by
 * the preflight: see progress); a negative code and nothing changed: TIDE_BAD_REQUEST,
 * TIDE_BELOW_MIN, TIDE_ABOVE_MAX, TIDE_OP_IN_PROGRESS. A refused request has no operation number.
 */
TIDE_PUBLIC TIDE_CHECKED int tide_engine_submit(struct tide_engine *engine,
						const struct tide_request *request, int supersede,
						struct tide_reason *why);

/**
 * tide_engine_cancel() - ask the running operation to stop and undo; takes effect at the next step
 *
 * A grow gives back what it got; a shrink keeps released chunks released and returns the others.
 * No effect when nothing runs.
 */
TIDE_PUBLIC void tide_engine_cancel(struct tide_engine *engine, int code, const char *message);

/**
 * tide_engine_step() - one bounded action
 *
 * Also releases chunks that lingered long enough when no operation runs.
 *
 * Return: 1 while an operation runs, 0 when idle. *wait_ns: how long the host may wait before the
 * next step: 0 = call again at once, UINT64_MAX = until a request or cancel comes.
 */
TIDE_PUBLIC int tide_engine_step(struct tide_engine *engine, uint64_t *wait_ns);

/** tide_engine_progress() - copy of the running or last operation */
TIDE_PUBLIC void tide_engine_progress(const struct tide_engine *engine, struct tide_progress *out);

/** tide_engine_close() - free the engine; the chunk table stays as it is */
TIDE_PUBLIC void tide_engine_close(struct tide_engine *engine);

#ifdef __cplusplus
}
#endif

#endif /* TIDEPOOL_RESIZE_H */
