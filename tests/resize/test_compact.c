/* SPDX-License-Identifier: PostgreSQL */
/*
 * tests/resize/test_compact.c - chunks in use lie densely from the first one on.
 */
#include "engine_fixture.h"

static void open_compact(uint32_t n_chunks, uint32_t n_active)
{
	sim_open(&sim, n_chunks, n_chunks, 1);
	sim.config.compact = 1;
	sim_restart(&sim);
	if (n_active < n_chunks)
		ck_assert_int_eq(resize(n_active), TIDE_OP_DONE);
}

static void ck_prefix(uint32_t n_active)
{
	for (uint32_t i = 0; i < sim.n_chunks; i++)
		ck_assert_msg((state_of(&sim, i) == TIDE_CHUNK_ACTIVE) == (i < n_active),
			      "chunk %u is %s with %u in use", i,
			      tide_chunk_state_name(state_of(&sim, i)), n_active);
}

static void heat(uint32_t chunk, uint8_t degree)
{
	for (uint32_t b = 0; b < SIM_BUFFERS; b++)
		buffers_of(&sim, chunk)[b].heat = degree;
}

START_TEST(every_size_is_a_prefix)
{
	static const uint32_t sizes[] = {512, 40, 41, 39, 1, 200, 13, 777, 776, 1000, 2};

	open_compact(1000, 1000);
	sim_fill(&sim, 10);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		ck_assert_int_eq(resize(sizes[i]), TIDE_OP_DONE);
		ck_prefix(sizes[i]);
	}
	ck_settled();
}
END_TEST

START_TEST(heat_does_not_count)
{
	open_compact(32, 32);
	sim_fill(&sim, 0);
	for (uint32_t i = 0; i < 32; i++)
		heat(i, i >= 16 ? 5 : 0);
	ck_assert_int_eq(resize(16), TIDE_OP_DONE);
	ck_prefix(16);
}
END_TEST

START_TEST(the_highest_go_first)
{
	struct tide_request request = sim_request(64);
	uint32_t lowest = 1024;

	/* More than a batch has to go: the first batch is the upper end. */
	open_compact(1024, 1024);
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	while (sim_count(&sim, TIDE_CHUNK_RETIRED) == 0)
		ck_assert_int_eq(sim_step(&sim), 1);
	while (lowest > 0 && state_of(&sim, lowest - 1) != TIDE_CHUNK_ACTIVE)
		lowest--;
	ck_assert_uint_gt(lowest, 64);
	ck_assert_uint_eq(lowest, sim_count(&sim, TIDE_CHUNK_ACTIVE));
	/* So stopping it leaves no hole. */
	tide_engine_cancel(sim.engine, TIDE_CANCELLED, NULL);
	ck_assert_int_eq(sim_run(&sim), TIDE_OP_CANCELLED);
	ck_prefix(sim_count(&sim, TIDE_CHUNK_ACTIVE));
	ck_assert_uint_lt(sim_count(&sim, TIDE_CHUNK_ACTIVE), 1024);
	ck_settled();
}
END_TEST

START_TEST(pinned_chunks_go_last)
{
	open_compact(64, 64);
	sim_pin(&sim, 60);
	sim_pin(&sim, 40);
	ck_assert_int_eq(resize(32), TIDE_OP_DONE);
	for (uint32_t i = 0; i < 30; i++)
		ck_assert_int_eq(state_of(&sim, i), TIDE_CHUNK_ACTIVE);
	ck_assert_int_eq(state_of(&sim, 40), TIDE_CHUNK_ACTIVE);
	ck_assert_int_eq(state_of(&sim, 60), TIDE_CHUNK_ACTIVE);
	ck_assert_uint_eq(sim_count(&sim, TIDE_CHUNK_ACTIVE), 32);

	/* Growing fills the holes; once the pins have ended, the next shrink is dense again. */
	ck_assert_int_eq(resize(48), TIDE_OP_DONE);
	for (uint32_t i = 0; i < 46; i++)
		ck_assert_int_eq(state_of(&sim, i), TIDE_CHUNK_ACTIVE);
	sim_unpin_all(&sim);
	ck_assert_int_eq(resize(40), TIDE_OP_DONE);
	ck_prefix(40);
	ck_settled();
}
END_TEST

/* A pin that comes after the survey: its chunk is exchanged for the next lower one. */
START_TEST(stubborn_chunks_are_exchanged)
{
	struct tide_request request = sim_request(48);

	open_compact(64, 64);
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	while (sim.surveyed_chunks < 64)
		ck_assert_int_eq(sim_step(&sim), 1);
	sim_pin(&sim, 63);
	ck_assert_int_eq(sim_run(&sim), TIDE_OP_DONE);
	for (uint32_t i = 0; i < 47; i++)
		ck_assert_int_eq(state_of(&sim, i), TIDE_CHUNK_ACTIVE);
	ck_assert_int_eq(state_of(&sim, 47), TIDE_CHUNK_RETIRED);
	ck_assert_int_eq(state_of(&sim, 63), TIDE_CHUNK_ACTIVE);
}
END_TEST

START_TEST(lingering_chunks_come_back_first)
{
	struct tide_request request = sim_request(32);
	uint32_t committed;

	open_compact(64, 48);
	request.linger_ns = UINT64_C(1000000000);
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	ck_assert_int_eq(sim_run(&sim), TIDE_OP_DONE);
	ck_assert_uint_eq(sim_count(&sim, TIDE_CHUNK_LINGERING), 16);
	committed = sim.committed_chunks;
	ck_assert_int_eq(resize(40), TIDE_OP_DONE);
	for (uint32_t i = 0; i < 40; i++)
		ck_assert_int_eq(state_of(&sim, i), TIDE_CHUNK_ACTIVE);
	ck_assert_uint_eq(sim.committed_chunks, committed);
	ck_assert_int_eq(resize(64), TIDE_OP_DONE);
	ck_prefix(64);
	ck_assert_uint_eq(sim.committed_chunks, committed + 16);
}
END_TEST

/* A grow that fails gives its own chunks back, also where they filled holes. */
START_TEST(a_failed_grow_leaves_what_was)
{
	open_compact(64, 64);
	sim_pin(&sim, 60);
	ck_assert_int_eq(resize(16), TIDE_OP_DONE);
	sim_unpin_all(&sim);
	sim.calls[SIM_COMMIT] = 0;
	sim.fail_at[SIM_COMMIT] = 4;
	ck_assert_int_eq(resize(64), TIDE_OP_FAILED);
	for (uint32_t i = 0; i < 64; i++)
		ck_assert_int_eq(state_of(&sim, i),
				 i < 15 || i == 60 ? TIDE_CHUNK_ACTIVE : TIDE_CHUNK_RETIRED);
	ck_settled();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("compact");
	TCase *tc = tcase_create("place");
	SRunner *runner;

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, NULL, teardown);
	tcase_add_test(tc, every_size_is_a_prefix);
	tcase_add_test(tc, heat_does_not_count);
	tcase_add_test(tc, the_highest_go_first);
	tcase_add_test(tc, pinned_chunks_go_last);
	tcase_add_test(tc, stubborn_chunks_are_exchanged);
	tcase_add_test(tc, lingering_chunks_come_back_first);
	tcase_add_test(tc, a_failed_grow_leaves_what_was);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);

	int failed = srunner_ntests_failed(runner);

	srunner_free(runner);
	return failed ? 1 : 0;
}
