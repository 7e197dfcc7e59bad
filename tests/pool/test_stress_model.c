/* SPDX-License-Identifier: PostgreSQL */
/* test_stress_model.c - the model of tidestress: what it allows, and what it calls lost. */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>

#include "../../tools/tidestress/model.c"

#define PAGES 64u
#define SLOTS 4u
#define RACES 20000

static struct model model;

static void set_up(void)
{
	ck_assert_int_eq(model_open(&model, PAGES, SLOTS), 0);
}

static void tear_down(void)
{
	model_close(&model);
}

/* What a writer that lives does. */
static uint64_t write_page(uint32_t slot, uint64_t page)
{
	uint64_t version;

	model_intend_write(&model, slot, 0, page);
	version = model_begin_write(&model, page);
	model_end_write(&model, page, version);
	model_withdraw(&model, slot, 0);
	return version;
}

static void flush(uint64_t first, uint64_t n)
{
	struct model_flush *claims = model_flush_begin(&model, first, n);

	ck_assert_ptr_nonnull(claims);
	model_flush_end(&model, claims);
}

static uint64_t durable(uint64_t page)
{
	return get(&model.pages[page].durable);
}

START_TEST(a_page_reads_as_it_was_written)
{
	ck_assert_int_eq(model_read(&model, 7, 0), MODEL_GOOD);
	ck_assert_uint_eq(write_page(0, 7), 1);
	ck_assert_uint_eq(write_page(1, 7), 2);
	ck_assert_int_eq(model_read(&model, 7, 2), MODEL_GOOD);
}
END_TEST

START_TEST(nobody_dies_so_nothing_falls_back)
{
	write_page(0, 7);
	write_page(0, 7);
	ck_assert_int_eq(model_read(&model, 7, 1), MODEL_LOST_WRITE);
	ck_assert_int_eq(model_read(&model, 7, 3), MODEL_FROM_NOWHERE);
	flush(0, PAGES);
	ck_assert_uint_eq(durable(7), 2);
	ck_assert_int_eq(model_read(&model, 7, 1), MODEL_LOST_DURABLE);
	ck_assert_int_eq(model_read(&model, 8, 0), MODEL_GOOD);
}
END_TEST

START_TEST(a_writer_that_dies_takes_its_page_back_to_what_is_durable_at_most)
{
	write_page(0, 7);
	flush(7, 1);
	write_page(0, 7);
	write_page(0, 7);
	model_intend_write(&model, 1, 2, 7);
	ck_assert_uint_eq(model_begin_write(&model, 7), 4);
	model_doom(&model, 1);
	/* Before it is buried, and after. */
	ck_assert_int_eq(model_read(&model, 7, 0), MODEL_LOST_DURABLE);
	ck_assert_int_eq(model_read(&model, 7, 4), MODEL_FROM_NOWHERE);
	ck_assert_int_eq(model_read(&model, 7, 2), MODEL_FELL_BACK);
	model_bury(&model, 1);
	ck_assert_int_eq(model_read(&model, 7, 1), MODEL_FELL_BACK);
	/* Settled: from here on it stays. */
	ck_assert_int_eq(model_read(&model, 7, 1), MODEL_GOOD);
	ck_assert_uint_eq(write_page(0, 7), 5);
	ck_assert_int_eq(model_read(&model, 7, 1), MODEL_LOST_WRITE);
}
END_TEST

START_TEST(a_death_excuses_no_other_page)
{
	write_page(0, 7);
	write_page(0, 8);
	model_intend_write(&model, 1, 0, 7);
	model_doom(&model, 1);
	ck_assert_int_eq(model_read(&model, 8, 0), MODEL_LOST_WRITE);
	model_bury(&model, 1);
	ck_assert_int_eq(model_read(&model, 8, 0), MODEL_LOST_WRITE);
}
END_TEST

START_TEST(an_intent_alone_excuses_nothing)
{
	write_page(0, 7);
	model_intend_write(&model, 1, 0, 7);
	ck_assert_int_eq(model_read(&model, 7, 0), MODEL_LOST_WRITE);
}
END_TEST

START_TEST(a_drop_loses_what_is_not_durable_of_its_range)
{
	for (uint64_t page = 5; page < 12; page++)
		write_page(0, page);
	flush(9, 1);
	model_intend_drop(&model, 2, 6, 4);
	ck_assert_int_eq(model_read(&model, 6, 0), MODEL_FELL_BACK);
	ck_assert_int_eq(model_read(&model, 7, 1), MODEL_GOOD);
	ck_assert_int_eq(model_read(&model, 7, 0), MODEL_FELL_BACK);
	ck_assert_int_eq(model_read(&model, 5, 0), MODEL_LOST_WRITE);
	ck_assert_int_eq(model_read(&model, 10, 0), MODEL_LOST_WRITE);
	model_dropped(&model, 2);
	ck_assert_int_eq(model_read(&model, 8, 0), MODEL_FELL_BACK);
	ck_assert_int_eq(model_read(&model, 9, 0), MODEL_LOST_DURABLE);
}
END_TEST

START_TEST(a_dropper_that_dies_has_dropped)
{
	write_page(0, 6);
	model_intend_drop(&model, 2, 6, 4);
	model_doom(&model, 2);
	model_bury(&model, 2);
	ck_assert_int_eq(model_read(&model, 6, 0), MODEL_FELL_BACK);
}
END_TEST

START_TEST(a_flush_claims_what_was_there_when_it_began)
{
	struct model_flush *claims;

	write_page(0, 7);
	claims = model_flush_begin(&model, 0, PAGES);
	write_page(0, 7);
	ck_assert_uint_eq(durable(7), 0);
	model_flush_end(&model, claims);
	ck_assert_uint_eq(durable(7), 1);
	claims = model_flush_begin(&model, 0, PAGES);
	model_flush_abandon(claims);
	ck_assert_uint_eq(durable(7), 1);
}
END_TEST

START_TEST(a_flush_claims_nothing_of_a_page_whose_writer_dies_meanwhile)
{
	struct model_flush *claims;

	for (int buried = 0; buried < 2; buried++) {
		model_intend_write(&model, 1, 0, 7);
		model_end_write(&model, 7, model_begin_write(&model, 7));
		claims = model_flush_begin(&model, 0, PAGES);
		model_doom(&model, 1);
		if (buried)
			model_bury(&model, 1);
		model_flush_end(&model, claims);
		ck_assert_uint_eq(durable(7), 0);
		model_bury(&model, 1);
	}
}
END_TEST

START_TEST(a_flush_claims_nothing_of_a_page_whose_loss_nobody_has_seen)
{
	struct model_flush *claims;

	model_intend_write(&model, 1, 0, 7);
	model_end_write(&model, 7, model_begin_write(&model, 7));
	model_doom(&model, 1);
	claims = model_flush_begin(&model, 0, PAGES);
	model_bury(&model, 1);
	model_flush_end(&model, claims);
	ck_assert_uint_eq(durable(7), 0);
	flush(0, PAGES);
	ck_assert_uint_eq(durable(7), 0);
	ck_assert_int_eq(model_read(&model, 7, 0), MODEL_FELL_BACK);
	write_page(0, 7);
	flush(0, PAGES);
	ck_assert_uint_eq(durable(7), 2);
}
END_TEST

START_TEST(a_flush_claims_nothing_of_what_is_dropped_meanwhile)
{
	struct model_flush *claims;

	write_page(0, 7);
	write_page(0, 20);
	claims = model_flush_begin(&model, 0, PAGES);
	model_intend_drop(&model, 2, 0, 10);
	model_flush_end(&model, claims);
	ck_assert_uint_eq(durable(7), 0);
	ck_assert_uint_eq(durable(20), 1);
}
END_TEST

START_TEST(corrupt_is_what_was_torn_and_then_lost)
{
	uint32_t renewed = get(&model.pages[7].renewed);

	write_page(0, 7);
	ck_assert(!model_may_be_corrupt(&model, 7, renewed));
	set(&model.pages[7].torn, 1);
	ck_assert(!model_may_be_corrupt(&model, 7, renewed));
	model_intend_write(&model, 1, 0, 7);
	model_doom(&model, 1);
	ck_assert(model_may_be_corrupt(&model, 7, renewed));
	model_bury(&model, 1);
	ck_assert(model_may_be_corrupt(&model, 7, renewed));
	model_renew(&model, 7);
	/* For who asked before it was begun again, and for nobody else. */
	ck_assert(model_may_be_corrupt(&model, 7, renewed));
	ck_assert(!model_may_be_corrupt(&model, 7, renewed + 1));
}
END_TEST

static pthread_barrier_t both;

/* Returns how often the version that everybody finds was not allowed. */
static void *read_with_another(void *argument)
{
	uintptr_t wrong = 0;

	for (int i = 0; i < RACES; i++) {
		pthread_barrier_wait(&both);
		wrong += model_read(&model, 7, 0) > MODEL_FELL_BACK;
		pthread_barrier_wait(&both);
	}
	(void)argument;
	return (void *)wrong;
}

START_TEST(two_that_find_a_loss_at_the_same_time_agree)
{
	pthread_t another;
	void *wrong;

	ck_assert_int_eq(pthread_barrier_init(&both, NULL, 2), 0);
	ck_assert_int_eq(pthread_create(&another, NULL, read_with_another, NULL), 0);
	for (int i = 0; i < RACES; i++) {
		write_page(0, 7);
		model_intend_drop(&model, 2, 7, 1);
		model_dropped(&model, 2);
		pthread_barrier_wait(&both);
		ck_assert_int_le(model_read(&model, 7, 0), MODEL_FELL_BACK);
		pthread_barrier_wait(&both);
	}
	ck_assert_int_eq(pthread_join(another, &wrong), 0);
	ck_assert_ptr_null(wrong);
	pthread_barrier_destroy(&both);
}
END_TEST

START_TEST(an_intent_holds_the_largest_model)
{
	uint64_t intent = intent_make(MODEL_PAGES_MAX - 1, MODEL_PAGES_MAX) | INTENT_DROP;

	ck_assert_uint_eq(intent_first(intent), MODEL_PAGES_MAX - 1);
	ck_assert_uint_eq(intent_n(intent), MODEL_PAGES_MAX);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("model");
	Suite *suite = suite_create("tidestress model");
	SRunner *runner;
	int failed;

	tcase_add_checked_fixture(tcase, set_up, tear_down);
	tcase_add_test(tcase, a_page_reads_as_it_was_written);
	tcase_add_test(tcase, nobody_dies_so_nothing_falls_back);
	tcase_add_test(tcase, a_writer_that_dies_takes_its_page_back_to_what_is_durable_at_most);
	tcase_add_test(tcase, a_death_excuses_no_other_page);
	tcase_add_test(tcase, an_intent_alone_excuses_nothing);
	tcase_add_test(tcase, a_drop_loses_what_is_not_durable_of_its_range);
	tcase_add_test(tcase, a_dropper_that_dies_has_dropped);
	tcase_add_test(tcase, a_flush_claims_what_was_there_when_it_began);
	tcase_add_test(tcase, a_flush_claims_nothing_of_a_page_whose_writer_dies_meanwhile);
	tcase_add_test(tcase, a_flush_claims_nothing_of_a_page_whose_loss_nobody_has_seen);
	tcase_add_test(tcase, a_flush_claims_nothing_of_what_is_dropped_meanwhile);
	tcase_add_test(tcase, corrupt_is_what_was_torn_and_then_lost);
	tcase_add_test(tcase, two_that_find_a_loss_at_the_same_time_agree);
	tcase_add_test(tcase, an_intent_holds_the_largest_model);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
