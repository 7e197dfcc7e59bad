/* SPDX-License-Identifier: PostgreSQL */
/*
 * resize/engine.c - the calls of tidepool/resize.h on an engine.
 *
 * The engine owns the plan and a host. Each step asks the plan for one action, carries it out and
 * tells the plan how it went. Nothing is allocated after tide_engine_open().
 */
#include "resize/engine.h"

#include <stdlib.h>
#include <string.h>

#define STEP_NS_DEFAULT UINT64_C(5000000)

static int plan_open(struct plan *plan, const struct tide_engine_config *config)
{
	uint32_t n = config->table->n_chunks;

	plan->n_chunks = n;
	plan->chunk_bytes = config->table->chunk_bytes;
	plan->step_ns = config->step_ns > 0 ? config->step_ns : STEP_NS_DEFAULT;
	plan->compact = config->compact;
	plan->states = calloc(n, sizeof(plan->states[0]));
	plan->keys = calloc(n, sizeof(plan->keys[0]));
	plan->order = calloc(n, sizeof(plan->order[0]));
	plan->ring.chunks = calloc(n, sizeof(plan->ring.chunks[0]));
	plan->ring.capacity = n;
	plan->progress.state = TIDE_OP_IDLE;
	return plan->states && plan->keys && plan->order && plan->ring.chunks;
}

int tide_engine_open(const struct tide_engine_config *config, const struct tide_host_ops *ops,
		     void *host, struct tide_engine **out, struct tide_reason *why)
{
	*out = NULL;
	if (!tide_chunk_table_valid(config->table))
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "the chunk table is not valid: another version of the "
				       "library laid it out, or it was overwritten");

	struct tide_engine *engine = calloc(1, sizeof(*engine));

	if (!engine || !plan_open(&engine->plan, config)) {
		tide_engine_close(engine);
		return tide_reason_set(why, TIDE_NOT_ENOUGH_MEMORY, 0,
				       "no memory for an engine on %u chunks",
				       config->table->n_chunks);
	}
	engine->table = config->table;
	engine->ops = ops;
	engine->host = host;
	engine->min_bytes = config->min_bytes;
	engine->next_op = config->first_op > 0 ? config->first_op : 1;
	engine->reported = TIDE_OP_IDLE;
	engine->repair_pause_ns = ENGINE_REPAIR_MIN_NS;
	engine_read_table(engine);
	*out = engine;
	return TIDE_OK;
}

void tide_engine_close(struct tide_engine *engine)
{
	if (!engine)
		return;
	free(engine->plan.states);
	free(engine->plan.keys);
	free(engine->plan.order);
	free(engine->plan.ring.chunks);
	free(engine);
}

int tide_engine_recover(struct tide_engine *engine, uint32_t *repaired, struct tide_reason *why)
{
	if (plan_running(&engine->plan))
		return tide_reason_set(why, TIDE_OP_IN_PROGRESS, 0,
				       "operation %llu is running: nothing to recover",
				       (unsigned long long)engine->plan.progress.op);
	return engine_repair(engine, repaired, why);
}

void tide_engine_set_min(struct tide_engine *engine, uint64_t min_bytes)
{
	engine->min_bytes = min_bytes;
}

static void end(struct tide_engine *engine, enum tide_op_state state)
{
	plan_finish(&engine->plan, state, engine->ops->clock_ns(engine->host));
}

/* Does not wait: what is on its way out comes back at once, what is done stays done. */
static void supersede_running(struct tide_engine *engine, const struct tide_request *request)
{
	struct plan *plan = &engine->plan;
	struct tide_reason why;
	uint64_t bytes;

	/* An error leaves chunks behind that the new operation meets again: it will report it. */
	(void)engine_repair(engine, NULL, NULL);
	if (engine->ops->audit(engine->host, &bytes, &why) == 0)
		plan_note_audit(plan, bytes);
	tide_reason_set(&plan->progress.reason, TIDE_SUPERSEDED, 0,
			"a request for %llu bytes took its place",
			(unsigned long long)request->target_bytes);
	end(engine, TIDE_OP_SUPERSEDED);
	engine_report(engine);
}

static void ask_preflight(struct tide_engine *engine)
{
	struct plan *plan = &engine->plan;
	uint64_t bytes = plan_commit_bytes(plan);
	struct tide_reason why = {0};

	if (bytes == 0)
		return;

	int code = engine->ops->preflight(engine->host, bytes, &why);

	if (code == 0)
		return;
	if (why.message[0] == '\0')
		tide_reason_set(&why, code, 0, "%llu bytes more cannot be committed",
				(unsigned long long)bytes);
	why.code = code;
	plan_refuse(plan, &why, engine->ops->clock_ns(engine->host));
}

/* Everything that is known before the first action; the operation may have ended then. */
static void begin(struct tide_engine *engine, const struct tide_request *request, uint64_t op)
{
	struct plan *plan = &engine->plan;
	uint64_t now_ns = engine->ops->clock_ns(engine->host), bytes = 0;
	struct tide_reason why = {0};
	int code = 0;

	if (!request->dry_run && engine_needs_repair(engine))
		code = engine_repair(engine, NULL, &why);
	if (code == 0)
		code = engine->ops->audit(engine->host, &bytes, &why);
	plan_begin(plan, request, op, bytes, now_ns);
	if (code < 0) {
		plan->progress.reason = why;
		end(engine, TIDE_OP_FAILED);
		return;
	}
	ask_preflight(engine);
	if (plan_running(plan) && (request->dry_run || plan->aim.direction == TIDE_DIRECTION_NONE))
		end(engine, plan->end_state);
}

int tide_engine_submit(struct tide_engine *engine, const struct tide_request *request,
		       int supersede, struct tide_reason *why)
{
	struct plan *plan = &engine->plan;

	if (plan_running(plan) && (!supersede || request->dry_run)) {
		tide_reason_set(why, TIDE_OP_IN_PROGRESS, 0, "operation %llu is running (%s)",
				(unsigned long long)plan->progress.op,
				tide_op_state_name(plan->progress.state));
		tide_reason_hint(why, "Wait for its end, cancel it, or supersede it.");
		return TIDE_OP_IN_PROGRESS;
	}

	int code = plan_check(plan, request, engine->min_bytes, why);

	if (code < 0)
		return code;
	if (plan_running(plan))
		supersede_running(engine, request);
	if (request->dry_run) {
		begin(engine, request, 0);
		engine->reported = plan->progress.state;
		return TIDE_OK;
	}
	engine->linger_ns = request->linger_ns;
	engine->reported = TIDE_OP_IDLE;
	begin(engine, request, engine->next_op++);
	engine_report(engine);
	return TIDE_OK;
}

void tide_engine_cancel(struct tide_engine *engine, int code, const char *message)
{
	struct tide_reason why;

	if (!plan_running(&engine->plan))
		return;
	tide_reason_set(&why, code < 0 ? code : TIDE_CANCELLED, 0, "%s",
			message ? message : "the operation was cancelled");
	plan_cancel(&engine->plan, &why);
}

int tide_engine_step(struct tide_engine *engine, uint64_t *wait_ns)
{
	struct plan *plan = &engine->plan;
	struct plan_action action;

	if (!plan_running(plan)) {
		*wait_ns = engine_tidy(engine);
		return 0;
	}
	plan_next(plan, engine->ops->clock_ns(engine->host), &action);
	engine_perform(engine, &action);
	if (plan_running(plan)) {
		*wait_ns = action.wait_ns;
		return 1;
	}
	engine_report(engine);
	*wait_ns = 0; /* an idle engine may have chunks to release */
	return 0;
}

void tide_engine_progress(const struct tide_engine *engine, struct tide_progress *out)
{
	*out = engine->plan.progress;
	out->allocatable_bytes = engine->plan.counts[TIDE_CHUNK_ACTIVE] * engine->plan.chunk_bytes;
}
