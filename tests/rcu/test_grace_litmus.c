/* SPDX-License-Identifier: PostgreSQL */
/*
 * test_grace_litmus.c - a section and a removal at the same moment: store here, load there, on both
 * sides. What is removed is destroyed as soon as its period has passed; a section that still holds
 * it must never see that.
 *
 * Both sides run freely, without a common beat, so that they meet in every possible manner. Without
 * the barrier of the waiter a processor with a store buffer fails this many times.
 */
#include "grace_actor.h"

#include <sched.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define ROUNDS 5000u
#else
#define ROUNDS 20000u
#endif
#define PATIENCE 10u
#define THINGS 64u
#define SPINS 200u /* polls before the processor is left to somebody else */

enum thing {
	ALIVE = 1,
	DESTROYED = 2,
};

/* What both sides share; each word in a line of its own. */
struct litmus {
	alignas(64) _Atomic uint32_t current; /* index of the thing that is there */
	alignas(64) _Atomic uint32_t end;     /* the reader may stop */
	alignas(64) _Atomic uint32_t sections;
	_Atomic uint32_t wrong; /* sections that saw a thing destroyed */
	struct {
		alignas(64) _Atomic uint32_t state;
	} things[THINGS];
};

static struct litmus *litmus;
static struct tide_grace *grace;

/* Find what is there and look at it for a while. */
static int section_goes_wrong(struct tide_reader *reader, uint32_t looks)
{
	uint32_t index;
	int wrong = 0;

	tide_reader_enter(reader);
	index = atomic_load_explicit(&litmus->current, memory_order_relaxed);
	for (uint32_t i = 0; i < looks; i++)
		wrong |= atomic_load_explicit(&litmus->things[index].state, memory_order_relaxed) ==
			 DESTROYED;
	tide_reader_leave(reader);
	return wrong;
}

static void *read_on(void *unused)
{
	struct tide_reader reader;
	uint32_t n = 0;

	if (tide_reader_register(grace, &reader, NULL) != 0)
		return unused;
	while (!atomic_load_explicit(&litmus->end, memory_order_relaxed)) {
		if (section_goes_wrong(&reader, 8 + n % 256))
			atomic_fetch_add(&litmus->wrong, 1);
		atomic_store_explicit(&litmus->sections, ++n, memory_order_relaxed);
	}
	tide_reader_unregister(&reader);
	return NULL;
}

/* Put another thing there, and destroy the one that was there when nobody can hold it. */
static unsigned replace(uint32_t round)
{
	uint32_t old = (round - 1) % THINGS, new = round % THINGS;
	unsigned polls = 0;
	uint64_t ticket;

	atomic_store_explicit(&litmus->things[new].state, ALIVE, memory_order_relaxed);
	atomic_store_explicit(&litmus->current, new, memory_order_release);
	ticket = tide_grace_start(grace);
	for (; !tide_grace_poll(grace, ticket); polls++)
		if (polls >= SPINS)
			sched_yield();
	atomic_store_explicit(&litmus->things[old].state, DESTROYED, memory_order_relaxed);
	return polls;
}

/*
 * Until both sides have run at once for so many periods: sections went on during them. A machine that
 * has no two processors to spare is given up on after a while.
 */
static void replace_on(void)
{
	unsigned waited = 0, met = 0;
	uint32_t sections = 0;
	uint32_t round = 1;

	for (; met < ROUNDS && (round < PATIENCE * ROUNDS || sections == 0); round++) {
		uint32_t before = sections;

		waited += replace(round) > 0;
		sections = atomic_load_explicit(&litmus->sections, memory_order_relaxed);
		met += sections != before;
	}
	atomic_store_explicit(&litmus->end, 1, memory_order_relaxed);
	printf("# %u periods, %u in company, %u had to wait, %u sections, %u of them wrong\n",
	       round, met, waited, sections, atomic_load(&litmus->wrong));
	(void)fflush(stdout);
}

static void set_up(void)
{
	void *memory = mmap(NULL, sizeof(*litmus), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(memory, MAP_FAILED);
	litmus = memory;
	atomic_store(&litmus->things[0].state, ALIVE);
}

static void check_and_tear_down(struct tide_grace_table *table)
{
	ck_assert_uint_eq(atomic_load(&litmus->wrong), 0);
	tide_grace_close(grace);
	if (table)
		table_free(table, 2);
	munmap(litmus, sizeof(*litmus));
}

/* @fenced: 1 = every reader fences for itself */
static struct tide_grace_table *litmus_table(int fenced)
{
	struct tide_grace_table *table = table_new(2);

	atomic_store(&table->fenced_only, (uint32_t)fenced);
	grace = grace_new(TIDE_GRACE_SHARED, table);
	return table;
}

START_TEST(threads)
{
	struct tide_grace_table *table = NULL;
	pthread_t thread;
	void *failed;

	set_up();
	if (_i < 2)
		table = litmus_table(_i);
	else
		grace = grace_new(TIDE_GRACE_THREADS, NULL);
	ck_assert_int_eq(pthread_create(&thread, NULL, read_on, litmus), 0);
	replace_on();
	ck_assert_int_eq(pthread_join(thread, &failed), 0);
	ck_assert_ptr_null(failed);
	check_and_tear_down(table);
}
END_TEST

START_TEST(processes)
{
	struct tide_grace_table *table;
	pid_t process_id;
	int status;

	set_up();
	table = litmus_table(_i);
	process_id = fork();
	if (process_id == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(read_on(litmus) != NULL);
	}
	replace_on();
	ck_assert_int_eq(waitpid(process_id, &status, 0), process_id);
	ck_assert_int_eq(status, 0);
	check_and_tear_down(table);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("grace litmus");
	TCase *tcase = tcase_create("litmus");

	tcase_set_timeout(tcase, 300);
	tcase_add_loop_test(tcase, threads, 0, 3);
	tcase_add_loop_test(tcase, processes, 0, 2);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
