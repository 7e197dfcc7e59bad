/* SPDX-License-Identifier: PostgreSQL */
/*
 * tests/resize/test_random.c - the engine through random requests, users, failures and crashes.
 *
 * Every sequence follows from its seed, which is printed when an invariant breaks. To repeat one:
 * TIDE_SEED=<seed> TIDE_RUNS=1. The invariants are those of sim_check(), checked after every call,
 * and of the simulated host, checked in every call; at the end everything must come to rest.
 */
#include "sim_host.c"

#include <check.h>

#include "resize/engine.h"

#define RUNS 2500u
#define CALLS 120u

static struct sim sim;
static uint64_t seed;

static uint64_t number_from(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 0) : otherwise;
}

#define ck_sane(what)                                                                             \
	ck_assert_msg(sim.broken[0] == '\0', "seed %llu: %s: %s", (unsigned long long)seed, what, \
		      sim.broken)

static void random_submit(void)
{
	uint64_t most = (uint64_t)sim.n_chunks * SIM_CHUNK;
	struct tide_request request = {
		.target_bytes = sim_random(&sim, most + most / 8),
		.dry_run = sim_random(&sim, 20) == 0,
	};
	struct tide_progress before = sim_progress(&sim), after;
	uint32_t n_changed = sim.n_changed;

	if (sim_random(&sim, 3) == 0)
		request.min_acceptable_bytes = sim_random(&sim, most);
	if (sim_random(&sim, 2) == 0)
		request.deadline_ns = sim_random(&sim, 400000000);
	if (sim_random(&sim, 3) == 0)
		request.flush_bytes_per_s = 1 + sim_random(&sim, 10000000);
	if (sim_random(&sim, 3) == 0)
		request.linger_ns = sim_random(&sim, 300000000);

	int code = sim_submit(&sim, &request, sim_random(&sim, 2) == 0);

	after = sim_progress(&sim);
	if (code != 0)
		ck_assert_msg(after.op == before.op && after.state == before.state &&
				      sim.n_changed == n_changed,
			      "seed %llu: a refused request changed something",
			      (unsigned long long)seed);
	ck_sane("submit");
}

static void random_user(void)
{
	uint32_t chunk = (uint32_t)sim_random(&sim, sim.n_chunks);
	struct sim_buffer *buffer = &buffers_of(&sim, chunk)[sim_random(&sim, SIM_BUFFERS)];

	if (buffer->pins > 0 && sim_random(&sim, 2) == 0) {
		buffer->pins--;
	} else if (buffer->usable &&
		   (buffer->valid || state_of(&sim, chunk) == TIDE_CHUNK_ACTIVE)) {
		buffer->valid = 1;
		buffer->heat = (uint8_t)sim_random(&sim, 6);
		buffer->pins += sim_random(&sim, 3) == 0;
		buffer->dirty |= sim_random(&sim, 3) == 0;
	}
}

static void recover(void)
{
	struct tide_reason why;

	sim_restart(&sim);
	/* It may fail, may be repeated, and may be left out: requests repair what they find. */
	if (sim_random(&sim, 4) > 0 && tide_engine_recover(sim.engine, NULL, &why) == 0)
		ck_assert_msg(!engine_needs_repair(sim.engine), "seed %llu: recovered by half",
			      (unsigned long long)seed);
	sim_check(&sim);
	ck_sane("recover");
}

static void random_call(void)
{
	switch (sim_random(&sim, 16)) {
	case 0:
	case 1:
		random_submit();
		break;
	case 2:
		if (sim_random(&sim, 4) == 0)
			tide_engine_cancel(sim.engine, TIDE_CANCELLED, "somebody asked to");
		break;
	case 3:
		if (sim_random(&sim, 4) == 0)
			recover();
		break;
	case 4:
		sim.fail_percent = sim_random(&sim, 3) == 0 ? (uint32_t)sim_random(&sim, 30) : 0;
		break;
	case 5:
		if (sim_random(&sim, 4) == 0)
			sim.crash_at = sim.all_calls + 1 + (uint32_t)sim_random(&sim, 30);
		break;
	case 6:
		sim.readers = sim_random(&sim, 2) == 0;
		sim.preflight_have = sim_random(&sim, 2) == 0
					     ? UINT64_MAX
					     : sim_random(&sim, sim.n_chunks) * SIM_CHUNK;
		sim.audit_skew = sim_random(&sim, 6) == 0 ? (int64_t)sim_random(&sim, 5) - 2 : 0;
		break;
	case 7:
	case 8:
	case 9:
		for (int i = 0; i < 20; i++)
			random_user();
		break;
	default:
		(void)sim_step(&sim);
		ck_assert_msg(plan_is_valid(&sim.engine->plan), "seed %llu: invalid plan",
			      (unsigned long long)seed);
	}
	sim_check(&sim);
	ck_sane("call");
}

static void no_more_trouble(void)
{
	sim.fail_percent = 0;
	sim.crash_at = 0;
	sim.readers = 0;
	sim.audit_skew = 0;
	sim.preflight_have = UINT64_MAX;
	for (size_t i = 0; i < (size_t)sim.n_chunks * SIM_BUFFERS; i++)
		sim.buffers[i].pins = 0;
}

static enum tide_op_state resize_to(uint32_t chunks)
{
	struct tide_request request = sim_request(chunks);

	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	return sim_run(&sim);
}

/* Whatever holes trouble has left are filled by growing and not made again by shrinking. */
static void come_to_be_dense(uint32_t target)
{
	ck_assert_int_eq(resize_to(sim.n_chunks), TIDE_OP_DONE);
	ck_assert_int_eq(resize_to(target), TIDE_OP_DONE);
	for (uint32_t i = 0; i < target; i++)
		ck_assert_msg(state_of(&sim, i) == TIDE_CHUNK_ACTIVE, "seed %llu: a hole at %u",
			      (unsigned long long)seed, i);
	ck_sane("dense");
}

/* Everything has to come to rest, and a request has to be carried out to the byte. */
static void come_to_rest(void)
{
	uint64_t wait_ns = 0;
	uint32_t target = 1 + (uint32_t)sim_random(&sim, sim.n_chunks);

	no_more_trouble();
	(void)sim_run(&sim);
	for (int i = 0; i < 10000 && wait_ns != UINT64_MAX; i++) {
		(void)tide_engine_step(sim.engine, &wait_ns);
		sim.now_ns += wait_ns != UINT64_MAX ? wait_ns : 0;
	}
	ck_assert_msg(wait_ns == UINT64_MAX, "seed %llu: no rest", (unsigned long long)seed);
	ck_assert_int_eq(engine_needs_repair(sim.engine), 0);
	ck_assert_uint_eq(sim_count(&sim, TIDE_CHUNK_LINGERING), 0);
	ck_assert_msg(resize_to(target) == TIDE_OP_DONE, "seed %llu: %s: %s",
		      (unsigned long long)seed, tide_op_state_name(sim_progress(&sim).state),
		      sim_progress(&sim).reason.message);
	ck_assert_uint_eq(sim_count(&sim, TIDE_CHUNK_ACTIVE), target);
	ck_assert_uint_eq(sim_backed_bytes(&sim), (uint64_t)target * SIM_CHUNK);
	ck_sane("rest");
	if (sim.config.compact)
		come_to_be_dense(target);
}

static void run_sequence(void)
{
	static uint32_t calls; /* survives the jump */
	uint64_t shape = seed * UINT64_C(0x9E3779B97F4A7C15) >> 40;
	uint32_t n_chunks = 1 + (uint32_t)(shape % 48);

	sim_open(&sim, n_chunks, 1 + (uint32_t)(shape / 48 % n_chunks), seed);
	sim.config.compact = seed % 2 == 0;
	sim_restart(&sim);
	calls = 0;
	if (setjmp(sim.crash) != 0) {
		sim_check(&sim);
		ck_sane("crash");
		recover();
	}
	while (calls < CALLS) {
		calls++;
		random_call();
	}
	no_more_trouble();
	come_to_rest();
	sim_close(&sim);
}

START_TEST(random_sequences)
{
	uint64_t first = number_from("TIDE_SEED", 1);
	uint64_t runs = number_from("TIDE_RUNS", RUNS);

	for (seed = first; seed < first + runs; seed++)
		run_sequence();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("random");
	TCase *tc = tcase_create("sequences");
	SRunner *runner;

	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, random_sequences);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);

	int failed = srunner_ntests_failed(runner);

	srunner_free(runner);
	return failed ? 1 : 0;
}
