/* SPDX-License-Identifier: PostgreSQL */
/* Tests of latch.c: who waits for whom, and what nobody waits for. */
#include "pool_fixture.h"

#define PAGE 7u

static int waits_for(enum tide_fix_mode held, enum tide_fix_mode wanted)
{
	if (held == TIDE_FIX_PIN || wanted == TIDE_FIX_PIN)
		return 0;
	return held != TIDE_FIX_READ || wanted != TIDE_FIX_READ;
}

/* A writer that waits for readers owns the page; whoever waits for a writer sleeps on it. */
static int somebody_waits(struct fx *fx, enum tide_fix_mode held)
{
	return (fx_state(fx, PAGE) & (held == TIDE_FIX_READ ? STATE_X : STATE_WAIT)) != 0;
}

static void meet(struct fx *fx, enum tide_fix_mode held, enum tide_fix_mode wanted)
{
	struct fx_actor actor = {.page = PAGE, .mode = wanted};
	struct tide_fix fix = fx_fix(fx->s, PAGE, held);

	fx_start(&actor, fx, fx_act_fix);
	if (waits_for(held, wanted)) {
		FX_UNTIL(somebody_waits(fx, held));
		ck_assert_uint_eq(atomic_load(&actor.said), 0);
		tide_pool_unfix(fx->s, &fix);
		fx_await(&actor, 1);
	} else {
		fx_await(&actor, 1);
		ck_assert_ptr_eq(actor.fix.page, fix.page);
		tide_pool_unfix(fx->s, &fix);
	}
	ck_assert_int_eq(actor.code, 0);
	fx_let(&actor, 1);
	fx_join(&actor);
}

START_TEST(modes_of_two_sessions)
{
	struct fx fx;

	fx_open(&fx, 2, 1);
	for (int held = TIDE_FIX_PIN; held <= TIDE_FIX_NEW; held++)
		for (int wanted = TIDE_FIX_PIN; wanted <= TIDE_FIX_NEW; wanted++)
			meet(&fx, (enum tide_fix_mode)held, (enum tide_fix_mode)wanted);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

START_TEST(modes_of_one_session)
{
	struct fx fx;

	fx_open(&fx, 2, 1);
	for (int held = TIDE_FIX_PIN; held <= TIDE_FIX_NEW; held++)
		for (int wanted = TIDE_FIX_PIN; wanted <= TIDE_FIX_NEW; wanted++) {
			struct tide_fix fix = fx_fix(fx.s, PAGE, (enum tide_fix_mode)held), other;

			if (waits_for((enum tide_fix_mode)held, (enum tide_fix_mode)wanted)) {
				ck_assert_int_eq(fx_refused(fx.s, PAGE, (enum tide_fix_mode)wanted),
						 TIDE_BAD_REQUEST);
			} else {
				other = fx_fix(fx.s, PAGE, (enum tide_fix_mode)wanted);
				ck_assert_ptr_eq(other.page, fix.page);
				tide_pool_unfix(fx.s, &other);
			}
			tide_pool_unfix(fx.s, &fix);
			ck_assert_ptr_null(fix.page);
		}
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

/* Our first fix keeps the writer waiting: we would wait for ourselves. */
START_TEST(reader_reads_again_while_a_writer_waits)
{
	struct fx fx;
	struct fx_actor writer = {.page = PAGE, .mode = TIDE_FIX_WRITE};
	struct tide_fix first, second;

	fx_open(&fx, 2, 1);
	first = fx_fix(fx.s, PAGE, TIDE_FIX_READ);
	fx_start(&writer, &fx, fx_act_fix);
	FX_UNTIL(fx_state(&fx, PAGE) & STATE_X);
	second = fx_fix(fx.s, PAGE, TIDE_FIX_READ);
	tide_pool_unfix(fx.s, &first);
	ck_assert_uint_eq(atomic_load(&writer.said), 0);
	tide_pool_unfix(fx.s, &second);
	fx_await(&writer, 1);
	fx_let(&writer, 1);
	fx_join(&writer);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

/* The page is dirty, we read it, a writer waits for us: a flush is not to wait for the writer. */
START_TEST(reader_flushes_while_a_writer_waits)
{
	struct fx fx;
	struct fx_actor writer = {.page = PAGE, .mode = TIDE_FIX_WRITE};
	struct tide_reason why;
	struct tide_fix fix;
	int code;

	fx_open(&fx, 2, 1);
	fx_put(fx.s, PAGE, 3);
	fix = fx_fix(fx.s, PAGE, TIDE_FIX_READ);
	fx_start(&writer, &fx, fx_act_fix);
	FX_UNTIL(fx_state(&fx, PAGE) & STATE_X);
	code = tide_pool_flush(fx.s, 0, PAGE, 1, &why);
	ck_assert(code == TIDE_OK || code == TIDE_BAD_REQUEST);
	if (code == TIDE_OK)
		ck_assert_uint_eq(fx_stored(&fx, PAGE)->durable, 3);
	tide_pool_unfix(fx.s, &fix);
	fx_await(&writer, 1);
	fx_let(&writer, 1);
	fx_join(&writer);
	fx_close(&fx);
}
END_TEST

/* Memory waits for sections, so nobody stays in one for as long as others have a page fixed. */
START_TEST(waiting_holds_no_grace_period_up)
{
	struct fx fx;
	struct fx_actor writer = {.page = PAGE, .mode = TIDE_FIX_WRITE};
	struct fx_actor reader = {.page = PAGE, .mode = TIDE_FIX_READ};
	struct tide_fix fix;
	struct tide_reason why;

	fx_open(&fx, 2, 1);
	fix = fx_fix(fx.s, PAGE, TIDE_FIX_READ);
	fx_start(&writer, &fx, fx_act_fix);
	FX_UNTIL(fx_state(&fx, PAGE) & STATE_X);
	fx_start(&reader, &fx, fx_act_fix);
	FX_UNTIL(fx_state(&fx, PAGE) & STATE_WAIT);
	ck_assert_int_eq(tide_grace_wait(fx.pool->grace, UINT64_C(10000000000), &why), 0);
	tide_pool_unfix(fx.s, &fix);
	fx_await(&writer, 1);
	ck_assert_uint_eq(atomic_load(&reader.said), 0);
	fx_let(&writer, 1);
	fx_join(&writer);
	fx_await(&reader, 1);
	fx_let(&reader, 1);
	fx_join(&reader);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

/* A reader that marks the page and then finds a writer there has to wait. */
static struct fx_actor *latched;
static struct fx *stage;

static void check_latched(void)
{
	/* The writer owns the page and has not looked for readers: a reader comes. */
	fx_start(latched, stage, fx_act_fix);
	FX_UNTIL(fx_state(stage, PAGE) & STATE_WAIT);
	ck_assert_uint_eq(atomic_load(&latched->said), 0);
}

START_TEST(reader_comes_when_the_writer_has_just_latched)
{
	struct fx fx;
	struct fx_actor reader = {.page = PAGE, .mode = TIDE_FIX_READ};
	struct tide_fix fix;

	fx_open(&fx, 2, 1);
	(void)fx_get(fx.s, PAGE);
	ck_assert(fx_state(&fx, PAGE) & STATE_BIAS);
	latched = &reader;
	stage = &fx;
	fx_at(POOL_PAUSE_LATCHED, 1, check_latched);
	fix = fx_fix(fx.s, PAGE, TIDE_FIX_WRITE);
	ck_assert(!(fx_state(&fx, PAGE) & STATE_BIAS));
	ck_assert_uint_eq(atomic_load(&reader.said), 0);
	tide_pool_unfix(fx.s, &fix);
	fx_await(&reader, 1);
	fx_let(&reader, 1);
	fx_join(&reader);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

/* --- all at once ---------------------------------------------------------------------------------- */

#define HOT_PAGES 40u
#define ROUNDS 3000u

static _Atomic uint64_t written[HOT_PAGES];

/* Adds 1 to a page, or looks at it; another half of the pool is read to have pages evicted. */
static void hammer(struct fx_actor *actor)
{
	uint32_t x = (uint32_t)actor->page * 7919 + 1;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint64_t page;

		x = x * 1664525 + 1013904223;
		page = x >> 16;
		if (x >> 12 & 1) {
			(void)fx_get(actor->s, 100 + page % 60);
		} else if (x >> 13 & 1) {
			struct tide_fix fix = fx_fix(actor->s, page % HOT_PAGES, TIDE_FIX_WRITE);
			const uint64_t version = fx_version(fix.page, 0, page % HOT_PAGES);

			tide_pool_mark_dirty(actor->s, &fix);
			fx_fill(fix.page, 0, page % HOT_PAGES, version + 1);
			tide_pool_unfix(actor->s, &fix);
			atomic_fetch_add(&written[page % HOT_PAGES], 1);
		} else {
			const uint64_t least = atomic_load(&written[page % HOT_PAGES]);

			ck_assert_uint_ge(fx_get(actor->s, page % HOT_PAGES), least);
		}
	}
}

START_TEST(no_change_is_lost)
{
	struct fx_actor actors[4] = {0};
	struct fx fx;
	struct tide_progress progress;

	fx_open(&fx, 3, 2);
	for (uint32_t i = 0; i < 4; i++) {
		actors[i].page = i;
		fx_start(&actors[i], &fx, hammer);
	}
	for (uint32_t i = 0; !atomic_load(&actors[0].done); i++) {
		progress = fx_request(
			fx.s, (struct tide_request){.target_bytes = (1 + i % 3) * FX_CHUNK});
		ck_assert_int_eq(progress.state, TIDE_OP_DONE);
		if (i % 4 == 0)
			ck_assert_int_eq(fx_flush(&fx), 0);
	}
	for (int i = 0; i < 4; i++)
		fx_join(&actors[i]);
	for (uint64_t page = 0; page < HOT_PAGES; page++)
		ck_assert_uint_eq(fx_get(fx.s, page), written[page]);
	fx_check(&fx);
	ck_assert_int_eq(fx_flush(&fx), 0);
	for (uint64_t page = 0; page < HOT_PAGES; page++)
		ck_assert_uint_eq(fx_stored(&fx, page)->durable, written[page]);
	fx_close(&fx);
}
END_TEST

int main(void)
{
	const struct fx_test tests[] = {
		FX_TEST(modes_of_two_sessions),
		FX_TEST(modes_of_one_session),
		FX_TEST(reader_reads_again_while_a_writer_waits),
		FX_TEST(reader_flushes_while_a_writer_waits),
		FX_TEST(waiting_holds_no_grace_period_up),
		FX_TEST(reader_comes_when_the_writer_has_just_latched),
		FX_TEST(no_change_is_lost),
	};

	return fx_run("pool-latch", tests, sizeof(tests) / sizeof(tests[0]));
}
