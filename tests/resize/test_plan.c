/* SPDX-License-Identifier: PostgreSQL */
/*
 * tests/resize/test_plan.c - the plan alone: actions in, results out, no host and no engine.
 */
#include <check.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "resize/plan.h"

#define N 2048u
#define UNIT UINT64_C(2097152)
#define MS UINT64_C(1000000)

/* A plan with its arrays, and the answers that the test gives. */
struct bench {
	struct plan plan;
	uint8_t states[N], keys[N];
	uint32_t order[N], ring[N];
	uint8_t stuck[N]; /* chunks that hold a pin whenever they are drained */
	uint64_t now_ns;
	struct tide_chunk_fact facts[PLAN_SURVEY];
	struct tide_drain_report reports[PLAN_BATCH];
	uint32_t dirty; /* dirty pages in every chunk, one of which is written in a step */
	uint64_t drain_ns;
	uint32_t returned; /* chunks that were exchanged for others */
};

static struct bench a, b;

static void bench_open(struct bench *bench, uint32_t n_active)
{
	struct plan *plan = &bench->plan;

	memset(bench, 0, sizeof(*bench));
	plan->n_chunks = N;
	plan->chunk_bytes = UNIT;
	plan->step_ns = 5 * MS;
	plan->states = bench->states;
	plan->keys = bench->keys;
	plan->order = bench->order;
	plan->ring.chunks = bench->ring;
	plan->ring.capacity = N;
	plan->progress.state = TIDE_OP_IDLE;
	tide_chunk_spread(N, n_active, bench->states);
	for (uint32_t i = 0; i < N; i++) {
		bench->states[i] = bench->states[i] ? TIDE_CHUNK_ACTIVE : TIDE_CHUNK_RETIRED;
		plan->counts[bench->states[i]]++;
	}
	bench->now_ns = 1000 * MS;
	bench->drain_ns = MS / 2;
}

static void begin(struct bench *bench, uint32_t chunks, uint64_t deadline_ns, uint64_t linger_ns)
{
	struct tide_request request = {
		.target_bytes = chunks * UNIT,
		.deadline_ns = deadline_ns,
		.linger_ns = linger_ns,
	};

	ck_assert_int_eq(plan_check(&bench->plan, &request, 0, NULL), 0);
	plan_begin(&bench->plan, &request, 1, plan_backed(&bench->plan) * UNIT, bench->now_ns);
}

/* What the kernel would say: everything is as the plan believes. */
static uint64_t kernel(const struct bench *bench)
{
	return (plan_backed(&bench->plan) + (uint64_t)bench->plan.counts[TIDE_CHUNK_COMMITTING]) *
	       UNIT;
}

static void answer(struct bench *bench, const struct plan_action *action,
		   struct plan_result *result)
{
	result->audit_bytes = kernel(bench);
	result->facts = bench->facts;
	result->reports = bench->reports;
	if (action->verb == PLAN_DRAIN) {
		bench->now_ns += bench->drain_ns;
		for (uint32_t i = 0; i < action->n; i++) {
			uint32_t stuck = bench->stuck[action->chunks[i]];

			bench->reports[i].pinned = stuck;
			bench->reports[i].left = stuck + bench->dirty;
			bench->reports[i].dirty = bench->dirty;
		}
		if (bench->dirty > 0)
			bench->dirty--;
	} else {
		bench->now_ns += MS / 10;
	}
}

/* One action, its rules checked; 0 when the operation has ended. */
static int turn(struct bench *bench, struct plan_action *action)
{
	struct plan *plan = &bench->plan;
	struct plan_result result = {0};

	plan_next(plan, bench->now_ns, action);
	ck_assert_int_eq(plan_is_valid(plan), 1);
	if (action->chunks) {
		ck_assert_uint_gt(action->n, 0);
		for (uint32_t i = 1; i < action->n; i++)
			ck_assert_uint_lt(action->chunks[i - 1], action->chunks[i]);
	}
	if (plan->aim.direction == TIDE_DIRECTION_SHRINK && !plan->undoing)
		ck_assert_uint_ge(plan->counts[TIDE_CHUNK_ACTIVE], plan->aim.goal);
	if (plan->aim.direction == TIDE_DIRECTION_GROW)
		ck_assert_uint_le(plan_usable(plan), plan->aim.goal);
	ck_assert_uint_le(plan->n_slots, PLAN_BATCH);
	if (action->verb == PLAN_PUBLISH && plan->stage == PLAN_STAGE_SHRINK)
		bench->returned += action->n;
	if (action->verb == PLAN_WAIT)
		bench->now_ns += action->wait_ns;
	answer(bench, action, &result);
	result.took_ns = action->verb == PLAN_COMMIT ? action->n * MS / 5 : MS / 10;
	plan_result(plan, action, &result, bench->now_ns);
	return plan_running(plan);
}

static void run(struct bench *bench)
{
	struct plan_action action;
	uint32_t turns = 0;

	while (turn(bench, &action))
		ck_assert_uint_lt(turns++, 100000);
}

START_TEST(the_same_calls_give_the_same_actions)
{
	struct plan_action x, y;
	int more = 1;

	bench_open(&a, N);
	bench_open(&b, N);
	for (uint32_t i = 0; i < N; i += 7)
		a.stuck[i] = b.stuck[i] = 1;
	begin(&a, 100, 500 * MS, 0);
	begin(&b, 100, 500 * MS, 0);
	while (more) {
		more = turn(&a, &x);
		ck_assert_int_eq(turn(&b, &y), more);
		ck_assert_int_eq(x.verb, y.verb);
		ck_assert_uint_eq(x.n, y.n);
		ck_assert_uint_eq(x.wait_ns, y.wait_ns);
		ck_assert_mem_eq(a.states, b.states, N);
	}
	ck_assert_int_eq(a.plan.progress.state, TIDE_OP_PARTIAL);
}
END_TEST

START_TEST(nothing_is_allocated)
{
	bench_open(&a, N / 2);
	begin(&a, N, 0, 0);

	size_t before = mallinfo2().uordblks;
	struct plan_action action;

	while (plan_running(&a.plan)) {
		struct plan_result result = {.audit_bytes = 0};

		plan_next(&a.plan, a.now_ns, &action);
		answer(&a, &action, &result);
		plan_result(&a.plan, &action, &result, a.now_ns);
	}
	ck_assert_uint_eq(mallinfo2().uordblks, before);
	ck_assert_int_eq(a.plan.progress.state, TIDE_OP_DONE);
}
END_TEST

START_TEST(grow_goes_commit_publish_commit_publish)
{
	struct plan_action action;
	uint32_t expected = 1;

	bench_open(&a, N / 2);
	begin(&a, N, 0, 0);
	for (int i = 0; i < 4; i++) {
		ck_assert_int_eq(turn(&a, &action), 1);
		ck_assert_int_eq(action.verb, PLAN_COMMIT);
		ck_assert_uint_eq(action.n, expected);
		for (uint32_t k = 0; k < action.n; k++)
			ck_assert_int_eq(a.states[action.chunks[k]], TIDE_CHUNK_FENCED);
		ck_assert_int_eq(turn(&a, &action), 1);
		ck_assert_int_eq(action.verb, PLAN_PUBLISH);
		ck_assert_uint_eq(action.n, expected);
		expected *= 2;
	}
	run(&a);
	ck_assert_int_eq(a.plan.progress.state, TIDE_OP_DONE);
	ck_assert_uint_eq(a.plan.counts[TIDE_CHUNK_ACTIVE], N);
}
END_TEST

START_TEST(shrink_goes_through_its_phases)
{
	struct plan_action action;
	const enum plan_verb verbs[] = {
		PLAN_SURVEY_CHUNKS, PLAN_FENCE, PLAN_DRAIN, PLAN_QUIESCE, PLAN_DECOMMIT, PLAN_AUDIT,
	};

	bench_open(&a, N);
	begin(&a, N - 10, 0, 0);
	for (unsigned i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		(void)turn(&a, &action);
		ck_assert_int_eq(action.verb, verbs[i]);
	}
	ck_assert_int_eq(a.plan.progress.state, TIDE_OP_DONE);
}
END_TEST

START_TEST(batches_are_full)
{
	struct plan_action action;
	uint32_t turns = 0;

	bench_open(&a, N);
	begin(&a, N / 4, 0, 0);
	while (turn(&a, &action))
		turns++;
	/* 1,536 chunks at 512 a batch, after some smaller ones: a few dozen actions. */
	ck_assert_uint_lt(turns, 50);
}
END_TEST

START_TEST(stuck_chunks_are_exchanged_after_three_strikes)
{
	bench_open(&a, N);
	for (uint32_t i = 0; i < N; i += 10)
		a.stuck[i] = 1;
	begin(&a, N / 4, 0, 0);
	run(&a);
	ck_assert_int_eq(a.plan.progress.state, TIDE_OP_DONE);
	ck_assert_uint_gt(a.returned, 0);
	for (uint32_t i = 0; i < N; i += 10)
		ck_assert_int_eq(a.states[i], TIDE_CHUNK_ACTIVE);
}
END_TEST

START_TEST(surveyed_pins_are_not_even_tried)
{
	bench_open(&a, N);
	for (uint32_t i = 0; i < N; i += 10)
		a.stuck[i] = (uint8_t)(a.facts[i].pinned = 1);
	begin(&a, N / 4, 0, 0);
	run(&a);
	ck_assert_int_eq(a.plan.progress.state, TIDE_OP_DONE);
	ck_assert_uint_eq(a.returned, 0);
}
END_TEST

START_TEST(the_last_wait_ends_at_the_deadline)
{
	bench_open(&a, N);
	memset(a.stuck, 1, sizeof(a.stuck));
	begin(&a, N / 4, 777 * MS, 0);
	run(&a);
	ck_assert_int_eq(a.plan.progress.state, TIDE_OP_PARTIAL);
	ck_assert_int_eq(a.plan.progress.reason.code, TIDE_PINNED_BUFFERS);
	ck_assert_uint_ge(a.plan.progress.elapsed_ns, 777 * MS);
	ck_assert_uint_lt(a.plan.progress.elapsed_ns, 790 * MS);
	ck_assert_uint_eq(a.plan.counts[TIDE_CHUNK_ACTIVE], N);
}
END_TEST

START_TEST(a_grow_past_its_deadline_is_taken_back)
{
	bench_open(&a, N / 2);
	begin(&a, N, 2 * MS, 0);
	run(&a);
	ck_assert_int_eq(a.plan.progress.state, TIDE_OP_CANCELLED);
	ck_assert_uint_eq(a.plan.counts[TIDE_CHUNK_ACTIVE], N / 2);
	ck_assert_uint_eq(a.plan.counts[TIDE_CHUNK_RETIRED], N / 2);
	ck_assert_ptr_nonnull(strstr(a.plan.progress.reason.message, "deadline"));
}
END_TEST

START_TEST(an_undo_that_never_stalls_ends_too)
{
	struct tide_reason why = {.code = TIDE_CANCELLED};
	struct plan_action action;

	bench_open(&a, N / 2);
	begin(&a, N, 0, 0);
	for (int i = 0; i < 10; i++)
		(void)turn(&a, &action);
	/* Each step writes something, so something always moves, and it never gets done. */
	a.dirty = UINT32_MAX / 2;
	a.drain_ns = 100 * MS;
	plan_cancel(&a.plan, &why);

	uint64_t before = a.now_ns;

	run(&a);
	ck_assert_int_eq(a.plan.progress.state, TIDE_OP_PARTIAL);
	ck_assert_int_eq(a.plan.progress.reason.code, TIDE_CANCELLED);
	ck_assert_uint_ge(a.now_ns - before, PLAN_UNDO_LIMIT_NS);
	ck_assert_uint_lt(a.now_ns - before, PLAN_UNDO_LIMIT_NS + 500 * MS);
}
END_TEST

START_TEST(an_estimate_while_it_lasts)
{
	struct plan_action action;
	uint64_t estimates = 0;

	bench_open(&a, N);
	begin(&a, N / 4, 0, 0);
	ck_assert_uint_eq(a.plan.progress.eta_ns, 0);
	while (turn(&a, &action)) {
		estimates += a.plan.progress.eta_ns > 0;
		ck_assert_uint_le(a.plan.progress.chunks_done, a.plan.progress.chunks_total);
	}
	ck_assert_uint_gt(estimates, 0);
	ck_assert_uint_eq(a.plan.progress.eta_ns, 0);
}
END_TEST

START_TEST(lingering_releases_nothing)
{
	struct plan_action action;

	bench_open(&a, N);
	begin(&a, N / 4, 0, 1000 * MS);
	while (turn(&a, &action))
		ck_assert_int_ne(action.verb, PLAN_DECOMMIT);
	ck_assert_uint_eq(a.plan.counts[TIDE_CHUNK_LINGERING], N - N / 4);
	ck_assert_uint_eq(a.plan.progress.chunks_done, N - N / 4);
	ck_assert_uint_eq(a.plan.progress.returned_bytes, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("plan");
	TCase *tc = tcase_create("actions");
	SRunner *runner;

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, the_same_calls_give_the_same_actions);
	tcase_add_test(tc, nothing_is_allocated);
	tcase_add_test(tc, grow_goes_commit_publish_commit_publish);
	tcase_add_test(tc, shrink_goes_through_its_phases);
	tcase_add_test(tc, batches_are_full);
	tcase_add_test(tc, stuck_chunks_are_exchanged_after_three_strikes);
	tcase_add_test(tc, surveyed_pins_are_not_even_tried);
	tcase_add_test(tc, the_last_wait_ends_at_the_deadline);
	tcase_add_test(tc, a_grow_past_its_deadline_is_taken_back);
	tcase_add_test(tc, an_undo_that_never_stalls_ends_too);
	tcase_add_test(tc, an_estimate_while_it_lasts);
	tcase_add_test(tc, lingering_releases_nothing);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);

	int failed = srunner_ntests_failed(runner);

	srunner_free(runner);
	return failed ? 1 : 0;
}
