/* SPDX-License-Identifier: PostgreSQL */
/*
 * tests/resize/sim_host.c - a host that exists in memory only. Included by the tests that use it,
 * because every test program is built from one source file.
 */
#include "sim_host.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((format(printf, 2, 3))) static void broken(struct sim *sim, const char *format, ...)
{
	va_list args;

	if (sim->broken[0] != '\0')
		return;
	va_start(args, format);
	vsnprintf(sim->broken, sizeof(sim->broken), format, args);
	va_end(args);
}

static struct sim_buffer *buffers_of(const struct sim *sim, uint32_t chunk)
{
	return sim->buffers + (size_t)chunk * SIM_BUFFERS;
}

static enum tide_chunk_state state_of(const struct sim *sim, uint32_t chunk)
{
	return (enum tide_chunk_state)atomic_load(&sim->table->chunk[chunk].state);
}

static int any_usable(const struct sim *sim, uint32_t chunk)
{
	for (uint32_t b = 0; b < SIM_BUFFERS; b++)
		if (buffers_of(sim, chunk)[b].usable)
			return 1;
	return 0;
}

uint64_t sim_random(struct sim *sim, uint64_t below)
{
	/* xorshift64* */
	sim->random ^= sim->random >> 12;
	sim->random ^= sim->random << 25;
	sim->random ^= sim->random >> 27;
	return (sim->random * UINT64_C(0x2545F4914F6CDD1D) >> 16) % below;
}

static uint64_t sim_clock(void *host)
{
	struct sim *sim = host;

	return sim->now_ns;
}

static void check_chunks(struct sim *sim, const char *what, const uint32_t *chunks, uint32_t n)
{
	if (n == 0)
		broken(sim, "%s without chunks", what);
	for (uint32_t i = 0; i < n; i++)
		if (chunks[i] >= sim->n_chunks || (i > 0 && chunks[i] <= chunks[i - 1]))
			broken(sim, "%s: chunks out of range or not ascending", what);
}

/* How much of the work of @n chunks is done before this call fails or the engine dies; -1 = all. */
static int64_t interrupted(struct sim *sim, enum sim_op op, uint32_t n, struct tide_reason *why,
			   int *code)
{
	sim->now_ns += 1000;
	sim->calls[op]++;
	sim->all_calls++;
	*code = 0;
	if (sim->crash_at > 0 && sim->all_calls == sim->crash_at) {
		*code = 1;
		return (int64_t)sim_random(sim, n + 1u);
	}
	if (sim->calls[op] == sim->fail_at[op] ||
	    (sim->fail_percent > 0 && sim_random(sim, 100) < sim->fail_percent)) {
		*code = sim->fail_code[op] ? sim->fail_code[op] : TIDE_HOST_ERROR;
		if (!sim->silent)
			tide_reason_set(why, *code, 0, "failure %d of the simulated host", (int)op);
		return (int64_t)(n / 2);
	}
	return -1;
}

static void die(struct sim *sim)
{
	sim->crash_at = 0;
	longjmp(sim->crash, 1);
}

static void sim_survey(void *host, uint32_t first, uint32_t n, struct tide_chunk_fact *facts)
{
	struct sim *sim = host;

	if ((uint64_t)first + n > sim->n_chunks)
		broken(sim, "survey beyond the table");
	sim->surveyed_chunks += n;
	for (uint32_t i = 0; i < n; i++) {
		struct sim_buffer *b = buffers_of(sim, first + i);

		for (uint32_t k = 0; k < SIM_BUFFERS; k++) {
			facts[i].heat += b[k].heat;
			facts[i].pinned += b[k].pins > 0;
			facts[i].dirty += b[k].dirty;
		}
	}
}

static int sim_preflight(void *host, uint64_t bytes, struct tide_reason *why)
{
	struct sim *sim = host;
	int code;

	if (interrupted(sim, SIM_PREFLIGHT, 0, why, &code) >= 0 && code < 0)
		return code;
	if (bytes <= sim->preflight_have)
		return 0;
	tide_reason_set(why, TIDE_HUGEPAGES_SHORT, 0, "the simulated machine has too little");
	tide_reason_bytes(why, bytes, sim->preflight_have);
	return TIDE_HUGEPAGES_SHORT;
}

/* Compact: no chunk is passed over that could have been taken instead. */
static void check_lowest(struct sim *sim, const uint32_t *chunks, uint32_t n)
{
	for (uint32_t i = 0; n > 0 && i < chunks[n - 1]; i++)
		if (state_of(sim, i) == TIDE_CHUNK_RETIRED)
			broken(sim, "commit of chunk %u while chunk %u is retired", chunks[n - 1],
			       i);
}

static int sim_commit(void *host, const uint32_t *chunks, uint32_t n, struct tide_reason *why)
{
	struct sim *sim = host;
	int code;
	int64_t part = interrupted(sim, SIM_COMMIT, n, why, &code);

	check_chunks(sim, "commit", chunks, n);
	if (sim->config.compact)
		check_lowest(sim, chunks, n);
	for (uint32_t i = 0; i < n; i++) {
		if (sim->backed[chunks[i]] || state_of(sim, chunks[i]) != TIDE_CHUNK_COMMITTING)
			broken(sim, "commit of chunk %u in state %s", chunks[i],
			       tide_chunk_state_name(state_of(sim, chunks[i])));
		if (code >= 0 && (part < 0 || i < part)) {
			sim->backed[chunks[i]] = 1;
			sim->verified[chunks[i]] = 0;
			sim->now_ns += sim->chunk_ns;
		}
	}
	if (code > 0)
		die(sim);
	if (code < 0)
		return code; /* all or nothing */
	sim->committed_chunks += n;
	if (sim->first_commit == 0)
		sim->first_commit = n;
	if (n > sim->largest_commit)
		sim->largest_commit = n;
	return 0;
}

static int sim_publish(void *host, const uint32_t *chunks, uint32_t n, struct tide_reason *why)
{
	struct sim *sim = host;
	int code;
	int64_t part = interrupted(sim, SIM_PUBLISH, n, why, &code);

	check_chunks(sim, "publish", chunks, n);
	for (uint32_t i = 0; i < n; i++) {
		enum tide_chunk_state state = state_of(sim, chunks[i]);

		if (!sim->backed[chunks[i]] || !sim->verified[chunks[i]])
			broken(sim, "publish of chunk %u without verified memory", chunks[i]);
		if (state != TIDE_CHUNK_FENCED && state != TIDE_CHUNK_DRAINING &&
		    state != TIDE_CHUNK_QUIESCING)
			broken(sim, "publish of chunk %u in state %s", chunks[i],
			       tide_chunk_state_name(state));
		if (part >= 0 && i >= part)
			continue;
		for (uint32_t b = 0; b < SIM_BUFFERS; b++)
			buffers_of(sim, chunks[i])[b].usable = 1;
	}
	if (code > 0)
		die(sim);
	return code;
}

static int sim_fence(void *host, const uint32_t *chunks, uint32_t n, struct tide_reason *why)
{
	struct sim *sim = host;
	int code;
	int64_t part = interrupted(sim, SIM_FENCE, n, why, &code);

	check_chunks(sim, "fence", chunks, n);
	if (n > 512)
		broken(sim, "fence of %u chunks", n);
	for (uint32_t i = 0; i < n; i++) {
		if (!sim->backed[chunks[i]] || state_of(sim, chunks[i]) != TIDE_CHUNK_FENCED)
			broken(sim, "fence of chunk %u in state %s", chunks[i],
			       tide_chunk_state_name(state_of(sim, chunks[i])));
		if (part >= 0 && i >= part)
			continue;
		for (uint32_t b = 0; b < SIM_BUFFERS; b++) {
			struct sim_buffer *buffer = &buffers_of(sim, chunks[i])[b];

			if (!buffer->valid && buffer->pins == 0)
				buffer->usable = 0;
		}
	}
	if (code > 0)
		die(sim);
	return code;
}

/* Drain one buffer: write it if dirty and affordable, drop it if nobody uses it. */
static void drain_buffer(struct sim *sim, struct sim_buffer *buffer,
			 const struct tide_drain_budget *budget, uint64_t *spent,
			 struct tide_drain_report *report, struct tide_drain_work *work)
{
	if (!buffer->usable)
		return;
	if (buffer->pins == 0 && buffer->dirty && *spent + SIM_PAGE <= budget->write_bytes) {
		*spent += SIM_PAGE;
		sim->written_bytes += SIM_PAGE;
		sim->now_ns += sim->page_ns;
		work->written_pages++;
		buffer->dirty = 0;
	}
	if (buffer->pins == 0 && !buffer->dirty) {
		work->evicted_pages += buffer->valid;
		buffer->valid = 0;
		buffer->heat = 0;
		buffer->usable = 0;
		sim->now_ns += 100;
		return;
	}
	report->left++;
	report->pinned += buffer->pins > 0;
	report->dirty += buffer->dirty;
}

static int sim_drain(void *host, const uint32_t *chunks, uint32_t n,
		     const struct tide_drain_budget *budget, struct tide_drain_report *reports,
		     struct tide_drain_work *work, struct tide_reason *why)
{
	struct sim *sim = host;
	uint64_t spent = 0, begun_ns = sim->now_ns;
	int code;
	int64_t part = interrupted(sim, SIM_DRAIN, n, why, &code);

	check_chunks(sim, "drain", chunks, n);
	for (uint32_t i = 0; i < n; i++) {
		if (!sim->backed[chunks[i]] || state_of(sim, chunks[i]) != TIDE_CHUNK_DRAINING)
			broken(sim, "drain of chunk %u in state %s", chunks[i],
			       tide_chunk_state_name(state_of(sim, chunks[i])));
		if (sim->now_ns - begun_ns > budget->work_ns)
			continue; /* out of time: silent on the rest */
		if (part >= 0 && i >= part)
			continue;
		reports[i] = (struct tide_drain_report){0};
		for (uint32_t b = 0; b < SIM_BUFFERS; b++)
			drain_buffer(sim, &buffers_of(sim, chunks[i])[b], budget, &spent,
				     &reports[i], work);
	}
	if (code > 0)
		die(sim);
	return code;
}

static int sim_quiesce(void *host, const uint32_t *chunks, uint32_t n)
{
	struct sim *sim = host;

	check_chunks(sim, "quiesce", chunks, n);
	for (uint32_t i = 0; i < n; i++)
		if (any_usable(sim, chunks[i]) || state_of(sim, chunks[i]) != TIDE_CHUNK_QUIESCING)
			broken(sim, "quiesce of chunk %u, not drained", chunks[i]);
	sim->now_ns += 1000;
	return sim->readers > 0;
}

static int sim_decommit(void *host, const uint32_t *chunks, uint32_t n, struct tide_reason *why)
{
	struct sim *sim = host;
	int code;
	int64_t part = interrupted(sim, SIM_DECOMMIT, n, why, &code);

	check_chunks(sim, "decommit", chunks, n);
	for (uint32_t i = 0; i < n; i++) {
		enum tide_chunk_state state = state_of(sim, chunks[i]);

		if (state != TIDE_CHUNK_RELEASING && state != TIDE_CHUNK_COMMITTING)
			broken(sim, "decommit of chunk %u in state %s", chunks[i],
			       tide_chunk_state_name(state));
		if (any_usable(sim, chunks[i]))
			broken(sim, "decommit of chunk %u under usable buffers", chunks[i]);
		if (part >= 0 && i >= part)
			continue;
		sim->backed[chunks[i]] = 0;
		sim->verified[chunks[i]] = 0;
		sim->decommitted_chunks++;
	}
	if (code > 0)
		die(sim);
	return code;
}

static int sim_audit(void *host, uint64_t *committed_bytes, struct tide_reason *why)
{
	struct sim *sim = host;
	int code;

	if (interrupted(sim, SIM_AUDIT, 0, why, &code) >= 0 && code < 0)
		return code;
	if (code > 0)
		die(sim);

	int64_t shown = (int64_t)(sim_backed_bytes(sim) / SIM_CHUNK) + sim->audit_skew;

	*committed_bytes = (uint64_t)(shown > 0 ? shown : 0) * SIM_CHUNK;

	/* Chunks being released may make up for others: their part proves nothing. */
	int64_t surplus = sim->audit_skew;

	for (uint32_t i = 0; i < sim->n_chunks; i++)
		surplus += sim->backed[i] && state_of(sim, i) == TIDE_CHUNK_RELEASING;
	for (uint32_t i = 0; i < sim->n_chunks && surplus >= 0; i++)
		sim->verified[i] = sim->backed[i];
	return 0;
}

static void sim_changed(void *host, const struct tide_progress *progress)
{
	struct sim *sim = host;

	sim->n_changed++;
	if (progress->op != sim->last.op)
		sim->released_before = sim->decommitted_chunks;
	sim->last = *progress;
	if (progress->dry_run || progress->op == 0)
		broken(sim, "a dry run was announced as an operation");
	if (!tide_op_state_ended(progress->state)) {
		if (sim->ends[progress->op % SIM_OPS_MAX])
			broken(sim, "operation %u goes on after its end", (unsigned)progress->op);
		return;
	}
	if (progress->returned_bytes >
	    (uint64_t)(sim->decommitted_chunks - sim->released_before) * SIM_CHUNK)
		broken(sim, "operation %u returned more than the kernel got",
		       (unsigned)progress->op);
	if (progress->op < SIM_OPS_MAX && ++sim->ends[progress->op] > 1)
		broken(sim, "operation %u ended twice", (unsigned)progress->op);
	sim->n_ends++;
}

const struct tide_host_ops sim_ops = {
	.clock_ns = sim_clock,
	.survey = sim_survey,
	.preflight = sim_preflight,
	.commit = sim_commit,
	.publish = sim_publish,
	.fence = sim_fence,
	.drain = sim_drain,
	.quiesce = sim_quiesce,
	.decommit = sim_decommit,
	.audit = sim_audit,
	.changed = sim_changed,
};

void sim_open(struct sim *sim, uint32_t n_chunks, uint32_t n_active, uint64_t seed)
{
	uint8_t *chosen = calloc(n_chunks, 1);

	memset(sim, 0, sizeof(*sim));
	sim->n_chunks = n_chunks;
	sim->random = seed * 2 + 1;
	sim->now_ns = UINT64_C(1000000000);
	sim->preflight_have = UINT64_MAX;
	sim->chunk_ns = 100000;
	sim->page_ns = 20000;
	sim->table = malloc(tide_chunk_table_bytes(n_chunks));
	sim->backed = calloc(n_chunks, 1);
	sim->verified = calloc(n_chunks, 1);
	sim->buffers = calloc((size_t)n_chunks * SIM_BUFFERS, sizeof(sim->buffers[0]));
	tide_chunk_table_init(sim->table, n_chunks, SIM_CHUNK);
	tide_chunk_spread(n_chunks, n_active, chosen);
	for (uint32_t i = 0; i < n_chunks; i++) {
		if (!chosen[i])
			continue;
		sim->backed[i] = sim->verified[i] = 1;
		for (uint32_t b = 0; b < SIM_BUFFERS; b++)
			buffers_of(sim, i)[b].usable = 1;
		atomic_store(&sim->table->chunk[i].state, TIDE_CHUNK_ACTIVE);
	}
	free(chosen);
	sim->config = (struct tide_engine_config){
		.table = sim->table,
		.min_bytes = SIM_CHUNK,
	};
	sim_restart(sim);
}

void sim_close(struct sim *sim)
{
	tide_engine_close(sim->engine);
	free(sim->table);
	free(sim->backed);
	free(sim->verified);
	free(sim->buffers);
}

void sim_restart(struct sim *sim)
{
	struct tide_reason why;

	sim->config.first_op = sim->last.op + 1;
	tide_engine_close(sim->engine);
	if (tide_engine_open(&sim->config, &sim_ops, sim, &sim->engine, &why) != 0)
		broken(sim, "engine does not open: %.200s", why.message);
}

void sim_pin(struct sim *sim, uint32_t chunk)
{
	struct sim_buffer *buffer = &buffers_of(sim, chunk)[chunk % SIM_BUFFERS];

	if (!buffer->usable)
		return;
	buffer->valid = 1;
	buffer->pins = 1;
}

void sim_unpin(struct sim *sim, uint32_t chunk)
{
	buffers_of(sim, chunk)[chunk % SIM_BUFFERS].pins = 0;
}

void sim_unpin_all(struct sim *sim)
{
	for (uint32_t i = 0; i < sim->n_chunks; i++)
		sim_unpin(sim, i);
}

void sim_fill(struct sim *sim, uint32_t dirty_percent)
{
	for (uint32_t i = 0; i < sim->n_chunks; i++) {
		for (uint32_t b = 0; b < SIM_BUFFERS; b++) {
			struct sim_buffer *buffer = &buffers_of(sim, i)[b];

			if (!buffer->usable)
				continue;
			buffer->valid = 1;
			buffer->heat = 3;
			buffer->dirty = sim_random(sim, 100) < dirty_percent;
		}
	}
}

uint32_t sim_count(const struct sim *sim, enum tide_chunk_state state)
{
	uint32_t counts[TIDE_CHUNK_STATES];

	tide_chunk_counts(sim->table, counts);
	return counts[state];
}

uint64_t sim_backed_bytes(const struct sim *sim)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < sim->n_chunks; i++)
		n += sim->backed[i];
	return n * SIM_CHUNK;
}

void sim_check(struct sim *sim)
{
	uint32_t active = 0;

	if (!tide_chunk_table_valid(sim->table))
		broken(sim, "the table is not valid");
	for (uint32_t i = 0; i < sim->n_chunks; i++) {
		enum tide_chunk_state state = state_of(sim, i);

		active += state == TIDE_CHUNK_ACTIVE;
		if (any_usable(sim, i) && !sim->backed[i])
			broken(sim, "chunk %u: usable buffers without memory", i);
		if (any_usable(sim, i) && !sim->verified[i])
			broken(sim, "chunk %u: usable buffers, never verified", i);
		switch (state) {
		case TIDE_CHUNK_RETIRED:
			if (sim->backed[i])
				broken(sim, "chunk %u: retired with memory", i);
			break;
		case TIDE_CHUNK_COMMITTING:
		case TIDE_CHUNK_RELEASING:
			if (any_usable(sim, i))
				broken(sim, "chunk %u: usable while %s", i,
				       tide_chunk_state_name(state));
			break;
		case TIDE_CHUNK_LINGERING:
			if (!sim->backed[i] || any_usable(sim, i))
				broken(sim, "chunk %u: lingers without memory or usable", i);
			break;
		default:
			if (!sim->backed[i])
				broken(sim, "chunk %u: %s without memory", i,
				       tide_chunk_state_name(state));
		}
	}
	if ((uint64_t)active * SIM_CHUNK > sim_backed_bytes(sim))
		broken(sim, "more active than committed");
}

int sim_step(struct sim *sim)
{
	uint64_t wait_ns = 0;
	int running = tide_engine_step(sim->engine, &wait_ns);

	sim_check(sim);
	if (wait_ns != UINT64_MAX)
		sim->now_ns += wait_ns;
	return running;
}

enum tide_op_state sim_run(struct sim *sim)
{
	for (uint32_t steps = 0; sim_step(sim); steps++)
		if (steps > 200000) {
			broken(sim, "no end after %u steps", steps);
			break;
		}
	return sim_progress(sim).state;
}

struct tide_request sim_request(uint64_t chunks)
{
	return (struct tide_request){.target_bytes = chunks * SIM_CHUNK};
}

int sim_submit(struct sim *sim, const struct tide_request *request, int supersede)
{
	struct tide_reason why;
	int code = tide_engine_submit(sim->engine, request, supersede, &why);

	sim_check(sim);
	return code;
}

struct tide_progress sim_progress(const struct sim *sim)
{
	struct tide_progress progress;

	tide_engine_progress(sim->engine, &progress);
	return progress;
}
