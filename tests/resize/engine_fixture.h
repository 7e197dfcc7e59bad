/* SPDX-License-Identifier: PostgreSQL */
/*
 * tests/resize/engine_fixture.h - an engine on the simulated host, for the tests of its promises.
 */
#ifndef TESTS_ENGINE_FIXTURE_H
#define TESTS_ENGINE_FIXTURE_H

#include "sim_host.c"

#include <check.h>

#include "resize/engine.h"

#define ck_sim(sim) ck_assert_msg((sim)->broken[0] == '\0', "%s", (sim)->broken)

static struct sim sim;

static void teardown(void)
{
	ck_sim(&sim);
	sim_close(&sim);
}

/* Nothing is half done, and the table says what the kernel says. */
static void ck_settled(void)
{
	ck_assert_int_eq(engine_needs_repair(sim.engine), 0);
	ck_assert_uint_eq(
		(sim_count(&sim, TIDE_CHUNK_ACTIVE) + sim_count(&sim, TIDE_CHUNK_LINGERING)) *
			(uint64_t)SIM_CHUNK,
		sim_backed_bytes(&sim));
}

static inline enum tide_op_state resize(uint64_t chunks)
{
	struct tide_request request = sim_request(chunks);

	ck_assert_int_eq(sim_submit(&sim, &request, 0), 0);
	return sim_run(&sim);
}

#endif /* TESTS_ENGINE_FIXTURE_H */
