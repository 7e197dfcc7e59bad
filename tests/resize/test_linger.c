/* SPDX-License-Identifier: PostgreSQL */
/*
 * tests/resize/test_linger.c - drained chunks that stay committed for a while.
 */
#include "engine_fixture.h"

START_TEST(lingering_comes_back_without_commit)
{
	struct tide_request request = sim_request(16);

	sim_open(&sim, 64, 64, 1);
	sim_fill(&sim, 0);
	request.linger_ns = UINT64_C(60000000000);
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	ck_assert_int_eq(sim_run(&sim), TIDE_OP_DONE);
	ck_assert_uint_eq(sim_count(&sim, TIDE_CHUNK_LINGERING), 48);
	ck_assert_uint_eq(sim_progress(&sim).returned_bytes, 0);
	ck_assert_uint_eq(sim_progress(&sim).committed_bytes, 64 * SIM_CHUNK);
	ck_settled();
	request.target_bytes = 64 * SIM_CHUNK;
	sim.preflight_have = 0;
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	ck_assert_int_eq(sim_run(&sim), TIDE_OP_DONE);
	ck_assert_uint_eq(sim.calls[SIM_COMMIT], 0);
	ck_assert_uint_eq(sim.calls[SIM_PREFLIGHT], 0);
	ck_assert_uint_eq(sim_count(&sim, TIDE_CHUNK_ACTIVE), 64);
	ck_settled();
}
END_TEST

START_TEST(lingering_expires)
{
	struct tide_request request = sim_request(16);
	uint64_t wait_ns;

	sim_open(&sim, 64, 64, 1);
	request.linger_ns = UINT64_C(1000000000);
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	while (sim_step(&sim))
		;
	ck_assert_int_eq(tide_engine_step(sim.engine, &wait_ns), 0);
	ck_assert_uint_gt(wait_ns, 0);
	ck_assert_uint_le(wait_ns, request.linger_ns);
	sim.now_ns += wait_ns - 1;
	ck_assert_int_eq(tide_engine_step(sim.engine, &wait_ns), 0);
	ck_assert_uint_eq(sim_count(&sim, TIDE_CHUNK_LINGERING), 48);
	while (wait_ns != UINT64_MAX) {
		sim.now_ns += wait_ns;
		(void)tide_engine_step(sim.engine, &wait_ns);
		sim_check(&sim);
	}
	ck_assert_uint_eq(sim_count(&sim, TIDE_CHUNK_LINGERING), 0);
	ck_assert_uint_eq(sim_backed_bytes(&sim), 16 * SIM_CHUNK);
	ck_assert_uint_eq(sim_progress(&sim).committed_bytes, 16 * SIM_CHUNK);
	ck_settled();
}
END_TEST

START_TEST(undo_lets_linger_what_lingered)
{
	struct tide_request request = sim_request(16);

	sim_open(&sim, 64, 32, 1);
	request.linger_ns = UINT64_C(60000000000);
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	ck_assert_int_eq(sim_run(&sim), TIDE_OP_DONE);
	sim.fail_at[SIM_COMMIT] = 2;
	ck_assert_int_eq(resize(64), TIDE_OP_FAILED);
	ck_assert_uint_eq(sim_count(&sim, TIDE_CHUNK_ACTIVE), 16);
	ck_assert_uint_eq(sim_count(&sim, TIDE_CHUNK_LINGERING), 16);
	ck_assert_uint_eq(sim_backed_bytes(&sim), 32 * SIM_CHUNK);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("linger");
	TCase *tc = tcase_create("resize");
	SRunner *runner;

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, NULL, teardown);
	tcase_add_test(tc, lingering_comes_back_without_commit);
	tcase_add_test(tc, lingering_expires);
	tcase_add_test(tc, undo_lets_linger_what_lingered);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);

	int failed = srunner_ntests_failed(runner);

	srunner_free(runner);
	return failed ? 1 : 0;
}
