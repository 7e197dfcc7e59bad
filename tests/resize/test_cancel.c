/* SPDX-License-Identifier: PostgreSQL */
/*
 * tests/resize/test_cancel.c - operations that are cancelled, superseded or taken back, at every step.
 */
#include "engine_fixture.h"

START_TEST(cancel_at_every_step_of_a_grow)
{
	int running = 1;

	for (uint32_t k = 0; running; k++) {
		struct tide_request request = sim_request(64);

		sim_open(&sim, 64, 16, k);
		ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
		for (uint32_t i = 0; i < k && running; i++)
			running = sim_step(&sim);
		tide_engine_cancel(sim.engine, TIDE_HOST_ERROR, "the server is shutting down");
		(void)sim_run(&sim);

		struct tide_progress p = sim_progress(&sim);

		if (sim_count(&sim, TIDE_CHUNK_ACTIVE) == 64) {
			ck_assert_int_eq(p.state, TIDE_OP_DONE);
		} else {
			ck_assert_int_eq(p.state, TIDE_OP_CANCELLED);
			ck_assert_int_eq(p.reason.code, TIDE_HOST_ERROR);
			ck_assert_str_eq(p.reason.message, "the server is shutting down");
			ck_assert_uint_eq(sim_count(&sim, TIDE_CHUNK_ACTIVE), 16);
		}
		ck_assert_uint_eq(sim.n_ends, 1);
		ck_settled();
		teardown();
	}
	sim_open(&sim, 1, 1, 1);
}
END_TEST

START_TEST(cancel_at_every_step_of_a_shrink)
{
	int running = 1;

	for (uint32_t k = 0; running; k++) {
		struct tide_request request = sim_request(16);

		sim_open(&sim, 64, 64, k);
		sim_fill(&sim, 30);
		request.flush_bytes_per_s = 2000000; /* more steps */
		ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
		for (uint32_t i = 0; i < k && running; i++)
			running = sim_step(&sim);

		uint32_t released = sim.decommitted_chunks;

		tide_engine_cancel(sim.engine, 0, NULL);
		(void)sim_run(&sim);
		if (sim_progress(&sim).state != TIDE_OP_DONE) {
			ck_assert_int_eq(sim_progress(&sim).state, TIDE_OP_CANCELLED);
			ck_assert_int_eq(sim_progress(&sim).reason.code, TIDE_CANCELLED);
		}
		ck_assert_uint_eq(sim.decommitted_chunks, released);
		ck_assert_uint_eq(sim_count(&sim, TIDE_CHUNK_ACTIVE), 64 - released);
		ck_assert_uint_eq(sim.n_ends, 1);
		ck_settled();
		teardown();
	}
	sim_open(&sim, 1, 1, 1);
}
END_TEST

/* After k steps of a resize from one size the opposite is asked for. */
static void oppose(uint32_t from, uint32_t to, uint32_t back)
{
	int running = 1;

	for (uint32_t k = 0; running; k++) {
		struct tide_request request = sim_request(to);

		sim_open(&sim, 64, from, k);
		sim_fill(&sim, 30);
		ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
		for (uint32_t i = 0; i < k && running; i++)
			running = sim_step(&sim);
		request = sim_request(back);
		if (running)
			ck_assert_int_eq(sim_submit(&sim, &request, 0), TIDE_OP_IN_PROGRESS);
		ck_assert_int_eq(sim_submit(&sim, &request, 1), 0);
		ck_assert_uint_eq(sim_progress(&sim).op, 2);
		ck_assert_int_eq(sim_run(&sim), TIDE_OP_DONE);
		ck_assert_uint_eq(sim.n_ends, 2);
		ck_assert_uint_eq(sim_count(&sim, TIDE_CHUNK_ACTIVE), back);
		ck_settled();
		teardown();
	}
	sim_open(&sim, 1, 1, 1);
}

START_TEST(opposite_request_at_every_step)
{
	oppose(16, 64, 8);
	sim_close(&sim);
	oppose(64, 16, 64);
}
END_TEST

START_TEST(superseded_says_by_what)
{
	struct tide_request request = sim_request(16);

	sim_open(&sim, 64, 64, 1);
	sim_fill(&sim, 0);
	for (uint32_t i = 0; i < 64; i++)
		sim_pin(&sim, i);
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	for (int i = 0; i < 10; i++)
		(void)sim_step(&sim);
	request = sim_request(64);
	ck_assert_int_eq(sim_submit(&sim, &request, 1), 0);
	/* The second has nothing to do and is done at once; the pins did not matter. */
	ck_assert_int_eq(sim_progress(&sim).state, TIDE_OP_DONE);
	ck_assert_int_eq(sim_progress(&sim).direction, TIDE_DIRECTION_NONE);
	ck_assert_uint_eq(sim.n_ends, 2);
	ck_settled();
}
END_TEST

/* Whoever pins all that is usable holds the undo of a grow up: it must end all the same. */
START_TEST(undo_of_a_grow_is_bounded)
{
	struct tide_request request = sim_request(64);

	sim_open(&sim, 64, 16, 1);
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	for (int i = 0; i < 8; i++)
		(void)sim_step(&sim);
	ck_assert_uint_gt(sim_count(&sim, TIDE_CHUNK_ACTIVE), 16);
	sim_fill(&sim, 0);
	for (uint32_t i = 0; i < 64; i++)
		sim_pin(&sim, i);

	uint32_t grown = sim_count(&sim, TIDE_CHUNK_ACTIVE);
	uint64_t before_ns = sim.now_ns;

	tide_engine_cancel(sim.engine, 0, NULL);
	ck_assert_int_eq(sim_run(&sim), TIDE_OP_PARTIAL);
	ck_assert_int_eq(sim_progress(&sim).reason.code, TIDE_CANCELLED);
	ck_assert_uint_eq(sim_count(&sim, TIDE_CHUNK_ACTIVE), grown);
	ck_assert_uint_lt(sim.now_ns - before_ns, 2 * PLAN_UNDO_STALL_NS);
	ck_settled();
}
END_TEST

START_TEST(undo_of_a_grow_takes_any_chunk)
{
	struct tide_request request = sim_request(64);

	sim_open(&sim, 64, 32, 1);
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	for (int i = 0; i < 6; i++)
		(void)sim_step(&sim);
	sim_fill(&sim, 0);
	/* Everything that came with this operation is pinned; what was there before is not. */
	for (uint32_t i = 1; i < 64; i += 2)
		sim_pin(&sim, i);
	ck_assert_uint_gt(sim_count(&sim, TIDE_CHUNK_ACTIVE), 32);
	tide_engine_cancel(sim.engine, 0, NULL);
	ck_assert_int_eq(sim_run(&sim), TIDE_OP_CANCELLED);
	ck_assert_uint_eq(sim_count(&sim, TIDE_CHUNK_ACTIVE), 32);
	ck_settled();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("cancel");
	TCase *tc = tcase_create("resize");
	SRunner *runner;

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, NULL, teardown);
	tcase_add_test(tc, cancel_at_every_step_of_a_grow);
	tcase_add_test(tc, cancel_at_every_step_of_a_shrink);
	tcase_add_test(tc, opposite_request_at_every_step);
	tcase_add_test(tc, superseded_says_by_what);
	tcase_add_test(tc, undo_of_a_grow_is_bounded);
	tcase_add_test(tc, undo_of_a_grow_takes_any_chunk);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);

	int failed = srunner_ntests_failed(runner);

	srunner_free(runner);
	return failed ? 1 : 0;
}
