/* SPDX-License-Identifier: PostgreSQL */
/*
 * tests/resize/test_engine.c - the engine against the simulated host: one test per promise.
 */
#include "engine_fixture.h"

START_TEST(grow_reaches_target)
{
	sim_open(&sim, 64, 16, 1);
	ck_assert_int_eq(resize(64), TIDE_OP_DONE);

	struct tide_progress p = sim_progress(&sim);

	ck_assert_uint_eq(sim_count(&sim, TIDE_CHUNK_ACTIVE), 64);
	ck_assert_uint_eq(p.allocatable_bytes, 64 * SIM_CHUNK);
	ck_assert_uint_eq(p.committed_bytes, 64 * SIM_CHUNK);
	ck_assert_uint_eq(p.chunks_done, 48);
	ck_assert_uint_eq(sim.first_commit, 1);
	ck_assert_uint_gt(sim.largest_commit, 8);
	ck_assert_uint_gt(p.first_publish_ns, 0);
	ck_assert_uint_lt(p.first_publish_ns, p.elapsed_ns / 2);
	ck_settled();
}
END_TEST

START_TEST(shrink_reaches_target)
{
	sim_open(&sim, 64, 64, 1);
	sim_fill(&sim, 25);
	ck_assert_int_eq(resize(16), TIDE_OP_DONE);

	struct tide_progress p = sim_progress(&sim);
	uint64_t phases = 0;

	ck_assert_uint_eq(sim_count(&sim, TIDE_CHUNK_ACTIVE), 16);
	ck_assert_uint_eq(p.returned_bytes, 48 * SIM_CHUNK);
	ck_assert_uint_eq(p.evicted_pages, 48 * SIM_BUFFERS);
	ck_assert_uint_eq(p.written_pages * SIM_PAGE, sim.written_bytes);
	ck_assert_uint_gt(sim.written_bytes, 0);
	ck_assert_uint_eq(p.chunks_total, 48);
	ck_assert_uint_eq(p.chunks_done, 48);
	ck_assert_uint_eq(p.blocked_chunks, 0);
	ck_assert_uint_eq(p.eta_ns, 0);
	for (int i = 0; i < TIDE_OP_PHASES; i++)
		phases += p.phase_ns[i];
	ck_assert_uint_eq(phases, p.elapsed_ns);
	ck_assert_uint_gt(p.phase_ns[TIDE_OP_DRAIN], 0);
	ck_settled();
}
END_TEST

START_TEST(grow_slices_follow_their_cost)
{
	sim_open(&sim, 64, 16, 1);
	sim.chunk_ns = 20000000; /* a chunk takes four times what a step should */
	ck_assert_int_eq(resize(64), TIDE_OP_DONE);
	ck_assert_uint_eq(sim.largest_commit, 1);
}
END_TEST

START_TEST(grow_leaves_retired_spread)
{
	uint32_t run = 0, longest = 0;

	sim_open(&sim, 256, 32, 1);
	ck_assert_int_eq(resize(128), TIDE_OP_DONE);
	for (uint32_t i = 0; i < 256; i++) {
		run = state_of(&sim, i) == TIDE_CHUNK_RETIRED ? run + 1 : 0;
		longest = run > longest ? run : longest;
	}
	ck_assert_uint_le(longest, 4);
}
END_TEST

START_TEST(coldest_go_first)
{
	sim_open(&sim, 32, 32, 1);
	sim_fill(&sim, 0);
	for (uint32_t i = 0; i < 32; i++)
		for (uint32_t b = 0; b < SIM_BUFFERS; b++)
			buffers_of(&sim, i)[b].heat = i % 4 == 1 ? 5 : 1;
	ck_assert_int_eq(resize(8), TIDE_OP_DONE);
	for (uint32_t i = 0; i < 32; i++)
		ck_assert_int_eq(state_of(&sim, i),
				 i % 4 == 1 ? TIDE_CHUNK_ACTIVE : TIDE_CHUNK_RETIRED);
}
END_TEST

START_TEST(those_that_go_are_taken_in_address_order)
{
	struct tide_request request = sim_request(64);
	uint32_t fenced = 0, last = 0;

	sim_open(&sim, 256, 256, 1);
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	while (sim_count(&sim, TIDE_CHUNK_FENCED) + sim_count(&sim, TIDE_CHUNK_DRAINING) == 0)
		ck_assert_int_eq(sim_step(&sim), 1);
	for (uint32_t i = 0; i < 256; i++) {
		if (sim.table->chunk[i].state == TIDE_CHUNK_ACTIVE)
			continue;
		fenced++;
		last = i;
	}
	/* Three of four will go; the first to go are the first of them, not every n-th. */
	ck_assert_uint_gt(fenced, 8);
	ck_assert_uint_le(last, fenced * 4 / 3 + 1);
	ck_assert_int_eq(sim_run(&sim), TIDE_OP_DONE);
	ck_settled();
}
END_TEST

START_TEST(preflight_denies)
{
	sim_open(&sim, 64, 16, 1);
	sim.preflight_have = 10 * SIM_CHUNK;
	ck_assert_int_eq(resize(64), TIDE_OP_DENIED);

	struct tide_progress p = sim_progress(&sim);

	ck_assert_int_eq(p.reason.code, TIDE_HUGEPAGES_SHORT);
	ck_assert_uint_eq(p.reason.want_bytes, 48 * SIM_CHUNK);
	ck_assert_uint_eq(p.reason.have_bytes, 10 * SIM_CHUNK);
	ck_assert_uint_eq(sim.calls[SIM_COMMIT], 0);
	ck_assert_uint_eq(sim.n_changed, 1);
	ck_assert_uint_eq(sim_count(&sim, TIDE_CHUNK_ACTIVE), 16);
}
END_TEST

START_TEST(preflight_short_but_acceptable)
{
	struct tide_request request = sim_request(64);

	sim_open(&sim, 64, 16, 1);
	sim.preflight_have = 10 * SIM_CHUNK;
	request.min_acceptable_bytes = 27 * SIM_CHUNK;
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	ck_assert_int_eq(sim_run(&sim), TIDE_OP_DENIED);
	request.min_acceptable_bytes = 26 * SIM_CHUNK;
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	ck_assert_int_eq(sim_run(&sim), TIDE_OP_PARTIAL);
	ck_assert_int_eq(sim_progress(&sim).reason.code, TIDE_HUGEPAGES_SHORT);
	ck_assert_uint_eq(sim_progress(&sim).requested_bytes, 64 * SIM_CHUNK);
	ck_assert_uint_eq(sim_count(&sim, TIDE_CHUNK_ACTIVE), 26);
	ck_settled();
}
END_TEST

/* Fail the k-th call of @op for k = 1, 2, ... until the operation gets through. */
static void fail_every(enum sim_op op, uint32_t from, uint32_t to, uint32_t accept)
{
	uint32_t failures = 0;

	for (uint32_t k = 1;; k++, failures++) {
		struct tide_request request = sim_request(to);

		sim_open(&sim, 64, from, k);
		sim_fill(&sim, 20);
		sim.fail_at[op] = k;
		sim.fail_code[op] = TIDE_HUGEPAGES_SHORT;
		request.min_acceptable_bytes = accept * (uint64_t)SIM_CHUNK;
		ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);

		enum tide_op_state end = sim_run(&sim);
		struct tide_progress p = sim_progress(&sim);
		uint64_t wait_ns = 0;
		uint32_t active = sim_count(&sim, TIDE_CHUNK_ACTIVE);

		ck_assert_uint_eq(sim.n_ends, 1);
		ck_sim(&sim);
		if (sim.calls[op] < k) {
			ck_assert_int_eq(end, TIDE_OP_DONE);
			teardown();
			break;
		}
		if (p.reason.code != 0)
			ck_assert_int_eq(p.reason.code, TIDE_HUGEPAGES_SHORT);
		if (to > from && end == TIDE_OP_FAILED)
			ck_assert_uint_eq(active, from);
		if (to > from && end == TIDE_OP_PARTIAL)
			ck_assert_uint_ge(active, accept);
		if (to > from && op == SIM_COMMIT && accept == 0)
			ck_assert_int_eq(end, TIDE_OP_FAILED);
		for (int i = 0; i < 100 && wait_ns != UINT64_MAX; i++)
			(void)tide_engine_step(sim.engine, &wait_ns);
		sim_check(&sim);
		ck_settled();
		teardown();
	}
	ck_assert_uint_gt(failures, 0);
	sim_open(&sim, 1, 1, 1); /* for the fixture */
}

START_TEST(commit_fails_at_every_slice)
{
	fail_every(SIM_COMMIT, 16, 64, 0);
	sim_close(&sim);
	fail_every(SIM_COMMIT, 16, 64, 30);
}
END_TEST

START_TEST(grow_fails_anywhere)
{
	fail_every(SIM_PUBLISH, 16, 64, 0);
	sim_close(&sim);
	fail_every(SIM_PUBLISH, 16, 64, 30);
	sim_close(&sim);
	fail_every(SIM_AUDIT, 16, 64, 0);
	sim_close(&sim);
	fail_every(SIM_PREFLIGHT, 16, 64, 0);
}
END_TEST

START_TEST(shrink_fails_anywhere)
{
	fail_every(SIM_FENCE, 64, 16, 0);
	sim_close(&sim);
	fail_every(SIM_DRAIN, 64, 16, 0);
	sim_close(&sim);
	fail_every(SIM_DECOMMIT, 64, 16, 0);
	sim_close(&sim);
	fail_every(SIM_AUDIT, 64, 16, 0);
}
END_TEST

START_TEST(commit_failure_keeps_what_is_acceptable)
{
	struct tide_request request = sim_request(64);

	sim_open(&sim, 64, 16, 1);
	sim.fail_at[SIM_COMMIT] = 5; /* 1 + 2 + 4 + 8 chunks came before */
	request.min_acceptable_bytes = 31 * SIM_CHUNK;
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	ck_assert_int_eq(sim_run(&sim), TIDE_OP_PARTIAL);
	ck_assert_uint_eq(sim_count(&sim, TIDE_CHUNK_ACTIVE), 31);
	ck_settled();
	ck_assert_int_eq(resize(16), TIDE_OP_DONE);
	sim.fail_at[SIM_COMMIT] = sim.calls[SIM_COMMIT] + 5;
	request.min_acceptable_bytes = 32 * SIM_CHUNK;
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	ck_assert_int_eq(sim_run(&sim), TIDE_OP_FAILED);
	ck_assert_uint_eq(sim_count(&sim, TIDE_CHUNK_ACTIVE), 16);
	ck_settled();
}
END_TEST

START_TEST(slice_that_does_not_verify)
{
	struct tide_request request = sim_request(64);

	sim_open(&sim, 64, 16, 1);
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	sim.audit_skew = -1;
	(void)sim_step(&sim);
	sim.audit_skew = 0;
	ck_assert_int_eq(sim_run(&sim), TIDE_OP_FAILED);
	ck_assert_int_eq(sim_progress(&sim).reason.code, TIDE_VERIFY_MISMATCH);
	ck_assert_uint_eq(sim.calls[SIM_PUBLISH], 0);
	ck_assert_uint_eq(sim_count(&sim, TIDE_CHUNK_ACTIVE), 16);
	ck_settled();
}
END_TEST

START_TEST(end_that_does_not_verify)
{
	sim_open(&sim, 64, 64, 1);
	sim.audit_skew = 1;
	ck_assert_int_eq(resize(16), TIDE_OP_PARTIAL);

	struct tide_progress p = sim_progress(&sim);

	ck_assert_int_eq(p.reason.code, TIDE_VERIFY_MISMATCH);
	ck_assert_uint_eq(p.reason.want_bytes, 16 * SIM_CHUNK);
	ck_assert_uint_eq(p.reason.have_bytes, 17 * SIM_CHUNK);
	ck_assert_uint_eq(p.committed_bytes, 17 * SIM_CHUNK);
}
END_TEST

START_TEST(pins_in_every_tenth_chunk)
{
	sim_open(&sim, 200, 200, 1);
	sim_fill(&sim, 0);
	for (uint32_t i = 0; i < 200; i += 10)
		sim_pin(&sim, i);
	ck_assert_int_eq(resize(50), TIDE_OP_DONE);
	ck_assert_uint_eq(sim_progress(&sim).returned_bytes, 150 * SIM_CHUNK);
	for (uint32_t i = 0; i < 200; i += 10)
		ck_assert_int_eq(state_of(&sim, i), TIDE_CHUNK_ACTIVE);
}
END_TEST

START_TEST(stubborn_pins_are_exchanged)
{
	struct tide_request request = sim_request(50);
	uint64_t deadline_ns = UINT64_C(1000000000);
	uint32_t pinned = 0;

	sim_open(&sim, 200, 200, 1);
	sim_fill(&sim, 0);
	request.deadline_ns = deadline_ns;
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	(void)sim_step(&sim); /* survey: nothing is pinned yet */
	(void)sim_step(&sim); /* fence */
	for (uint32_t i = 0; i < 200; i++)
		if (state_of(&sim, i) == TIDE_CHUNK_FENCED && pinned < 40) {
			sim_pin(&sim, i);
			pinned++;
		}
	ck_assert_uint_eq(pinned, 40);
	ck_assert_int_eq(sim_run(&sim), TIDE_OP_DONE);
	ck_assert_uint_eq(sim_count(&sim, TIDE_CHUNK_ACTIVE), 50);
	ck_assert_uint_lt(sim_progress(&sim).elapsed_ns, deadline_ns / 10);
}
END_TEST

START_TEST(pins_that_end_let_the_shrink_end)
{
	struct tide_request request = sim_request(10);
	struct tide_progress p;
	uint32_t steps = 0;

	sim_open(&sim, 100, 100, 1);
	sim_fill(&sim, 0);
	for (uint32_t i = 0; i < 100; i++)
		sim_pin(&sim, i);
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	do {
		ck_assert_int_eq(sim_step(&sim), 1);
		steps++;
		p = sim_progress(&sim);
	} while (p.elapsed_ns < UINT64_C(10000000000));
	/* Backed off: a turn of 50 ms costs a few steps, exchange of candidates included. */
	ck_assert_uint_lt(steps, 1500);
	ck_assert_uint_gt(p.blocked_chunks, 0);
	for (uint32_t i = 0; i < 95; i++)
		sim_unpin(&sim, i);
	ck_assert_int_eq(sim_run(&sim), TIDE_OP_DONE);
	ck_assert_uint_eq(sim_count(&sim, TIDE_CHUNK_ACTIVE), 10);
	/* Everything that could be drained was tried again within some turns of the back-off. */
	ck_assert_uint_lt(sim_progress(&sim).elapsed_ns - p.elapsed_ns, UINT64_C(2000000000));
}
END_TEST

START_TEST(deadline_ends_as_partial)
{
	struct tide_request request = sim_request(50);

	sim_open(&sim, 100, 100, 1);
	sim_fill(&sim, 0);
	for (uint32_t i = 0; i < 100; i++)
		if (i % 4 != 0)
			sim_pin(&sim, i);
	request.deadline_ns = UINT64_C(2000000000);
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	ck_assert_int_eq(sim_run(&sim), TIDE_OP_PARTIAL);

	struct tide_progress p = sim_progress(&sim);

	ck_assert_int_eq(p.reason.code, TIDE_PINNED_BUFFERS);
	ck_assert_uint_eq(p.blocked_chunks, 25);
	ck_assert_ptr_nonnull(strstr(p.reason.message, "25"));
	ck_assert_uint_eq(p.returned_bytes, 25 * SIM_CHUNK);
	ck_assert_uint_eq(sim_count(&sim, TIDE_CHUNK_ACTIVE), 75);
	ck_assert_uint_ge(p.elapsed_ns, request.deadline_ns);
	ck_assert_uint_lt(p.elapsed_ns, request.deadline_ns + 100000000);
	ck_settled();
	sim_unpin_all(&sim);
	ck_assert_int_eq(resize(50), TIDE_OP_DONE);
}
END_TEST

START_TEST(deadline_with_nothing_achieved)
{
	struct tide_request request = sim_request(50);

	sim_open(&sim, 100, 100, 1);
	for (uint32_t i = 0; i < 100; i++)
		sim_pin(&sim, i);
	request.deadline_ns = 50000000;
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	ck_assert_int_eq(sim_run(&sim), TIDE_OP_PARTIAL);
	ck_assert_int_eq(sim_progress(&sim).reason.code, TIDE_PINNED_BUFFERS);
	ck_assert_uint_eq(sim_count(&sim, TIDE_CHUNK_ACTIVE), 100);
	ck_assert_uint_eq(sim_progress(&sim).returned_bytes, 0);
	ck_settled();
}
END_TEST

START_TEST(deadline_and_what_is_acceptable)
{
	struct tide_request request = sim_request(50);

	request.deadline_ns = UINT64_C(1000000000);
	for (uint32_t accept = 70; accept <= 80; accept += 10) {
		sim_open(&sim, 100, 100, 1);
		sim_fill(&sim, 0);
		for (uint32_t i = 0; i < 100; i++)
			if (i % 4 != 0)
				sim_pin(&sim, i);
		request.min_acceptable_bytes = accept * (uint64_t)SIM_CHUNK;
		ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
		ck_assert_int_eq(sim_run(&sim), accept == 70 ? TIDE_OP_FAILED : TIDE_OP_PARTIAL);
		ck_assert_int_eq(sim_progress(&sim).reason.code, TIDE_PINNED_BUFFERS);
		ck_assert_uint_eq(sim_count(&sim, TIDE_CHUNK_ACTIVE), accept == 70 ? 100 : 75);
		ck_settled();
		teardown();
	}
	sim_open(&sim, 1, 1, 1);
}
END_TEST

START_TEST(growing_back_may_fail)
{
	struct tide_request request = sim_request(50);

	sim_open(&sim, 100, 100, 1);
	for (uint32_t i = 0; i < 100; i++)
		if (i % 4 != 0)
			sim_pin(&sim, i);
	request.deadline_ns = UINT64_C(1000000000);
	request.min_acceptable_bytes = 70 * SIM_CHUNK;
	sim.fail_at[SIM_COMMIT] = 2;
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	ck_assert_int_eq(sim_run(&sim), TIDE_OP_PARTIAL);
	ck_assert_int_eq(sim_progress(&sim).reason.code, TIDE_PINNED_BUFFERS);
	ck_assert_ptr_nonnull(strstr(sim_progress(&sim).reason.message, "simulated"));
	ck_assert_uint_eq(sim_count(&sim, TIDE_CHUNK_ACTIVE), 76);
	ck_settled();
}
END_TEST

START_TEST(dirty_backlog)
{
	struct tide_request request = sim_request(10);

	sim_open(&sim, 100, 100, 1);
	sim_fill(&sim, 100);
	request.deadline_ns = UINT64_C(1000000000);
	request.flush_bytes_per_s = 10 * SIM_PAGE;
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	ck_assert_int_eq(sim_run(&sim), TIDE_OP_PARTIAL);
	ck_assert_int_eq(sim_progress(&sim).reason.code, TIDE_DIRTY_BACKLOG);
	ck_assert_uint_gt(sim_progress(&sim).blocked_chunks, 0);
	ck_settled();
}
END_TEST

START_TEST(flush_rate_is_kept_and_used)
{
	struct tide_request request = sim_request(100);
	uint64_t rate = 4000000;

	sim_open(&sim, 400, 400, 1);
	sim_fill(&sim, 50);
	request.flush_bytes_per_s = rate;
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	ck_assert_int_eq(sim_run(&sim), TIDE_OP_DONE);

	double seconds = (double)sim_progress(&sim).elapsed_ns / 1e9;

	ck_assert_double_gt(seconds, 1.0);
	ck_assert_double_le((double)sim.written_bytes, (double)rate * (seconds + 0.1));
	ck_assert_double_ge((double)sim.written_bytes, (double)rate * seconds * 0.6);
}
END_TEST

START_TEST(readers_are_waited_for)
{
	struct tide_request request = sim_request(16);

	sim_open(&sim, 64, 64, 1);
	sim.readers = 1;
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	while (sim_progress(&sim).elapsed_ns < 500000000)
		ck_assert_int_eq(sim_step(&sim), 1);
	ck_assert_uint_eq(sim.decommitted_chunks, 0);
	sim.readers = 0;
	ck_assert_int_eq(sim_run(&sim), TIDE_OP_DONE);
	ck_assert_uint_eq(sim.decommitted_chunks, 48);
}
END_TEST

START_TEST(a_thousand_cycles)
{
	sim_open(&sim, 64, 32, 7);
	for (uint32_t i = 0; i < 1000; i++) {
		uint32_t target = 1 + (uint32_t)sim_random(&sim, 64);

		sim_fill(&sim, 10);
		ck_assert_int_eq(resize(target), TIDE_OP_DONE);
		ck_assert_uint_eq(sim_backed_bytes(&sim), target * (uint64_t)SIM_CHUNK);
	}
	ck_assert_int_eq(resize(32), TIDE_OP_DONE);
	ck_assert_uint_eq(sim_backed_bytes(&sim), 32 * SIM_CHUNK);
	ck_assert_uint_eq(sim_progress(&sim).op, 1001);
	ck_assert_uint_eq(sim.n_ends, 1001);
	ck_settled();
}
END_TEST

static int submit_bytes(uint64_t bytes, uint64_t accept)
{
	struct tide_request request = {.target_bytes = bytes, .min_acceptable_bytes = accept};

	return sim_submit(&sim, &request, 0);
}

START_TEST(refused_requests_change_nothing)
{
	sim_open(&sim, 64, 16, 1);
	tide_engine_set_min(sim.engine, 4 * SIM_CHUNK);
	ck_assert_int_eq(submit_bytes(0, 0), TIDE_BELOW_MIN);
	ck_assert_int_eq(submit_bytes(4 * SIM_CHUNK - 1, 0), TIDE_BELOW_MIN);
	ck_assert_int_eq(submit_bytes(64 * SIM_CHUNK + 1, 0), TIDE_ABOVE_MAX);
	ck_assert_int_eq(submit_bytes(UINT64_MAX, 0), TIDE_ABOVE_MAX);
	ck_assert_int_eq(submit_bytes(32 * SIM_CHUNK, 33 * SIM_CHUNK), TIDE_BAD_REQUEST);
	ck_assert_int_eq(submit_bytes(8 * SIM_CHUNK, 7 * SIM_CHUNK), TIDE_BAD_REQUEST);
	ck_assert_uint_eq(sim.n_changed, 0);
	ck_assert_uint_eq(sim_progress(&sim).op, 0);
	ck_assert_int_eq(sim_progress(&sim).state, TIDE_OP_IDLE);
	tide_engine_set_min(sim.engine, 0);
	ck_assert_int_eq(submit_bytes(0, 0), TIDE_BELOW_MIN);
}
END_TEST

START_TEST(sizes_are_rounded_towards_the_present)
{
	sim_open(&sim, 64, 16, 1);
	ck_assert_int_eq(submit_bytes(17 * SIM_CHUNK - 1, 0), 0);
	ck_assert_int_eq(sim_progress(&sim).state, TIDE_OP_DONE);
	ck_assert_int_eq(sim_progress(&sim).direction, TIDE_DIRECTION_NONE);
	ck_assert_uint_eq(sim_progress(&sim).op, 1);
	ck_assert_uint_eq(sim.n_changed, 1);
	ck_assert_int_eq(submit_bytes(15 * SIM_CHUNK + 1, 0), 0);
	ck_assert_int_eq(sim_progress(&sim).direction, TIDE_DIRECTION_NONE);
	ck_assert_int_eq(submit_bytes(18 * SIM_CHUNK + 5, 0), 0);
	ck_assert_int_eq(sim_run(&sim), TIDE_OP_DONE);
	ck_assert_uint_eq(sim_progress(&sim).requested_bytes, 18 * SIM_CHUNK);
	ck_assert_int_eq(submit_bytes(16 * SIM_CHUNK + 5, 0), 0);
	ck_assert_int_eq(sim_run(&sim), TIDE_OP_DONE);
	ck_assert_uint_eq(sim_progress(&sim).requested_bytes, 17 * SIM_CHUNK);
	ck_assert_uint_eq(sim_count(&sim, TIDE_CHUNK_ACTIVE), 17);
}
END_TEST

START_TEST(dry_run_changes_nothing)
{
	struct tide_request request = sim_request(32);

	sim_open(&sim, 64, 16, 1);
	request.dry_run = 1;
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);

	struct tide_progress p = sim_progress(&sim);

	ck_assert_int_eq(p.state, TIDE_OP_DONE);
	ck_assert_int_eq(p.direction, TIDE_DIRECTION_GROW);
	ck_assert_uint_eq(p.chunks_total, 16);
	ck_assert_uint_eq(p.requested_bytes, 32 * SIM_CHUNK);
	sim.preflight_have = 0;
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	ck_assert_int_eq(sim_progress(&sim).state, TIDE_OP_DENIED);
	ck_assert_int_eq(sim_progress(&sim).reason.code, TIDE_HUGEPAGES_SHORT);
	ck_assert_uint_eq(sim.n_changed, 0);
	ck_assert_int_eq(sim_step(&sim), 0);
	ck_assert_uint_eq(sim_count(&sim, TIDE_CHUNK_ACTIVE), 16);
	ck_assert_int_eq(resize(8), TIDE_OP_DONE);
	ck_assert_uint_eq(sim_progress(&sim).op, 1);
	/* Beside a running operation there is no answer, and it is not disturbed. */
	request.dry_run = 0;
	sim.preflight_have = UINT64_MAX;
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	request.dry_run = 1;
	ck_assert_int_eq(sim_submit(&sim, &request, 1), TIDE_OP_IN_PROGRESS);
	ck_assert_int_eq(sim_run(&sim), TIDE_OP_DONE);
	ck_assert_uint_eq(sim_progress(&sim).op, 2);
}
END_TEST

START_TEST(recovery_finishes_or_undoes)
{
	uint32_t repaired = 0;

	sim_open(&sim, 16, 16, 1);
	atomic_store(&sim.table->chunk[1].state, TIDE_CHUNK_FENCED);
	atomic_store(&sim.table->chunk[2].state, TIDE_CHUNK_DRAINING);
	atomic_store(&sim.table->chunk[3].state, TIDE_CHUNK_QUIESCING);
	for (uint32_t i = 4; i <= 7; i++)
		for (uint32_t b = 0; b < SIM_BUFFERS; b++)
			buffers_of(&sim, i)[b].usable = 0;
	atomic_store(&sim.table->chunk[4].state, TIDE_CHUNK_COMMITTING);
	atomic_store(&sim.table->chunk[5].state, TIDE_CHUNK_RELEASING);
	atomic_store(&sim.table->chunk[6].state, TIDE_CHUNK_LINGERING);
	atomic_store(&sim.table->chunk[7].state, TIDE_CHUNK_RELEASING);
	sim.backed[7] = 0;
	sim_restart(&sim);
	sim.fail_at[SIM_DECOMMIT] = 1;

	struct tide_reason why;

	ck_assert_int_eq(tide_engine_recover(sim.engine, &repaired, &why), TIDE_HOST_ERROR);
	ck_assert_uint_eq(repaired, 3);
	ck_assert_int_eq(state_of(&sim, 4), TIDE_CHUNK_COMMITTING);
	ck_assert_int_eq(tide_engine_recover(sim.engine, &repaired, &why), 0);
	ck_assert_uint_eq(repaired, 3);
	ck_assert_int_eq(state_of(&sim, 6), TIDE_CHUNK_LINGERING);
	ck_assert_uint_eq(sim_count(&sim, TIDE_CHUNK_ACTIVE), 12);
	ck_assert_uint_eq(sim_count(&sim, TIDE_CHUNK_RETIRED), 3);
	sim_check(&sim);
	ck_settled();
}
END_TEST

START_TEST(publication_that_fails_for_ever)
{
	struct tide_request request = sim_request(16);

	sim_open(&sim, 64, 64, 1);
	sim_fill(&sim, 0);
	for (uint32_t i = 0; i < 64; i++)
		sim_pin(&sim, i);
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	for (int i = 0; i < 4; i++)
		(void)sim_step(&sim);
	sim.fail_percent = 100;
	tide_engine_cancel(sim.engine, 0, NULL);
	ck_assert_int_eq(sim_run(&sim) == TIDE_OP_DONE, 0);
	ck_assert_uint_eq(sim.n_ends, 1);
	ck_assert_int_eq(engine_needs_repair(sim.engine), 1);
	/* An idle engine goes on trying, and does not spin. */
	for (int i = 0; i < 10; i++) {
		uint64_t wait_ns;

		ck_assert_int_eq(tide_engine_step(sim.engine, &wait_ns), 0);
		sim.now_ns += wait_ns;
	}
	ck_assert_uint_gt(sim.now_ns, UINT64_C(5000000000));
	ck_assert_int_eq(resize(8), TIDE_OP_FAILED);
	sim.fail_percent = 0;
	ck_assert_int_eq(resize(64), TIDE_OP_DONE);
	ck_settled();
}
END_TEST

START_TEST(numbers_go_on_after_a_restart)
{
	sim_open(&sim, 8, 8, 1);
	ck_assert_int_eq(resize(4), TIDE_OP_DONE);
	sim_restart(&sim);
	ck_assert_int_eq(resize(8), TIDE_OP_DONE);
	ck_assert_uint_eq(sim_progress(&sim).op, 2);
}
END_TEST

START_TEST(invalid_table_is_refused)
{
	struct tide_engine *engine;
	struct tide_reason why;

	sim_open(&sim, 8, 8, 1);
	sim.table->version++;
	ck_assert_int_eq(tide_engine_open(&sim.config, &sim_ops, &sim, &engine, &why),
			 TIDE_BAD_REQUEST);
	ck_assert_ptr_null(engine);
	sim.table->version--;
}
END_TEST

START_TEST(grow_slices_shrink_again)
{
	struct tide_request request = sim_request(1024);
	uint32_t largest;

	sim_open(&sim, 1024, 16, 1);
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	while (sim_count(&sim, TIDE_CHUNK_ACTIVE) < 256)
		ck_assert_int_eq(sim_step(&sim), 1);
	largest = sim.largest_commit;
	ck_assert_uint_ge(largest, 64);
	sim.chunk_ns = 3000000; /* memory that comes from elsewhere: two chunks in a step */
	for (int i = 0; i < 20; i++)
		ck_assert_int_eq(sim_step(&sim), 1);
	sim.largest_commit = 0;
	ck_assert_int_eq(sim_run(&sim), TIDE_OP_DONE);
	ck_assert_uint_le(sim.largest_commit, 4);
}
END_TEST

START_TEST(memory_that_is_not_given_back_cannot_be_grown_into)
{
	struct tide_request request = sim_request(16);
	uint64_t wait_ns = 0;

	sim_open(&sim, 1024, 1024, 1);
	sim.fail_at[SIM_DECOMMIT] = 1;
	request.min_acceptable_bytes = 20 * SIM_CHUNK;
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	ck_assert_int_eq(sim_run(&sim), TIDE_OP_PARTIAL);
	ck_assert_int_eq(sim_progress(&sim).reason.code, TIDE_HOST_ERROR);
	ck_assert_uint_gt(sim_count(&sim, TIDE_CHUNK_RELEASING), 0);
	for (int i = 0; i < 10 && wait_ns != UINT64_MAX; i++)
		(void)tide_engine_step(sim.engine, &wait_ns);
	ck_settled();
	ck_assert_int_eq(resize(1024), TIDE_OP_DONE);
	ck_settled();
}
END_TEST

START_TEST(deadline_under_readers)
{
	struct tide_request request = sim_request(16);

	sim_open(&sim, 64, 64, 1);
	sim.readers = 1;
	request.deadline_ns = 300000000;
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	ck_assert_int_eq(sim_run(&sim), TIDE_OP_PARTIAL);
	ck_assert_int_eq(sim_progress(&sim).reason.code, TIDE_PINNED_BUFFERS);
	ck_assert_ptr_nonnull(strstr(sim_progress(&sim).reason.message, "readers"));
	ck_assert_uint_eq(sim_count(&sim, TIDE_CHUNK_ACTIVE), 64);
	ck_settled();
}
END_TEST

START_TEST(deadline_that_has_passed_already)
{
	struct tide_request request = sim_request(16);

	sim_open(&sim, 64, 64, 1);
	request.deadline_ns = 1;
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	sim.now_ns++;
	ck_assert_int_eq(sim_run(&sim), TIDE_OP_PARTIAL);
	ck_assert_int_eq(sim_progress(&sim).reason.code, TIDE_CANCELLED);
	ck_assert_uint_eq(sim.calls[SIM_FENCE], 0);
	ck_settled();
	request.target_bytes = 32 * SIM_CHUNK;
	request.deadline_ns = 3000; /* in the midst of it, and nobody in the way */
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	ck_assert_int_eq(sim_run(&sim), TIDE_OP_PARTIAL);
	ck_assert_int_ne(sim_progress(&sim).reason.code, 0);
	ck_settled();
}
END_TEST

START_TEST(a_failure_without_a_reason_gets_one)
{
	sim_open(&sim, 64, 16, 1);
	sim.silent = 1;
	for (int op = 0; op < SIM_OPS; op++) {
		if (op == SIM_AUDIT)
			continue;
		sim.fail_at[op] = sim.calls[op] + 1;

		uint32_t target = op < SIM_FENCE ? 64 : 16;
		enum tide_op_state end = resize(target);

		ck_assert_int_eq(end, op == SIM_PREFLIGHT ? TIDE_OP_DENIED : TIDE_OP_FAILED);
		ck_assert_int_eq(sim_progress(&sim).reason.code, TIDE_HOST_ERROR);
		ck_assert_str_ne(sim_progress(&sim).reason.message, "");
		if (op == SIM_PUBLISH)
			ck_assert_int_eq(resize(64), TIDE_OP_DONE);
	}
}
END_TEST

START_TEST(no_recovery_beside_an_operation)
{
	struct tide_request request = sim_request(16);
	struct tide_reason why;

	sim_open(&sim, 64, 64, 1);
	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	for (int i = 0; i < 3; i++)
		(void)sim_step(&sim);
	ck_assert_int_eq(tide_engine_recover(sim.engine, NULL, &why), TIDE_OP_IN_PROGRESS);
	ck_assert_int_eq(sim_run(&sim), TIDE_OP_DONE);
}
END_TEST

START_TEST(silence_is_not_success)
{
	sim_open(&sim, 64, 64, 1);
	sim_fill(&sim, 100);
	sim.page_ns = 2000000; /* a drain step gets to few of its chunks */
	ck_assert_int_eq(resize(16), TIDE_OP_DONE);
	ck_assert_uint_eq(sim_progress(&sim).written_pages, 48 * SIM_BUFFERS);
	ck_assert_uint_gt(sim.calls[SIM_DRAIN], 10);
	ck_settled();
}
END_TEST

START_TEST(half_a_million_chunks)
{
	uint32_t n = 1u << 19;
	struct tide_request request = sim_request(n / 2);

	sim_open(&sim, n, n, 1);
	ck_assert_int_eq(tide_engine_submit(sim.engine, &request, 0, NULL), 0);
	for (uint32_t before = 0; sim.surveyed_chunks < n; before = (uint32_t)sim.surveyed_chunks) {
		uint64_t wait_ns;

		ck_assert_uint_le(sim.surveyed_chunks - before, PLAN_SURVEY);
		ck_assert_int_eq(tide_engine_step(sim.engine, &wait_ns), 1);
	}
	for (int i = 0; i < 50; i++) {
		uint64_t wait_ns;

		ck_assert_int_eq(tide_engine_step(sim.engine, &wait_ns), 1);
	}
	ck_assert_uint_gt(sim.decommitted_chunks, 0);
	tide_engine_cancel(sim.engine, 0, NULL);
	for (int i = 0; i < 50; i++) {
		uint64_t wait_ns;

		(void)tide_engine_step(sim.engine, &wait_ns);
	}
	ck_assert_int_eq(sim_progress(&sim).state, TIDE_OP_CANCELLED);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("engine");
	TCase *tc = tcase_create("resize");
	SRunner *runner;

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, NULL, teardown);
	tcase_add_test(tc, grow_reaches_target);
	tcase_add_test(tc, shrink_reaches_target);
	tcase_add_test(tc, grow_slices_follow_their_cost);
	tcase_add_test(tc, grow_leaves_retired_spread);
	tcase_add_test(tc, coldest_go_first);
	tcase_add_test(tc, those_that_go_are_taken_in_address_order);
	tcase_add_test(tc, preflight_denies);
	tcase_add_test(tc, preflight_short_but_acceptable);
	tcase_add_test(tc, commit_fails_at_every_slice);
	tcase_add_test(tc, grow_fails_anywhere);
	tcase_add_test(tc, shrink_fails_anywhere);
	tcase_add_test(tc, commit_failure_keeps_what_is_acceptable);
	tcase_add_test(tc, slice_that_does_not_verify);
	tcase_add_test(tc, end_that_does_not_verify);
	tcase_add_test(tc, pins_in_every_tenth_chunk);
	tcase_add_test(tc, stubborn_pins_are_exchanged);
	tcase_add_test(tc, pins_that_end_let_the_shrink_end);
	tcase_add_test(tc, deadline_ends_as_partial);
	tcase_add_test(tc, deadline_with_nothing_achieved);
	tcase_add_test(tc, deadline_and_what_is_acceptable);
	tcase_add_test(tc, growing_back_may_fail);
	tcase_add_test(tc, dirty_backlog);
	tcase_add_test(tc, flush_rate_is_kept_and_used);
	tcase_add_test(tc, readers_are_waited_for);
	tcase_add_test(tc, a_thousand_cycles);
	tcase_add_test(tc, refused_requests_change_nothing);
	tcase_add_test(tc, sizes_are_rounded_towards_the_present);
	tcase_add_test(tc, dry_run_changes_nothing);
	tcase_add_test(tc, recovery_finishes_or_undoes);
	tcase_add_test(tc, publication_that_fails_for_ever);
	tcase_add_test(tc, numbers_go_on_after_a_restart);
	tcase_add_test(tc, invalid_table_is_refused);
	tcase_add_test(tc, grow_slices_shrink_again);
	tcase_add_test(tc, memory_that_is_not_given_back_cannot_be_grown_into);
	tcase_add_test(tc, deadline_under_readers);
	tcase_add_test(tc, deadline_that_has_passed_already);
	tcase_add_test(tc, a_failure_without_a_reason_gets_one);
	tcase_add_test(tc, no_recovery_beside_an_operation);
	tcase_add_test(tc, silence_is_not_success);
	tcase_add_test(tc, half_a_million_chunks);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);

	int failed = srunner_ntests_failed(runner);

	srunner_free(runner);
	return failed ? 1 : 0;
}
