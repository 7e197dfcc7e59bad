/* SPDX-License-Identifier: PostgreSQL */
/*
 * test_lookup_readers.c - readers while two writers change entries and the table goes up and down.
 *
 * The property: a key that is in the table throughout is found by every find. Half of the keys share a
 * bucket whatever the size, so that chains grow, shrink and move all the time. Writers move present keys
 * between two buffers and write other keys into the one that was left.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lookup_fixture.h"

#define N_PRESENT 120u /* key i lies in buffer 2 i or 2 i + 1 */
#define N_COMING 40u   /* keys that come and go, buffers after those */
#define N_ABSENT 40u
#define WRITERS 2u
#define READERS 2u
#define N_BUFFERS (5u * 320u)

/* In memory that the actors share, which may be processes. */
struct stage {
	struct table table;
	uint64_t present[N_PRESENT], coming[N_COMING], absent[N_ABSENT];
	_Atomic uint32_t stop, missed, wrong;
	_Atomic uint64_t changes, finds;
};

struct actor {
	struct stage *stage;
	uint32_t number;
};

static struct stage *stage_new(void)
{
	struct stage *stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t id = 0, *ids;

	ck_assert_ptr_ne(stage, MAP_FAILED);
	stage->table = table_new(KEY_PAGE_ID, N_BUFFERS, 1);
	for (uint32_t i = 0; i < N_PRESENT + N_COMING + N_ABSENT; i++) {
		ids = i < N_PRESENT		 ? &stage->present[i]
		      : i < N_PRESENT + N_COMING ? &stage->coming[i - N_PRESENT]
						 : &stage->absent[i - N_PRESENT - N_COMING];
		*ids = i % 2 ? table_collide(&stage->table, &id, 63, 5) : id++;
	}
	for (uint32_t i = 0; i < N_PRESENT; i++)
		table_enter(&stage->table, stage->present[i], 2 * i);
	return stage;
}

static void stage_free(struct stage *stage)
{
	table_free(&stage->table);
	munmap(stage, sizeof(*stage));
}

static void find_some(struct stage *stage, uint64_t *seed)
{
	uint32_t i = (uint32_t)(random_next(seed) % N_PRESENT);
	uint32_t found = table_find(&stage->table, stage->present[i]);

	if (found == TIDE_LOOKUP_NONE)
		atomic_fetch_add(&stage->missed, 1);
	else if (found / 2 != i)
		atomic_fetch_add(&stage->wrong, 1);
	if (table_find(&stage->table, stage->absent[i % N_ABSENT]) != TIDE_LOOKUP_NONE)
		atomic_fetch_add(&stage->wrong, 1);
	atomic_fetch_add_explicit(&stage->finds, 1, memory_order_relaxed);
}

/* A present key moves to its other buffer, and back with the key having been another in between. */
static void move_present(struct stage *stage, uint32_t i)
{
	const struct table *table = &stage->table;
	struct key key = key_of(table->shape, stage->present[i]);
	uint64_t hash = tide_lookup_hash(table->lookup, &key);
	uint32_t from = tide_lookup_find(table->lookup, &key, hash);

	for (int times = 0; times < 2; times++, from ^= 1) {
		table_set_key(table, from ^ 1, key);
		if (!tide_lookup_replace(table->lookup, hash, from, from ^ 1))
			atomic_fetch_add(&stage->wrong, 1);
		table_set_key(table, from, key_of(table->shape, UINT32_MAX + (uint64_t)from));
	}
}

/* Keeps nothing in mind, so that another can go on when it has been killed. */
static void change_some(struct stage *stage, uint32_t writer, uint64_t *seed)
{
	uint32_t i = (uint32_t)(random_next(seed) % N_COMING) / WRITERS * WRITERS + writer;
	uint32_t buffer = 2 * N_PRESENT + i, existing;
	int rc;

	if (random_next(seed) % 4 == 0) {
		move_present(stage, (uint32_t)(random_next(seed) % N_PRESENT) / WRITERS * WRITERS +
					    writer);
	} else if (table_find(&stage->table, stage->coming[i]) == TIDE_LOOKUP_NONE) {
		rc = table_insert(&stage->table, stage->coming[i], buffer, &existing);
		if (rc && rc != TIDE_NOT_ENOUGH_MEMORY)
			atomic_fetch_add(&stage->wrong, 1);
	} else if (!table_remove(&stage->table, stage->coming[i], buffer)) {
		atomic_fetch_add(&stage->wrong, 1);
	}
	atomic_fetch_add_explicit(&stage->changes, 1, memory_order_relaxed);
}

static void *read_on(void *argument)
{
	struct actor *actor = argument;
	uint64_t seed = 77 + actor->number;

	while (!atomic_load(&actor->stage->stop))
		find_some(actor->stage, &seed);
	return NULL;
}

static void *write_on(void *argument)
{
	struct actor *actor = argument;
	uint64_t seed = 4711 + actor->number;

	while (!atomic_load(&actor->stage->stop))
		change_some(actor->stage, actor->number, &seed);
	return NULL;
}

static void go_up_and_down(struct stage *stage)
{
	ck_assert_int_eq(table_resize(&stage->table, N_BUFFERS), 0);
	/* The way down may find every line in use; the next one goes on. */
	(void)table_resize(&stage->table, 1);
}

static void is_in_order(struct stage *stage)
{
	struct tide_lookup_stats stats;

	ck_assert_uint_eq(atomic_load(&stage->missed), 0);
	ck_assert_uint_eq(atomic_load(&stage->wrong), 0);
	table_is_valid(&stage->table);
	for (uint32_t i = 0; i < N_PRESENT; i++)
		ck_assert_uint_eq(table_find(&stage->table, stage->present[i]) / 2, i);
	tide_lookup_stats(stage->table.lookup, &stats);
	ck_assert_uint_gt(stats.generation, 1000);
	ck_assert_uint_gt(atomic_load(&stage->finds), 1000);
	ck_assert_uint_gt(atomic_load(&stage->changes), 1000u);
}

static int times_more(int n)
{
	return getenv("TIDE_TEST_LONG") ? 10 * n : n;
}

START_TEST(threads_find_what_is_there)
{
	struct stage *stage = stage_new();
	struct actor actors[READERS + WRITERS];
	pthread_t threads[READERS + WRITERS];

	for (uint32_t i = 0; i < READERS + WRITERS; i++) {
		actors[i] = (struct actor){stage, i % 2};
		ck_assert_int_eq(pthread_create(&threads[i], NULL, i < READERS ? read_on : write_on,
						&actors[i]),
				 0);
	}
	for (int i = 0; i < times_more(200) || atomic_load(&stage->finds) < 20000 ||
			atomic_load(&stage->changes) < 20000;
	     i++)
		go_up_and_down(stage);
	atomic_store(&stage->stop, 1);
	for (uint32_t i = 0; i < READERS + WRITERS; i++)
		pthread_join(threads[i], NULL);
	is_in_order(stage);
	stage_free(stage);
}
END_TEST

/* --- processes that are killed ------------------------------------------------------------------ */

static int resize_some(struct stage *stage, uint32_t n_buffers)
{
	return tide_lookup_resize(stage->table.lookup, n_buffers, 200, NULL);
}

static uint64_t generation(const struct stage *stage)
{
	struct tide_lookup_stats stats;

	tide_lookup_stats(stage->table.lookup, &stats);
	return stats.generation;
}

static pid_t fork_actor(struct stage *stage, uint32_t number, uint64_t seed)
{
	pid_t child = fork();

	ck_assert_int_ge(child, 0);
	if (child)
		return child;
	for (;;) {
		if (number < WRITERS)
			change_some(stage, number, &seed);
		else
			(void)resize_some(stage, random_next(&seed) % 2 ? N_BUFFERS : 1);
	}
}

START_TEST(processes_are_killed_and_everything_is_found)
{
	struct stage *stage = stage_new();
	uint64_t seed = 99;
	pid_t children[WRITERS + 1];
	int status;

	for (int round = 0; round < times_more(60); round++) {
		uint64_t until = atomic_load(&stage->changes) + 50;
		uint64_t resized = generation(stage) + 50;

		for (uint32_t i = 0; i < WRITERS + 1; i++)
			children[i] = fork_actor(stage, i, seed * 3 + i);
		/* Everybody has begun, however the machine shares its processors out. */
		while (atomic_load(&stage->changes) < until || generation(stage) < resized)
			find_some(stage, &seed);
		/* The readers are at it while one after the other dies. */
		for (uint32_t i = 0; i < WRITERS + 1; i++) {
			kill(children[i], SIGKILL);
			for (int finds = 0; finds < 100; finds++)
				find_some(stage, &seed);
		}
		for (uint32_t i = 0; i < WRITERS + 1; i++)
			ck_assert_int_eq(waitpid(children[i], &status, 0), children[i]);
		table_is_valid(&stage->table);
	}
	is_in_order(stage);
	stage_free(stage);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("lookup_readers");
	TCase *tcase = tcase_create("lookup_readers");

	tcase_set_timeout(tcase, 600);
	tcase_add_test(tcase, threads_find_what_is_there);
	tcase_add_test(tcase, processes_are_killed_and_everything_is_found);
	suite_add_tcase(suite, tcase);
	return table_run(suite);
}
