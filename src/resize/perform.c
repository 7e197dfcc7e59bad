/* SPDX-License-Identifier: PostgreSQL */
/*
 * resize/perform.c - one action of the plan, carried out through the host.
 */
#include <string.h>

#include "resize/chunk.h"
#include "resize/engine.h"

/* The plan has decided on new states: store them where everybody reads them. */
static void store_states(struct tide_engine *engine, const struct plan_action *action,
			 uint64_t now_ns)
{
	if (!action->chunks)
		return;
	for (uint32_t i = 0; i < action->n; i++) {
		uint32_t chunk = action->chunks[i];
		enum tide_chunk_state state = (enum tide_chunk_state)engine->plan.states[chunk];

		if (chunk_load(engine->table, chunk) != state)
			chunk_store(engine->table, chunk, state, now_ns);
	}
}

/* The host promises a code with a reason; a code without one still gets words. */
static void complete(struct tide_reason *why, int code, const char *what)
{
	if (code >= 0)
		return;
	if (why->message[0] == '\0')
		tide_reason_set(why, code, why->sys_errno, "the host could not %s", what);
	why->code = code;
}

static void audit(struct tide_engine *engine, struct plan_result *result)
{
	result->audit_code =
		engine->ops->audit(engine->host, &result->audit_bytes, &result->audit_why);
	complete(&result->audit_why, result->audit_code, "say how much memory is committed");
}

static void drain(struct tide_engine *engine, const struct plan_action *action,
		  struct plan_result *result)
{
	/* A chunk on which the host is silent is not drained. */
	for (uint32_t i = 0; i < action->n; i++)
		engine->reports[i] = (struct tide_drain_report){.left = PLAN_LEFT_UNKNOWN};
	result->reports = engine->reports;
	result->code = engine->ops->drain(engine->host, action->chunks, action->n, &action->budget,
					  engine->reports, &result->work, &result->why);
	complete(&result->why, result->code, "drain chunks");
}

static void call_host(struct tide_engine *engine, const struct plan_action *action,
		      struct plan_result *result)
{
	const struct tide_host_ops *ops = engine->ops;
	void *host = engine->host;
	const uint32_t *chunks = action->chunks;
	struct tide_reason *why = &result->why;

	switch (action->verb) {
	case PLAN_SURVEY_CHUNKS:
		memset(engine->facts, 0, sizeof(engine->facts[0]) * action->n);
		ops->survey(host, action->first, action->n, engine->facts);
		result->facts = engine->facts;
		break;
	case PLAN_COMMIT:
		result->code = ops->commit(host, chunks, action->n, why);
		complete(why, result->code, "commit chunks");
		if (result->code == 0)
			audit(engine, result);
		break;
	case PLAN_PUBLISH:
		result->code = ops->publish(host, chunks, action->n, why);
		complete(why, result->code, "publish chunks");
		break;
	case PLAN_FENCE:
		result->code = ops->fence(host, chunks, action->n, why);
		complete(why, result->code, "fence chunks");
		break;
	case PLAN_DRAIN:
		drain(engine, action, result);
		break;
	case PLAN_QUIESCE:
		result->code = ops->quiesce(host, chunks, action->n);
		break;
	case PLAN_DECOMMIT:
		result->code = ops->decommit(host, chunks, action->n, why);
		complete(why, result->code, "decommit chunks");
		audit(engine, result);
		break;
	case PLAN_AUDIT:
		audit(engine, result);
		break;
	case PLAN_LINGER:
	case PLAN_WAIT:
		break;
	}
}

void engine_perform(struct tide_engine *engine, const struct plan_action *action)
{
	struct plan_result result = {0};
	uint64_t begun_ns = engine->ops->clock_ns(engine->host);

	store_states(engine, action, begun_ns);
	engine_report(engine);
	begun_ns = engine->ops->clock_ns(engine->host);
	call_host(engine, action, &result);

	uint64_t ended_ns = engine->ops->clock_ns(engine->host);

	result.took_ns = ended_ns - begun_ns;
	plan_result(&engine->plan, action, &result, ended_ns);
	store_states(engine, action, ended_ns);
}

void engine_report(struct tide_engine *engine)
{
	enum tide_op_state state = engine->plan.progress.state;

	if (state == engine->reported)
		return;
	engine->reported = state;
	if (engine->ops->changed)
		engine->ops->changed(engine->host, &engine->plan.progress);
}
