/* SPDX-License-Identifier: PostgreSQL */
/*
 * tests/resize/sim_host.h - a host that exists in memory only, with a clock of its own.
 *
 * It plays the kernel (which chunks have memory), the buffers (usable, valid, pinned, dirty, hot)
 * and the users of the pool, and checks every call of the engine against what a real host needs:
 * the first violation is kept in @broken. Each operation can be made to fail at its n-th call, or
 * at random, or to end the engine's life in the middle (a jump out of it, the work half done).
 */
#ifndef TESTS_SIM_HOST_H
#define TESTS_SIM_HOST_H

#include <setjmp.h>
#include <tidepool/resize.h>

#define SIM_BUFFERS 8u /* buffers in a chunk */
#define SIM_PAGE 8192u
#define SIM_CHUNK (SIM_BUFFERS * SIM_PAGE)
#define SIM_OPS_MAX 4096u /* operations whose ends are counted */

enum sim_op {
	SIM_PREFLIGHT,
	SIM_COMMIT,
	SIM_PUBLISH,
	SIM_FENCE,
	SIM_DRAIN,
	SIM_DECOMMIT,
	SIM_AUDIT,
	SIM_OPS
};

struct sim_buffer {
	uint8_t usable; /* a victim search may take it */
	uint8_t valid;
	uint8_t dirty;
	uint8_t heat;
	uint32_t pins;
};

struct sim {
	struct tide_chunk_table *table;
	struct tide_engine *engine;
	struct tide_engine_config config;
	uint32_t n_chunks;
	uint8_t *backed;   /* the kernel: has the chunk memory? */
	uint8_t *verified; /* an audit came after its commit */
	struct sim_buffer *buffers;
	uint64_t now_ns;
	uint64_t random;

	/* Scripts. */
	uint32_t calls[SIM_OPS];
	uint32_t fail_at[SIM_OPS]; /* the call that fails, counted from 1; 0 = none */
	int fail_code[SIM_OPS];	   /* 0 = TIDE_HOST_ERROR */
	int silent;		   /* failures come without a reason */
	uint32_t fail_percent;	   /* any call fails at random */
	uint32_t crash_at;	   /* the call of any operation that does not return */
	uint32_t all_calls;
	jmp_buf crash;
	int64_t audit_skew;	 /* chunks that the kernel shows besides those it backs */
	uint64_t preflight_have; /* bytes that could be committed */
	uint32_t readers;	 /* somebody looks at drained memory: quiesce waits */
	uint64_t chunk_ns;	 /* cost of committing a chunk */
	uint64_t page_ns;	 /* cost of writing a page */

	/* What happened. */
	uint32_t committed_chunks, decommitted_chunks;
	uint32_t largest_commit, first_commit;
	uint32_t released_before; /* decommitted_chunks when the operation began */
	uint64_t written_bytes;
	uint64_t surveyed_chunks;
	uint8_t ends[SIM_OPS_MAX];
	uint32_t n_ends;
	uint32_t n_changed;
	struct tide_progress last; /* as of the last changed() */
	char broken[256];
};

/** sim_open() - a pool of @n_chunks of which @n_active are active, and an engine on it */
void sim_open(struct sim *sim, uint32_t n_chunks, uint32_t n_active, uint64_t seed);
void sim_close(struct sim *sim);

/** sim_restart() - the engine is gone: a new one on the same table, not recovered yet */
void sim_restart(struct sim *sim);

uint64_t sim_random(struct sim *sim, uint64_t below);

/** sim_pin() - pin one buffer of a chunk, with a valid page in it */
void sim_pin(struct sim *sim, uint32_t chunk);
void sim_unpin(struct sim *sim, uint32_t chunk);
void sim_unpin_all(struct sim *sim);

/** sim_fill() - every usable buffer holds a page, @dirty_percent of them dirty */
void sim_fill(struct sim *sim, uint32_t dirty_percent);

uint32_t sim_count(const struct sim *sim, enum tide_chunk_state state);
uint64_t sim_backed_bytes(const struct sim *sim);

/** sim_check() - invariants that hold between any two calls; first violation into sim->broken */
void sim_check(struct sim *sim);

/** sim_step() - one step, checked; passes the time it asks to wait. Returns its return value. */
int sim_step(struct sim *sim);

/** sim_run() - steps until the operation has ended; returns how it ended */
enum tide_op_state sim_run(struct sim *sim);

/** sim_submit() - a plain request for @chunks, to which the test may add */
struct tide_request sim_request(uint64_t chunks);
int sim_submit(struct sim *sim, const struct tide_request *request, int supersede);

struct tide_progress sim_progress(const struct sim *sim);

extern const struct tide_host_ops sim_ops;

#endif /* TESTS_SIM_HOST_H */
