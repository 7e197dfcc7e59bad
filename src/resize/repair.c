/* SPDX-License-Identifier: PostgreSQL */
/*
 * resize/repair.c - chunks outside an operation: repair of what was left half done, lingering.
 *
 * One repair serves a new engine on the table of a dead one, an operation that another supersedes,
 * and a host operation that failed: in each case the table alone says what has to be done.
 */
#include <string.h>

#include "resize/chunk.h"
#include "resize/engine.h"

/* Chunks collected for one call of the host. */
struct batch {
	uint32_t *chunks;
	uint32_t n;
};

void engine_read_table(struct tide_engine *engine)
{
	struct plan *plan = &engine->plan;

	memset(plan->counts, 0, sizeof(plan->counts));
	for (uint32_t i = 0; i < plan->n_chunks; i++) {
		plan->states[i] = (uint8_t)chunk_load(engine->table, i);
		plan->counts[plan->states[i]]++;
	}
}

int engine_needs_repair(const struct tide_engine *engine)
{
	const uint32_t *counts = engine->plan.counts;

	return counts[TIDE_CHUNK_COMMITTING] + counts[TIDE_CHUNK_FENCED] +
		       counts[TIDE_CHUNK_DRAINING] + counts[TIDE_CHUNK_QUIESCING] +
		       counts[TIDE_CHUNK_RELEASING] >
	       0;
}

static void set_batch(struct tide_engine *engine, const struct batch *batch,
		      enum tide_chunk_state state)
{
	uint64_t now_ns = engine->ops->clock_ns(engine->host);

	for (uint32_t i = 0; i < batch->n; i++) {
		plan_set(&engine->plan, batch->chunks[i], state);
		chunk_store(engine->table, batch->chunks[i], state, now_ns);
	}
}

typedef int (*chunk_op)(void *host, const uint32_t *chunks, uint32_t n, struct tide_reason *why);

/* Returns the first error: @code if there was one before, else the host's. */
static int flush_batch(struct tide_engine *engine, struct batch *batch, chunk_op op,
		       enum tide_chunk_state state, int code, struct tide_reason *why,
		       uint32_t *repaired)
{
	struct tide_reason reason = {0};
	int rc = batch->n > 0 ? op(engine->host, batch->chunks, batch->n, &reason) : 0;

	if (rc == 0) {
		set_batch(engine, batch, state);
		*repaired += batch->n;
	} else if (code == 0) {
		if (why)
			*why = reason;
		code = rc;
	}
	batch->n = 0;
	return code;
}

int engine_repair(struct tide_engine *engine, uint32_t *repaired, struct tide_reason *why)
{
	const struct tide_host_ops *ops = engine->ops;
	struct batch publish = {.chunks = engine->publish};
	struct batch decommit = {.chunks = engine->decommit};
	uint32_t n_chunks = engine->plan.n_chunks, n = 0;
	int code = 0;

	engine_read_table(engine);
	for (uint32_t i = 0; i < n_chunks; i++) {
		enum tide_chunk_state state = (enum tide_chunk_state)engine->plan.states[i];

		if (chunk_may_publish(state))
			publish.chunks[publish.n++] = i;
		else if (chunk_may_decommit(state))
			decommit.chunks[decommit.n++] = i;
		if (publish.n == PLAN_BATCH || i + 1 == n_chunks)
			code = flush_batch(engine, &publish, ops->publish, TIDE_CHUNK_ACTIVE, code,
					   why, &n);
		if (decommit.n == PLAN_BATCH || i + 1 == n_chunks)
			code = flush_batch(engine, &decommit, ops->decommit, TIDE_CHUNK_RETIRED,
					   code, why, &n);
	}
	if (repaired)
		*repaired = n;
	return code;
}

static void note_audit(struct tide_engine *engine)
{
	struct tide_reason why;
	uint64_t bytes;

	if (engine->ops->audit(engine->host, &bytes, &why) == 0)
		engine->plan.progress.committed_bytes = bytes;
}

/* One batch of the chunks that lingered long enough; returns when the next one will have. */
static uint64_t release_lingering(struct tide_engine *engine, uint64_t now_ns)
{
	struct batch due = {.chunks = engine->decommit};
	uint64_t next_ns = UINT64_MAX;
	uint32_t released = 0;

	for (uint32_t i = 0; i < engine->plan.n_chunks && due.n < PLAN_BATCH; i++) {
		if (engine->plan.states[i] != TIDE_CHUNK_LINGERING)
			continue;

		uint64_t since_ns = chunk_since(engine->table, i);
		uint64_t left_ns = engine->linger_ns;

		/* A clock that went back, after a restart of the machine, makes nothing linger. */
		if (since_ns > now_ns || now_ns - since_ns >= engine->linger_ns)
			left_ns = 0;
		else
			left_ns -= now_ns - since_ns;
		if (left_ns == 0)
			due.chunks[due.n++] = i;
		else if (left_ns < next_ns)
			next_ns = left_ns;
	}
	if (due.n == 0)
		return next_ns;
	set_batch(engine, &due, TIDE_CHUNK_RELEASING);
	(void)flush_batch(engine, &due, engine->ops->decommit, TIDE_CHUNK_RETIRED, 0, NULL,
			  &released);
	note_audit(engine);
	return 0;
}

uint64_t engine_tidy(struct tide_engine *engine)
{
	uint64_t now_ns = engine->ops->clock_ns(engine->host);
	uint64_t wait_ns = UINT64_MAX;

	if (engine_needs_repair(engine)) {
		if (now_ns >= engine->repair_at_ns) {
			uint32_t repaired = 0;

			if (engine_repair(engine, &repaired, NULL) == 0)
				engine->repair_pause_ns = ENGINE_REPAIR_MIN_NS;
			else if (engine->repair_pause_ns < ENGINE_REPAIR_MAX_NS)
				engine->repair_pause_ns *= 2;
			engine->repair_at_ns = now_ns + engine->repair_pause_ns;
			if (repaired > 0)
				note_audit(engine);
		}
		if (engine_needs_repair(engine))
			wait_ns = engine->repair_at_ns - now_ns;
	}
	if (engine->plan.counts[TIDE_CHUNK_LINGERING] > 0) {
		uint64_t left_ns = release_lingering(engine, now_ns);

		wait_ns = left_ns < wait_ns ? left_ns : wait_ns;
	}
	return wait_ns;
}
