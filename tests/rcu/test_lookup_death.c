/* SPDX-License-Identifier: PostgreSQL */
/*
 * test_lookup_death.c - a process dies after the k-th store of a change of the lookup table, for all k,
 * and the one that repairs after it dies after its j-th, for all j.
 * The same changes, whole or broken off, happen between any two loads of a reader.
 *
 * After every death: readers find every key that was not being inserted or removed, before anybody has
 * repaired anything; then the table is repaired, makes sense, and can do everything.
 */
#include "lookup_points.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lookup_fixture.h"

#define KILLED 9
#define MAX_KEYS 200u

static int die_at;	  /* after so many points; 0 = never */
static int act_at;	  /* the reader's so manyth load; 0 = never */
static void (*act)(void); /* what happens then */

void lookup_point(void)
{
	if (die_at && --die_at == 0)
		_exit(KILLED);
}

void lookup_look(void)
{
	if (act_at && --act_at == 0)
		act();
}

/* Keys in order of insertion: key i lies in buffer i. */
struct scene {
	struct table table;
	uint64_t ids[MAX_KEYS];
	uint32_t n;
	uint32_t open_key; /* the key that @change inserts, removes or moves; UINT32_MAX = none */
	uint32_t small, large;
};

struct story {
	const char *name;
	void (*begin)(struct scene *scene);
	void (*change)(const struct scene *scene);
};

static void add(struct scene *scene, uint64_t mask, uint64_t bits, uint32_t n)
{
	uint64_t id = scene->n ? scene->ids[scene->n - 1] + 1 : 0;

	for (uint32_t i = 0; i < n; i++) {
		scene->ids[scene->n] = table_collide(&scene->table, &id, mask, bits);
		table_enter(&scene->table, scene->ids[scene->n], scene->n);
		scene->n++;
	}
}

static void begin(struct scene *scene, uint32_t start)
{
	*scene = (struct scene){.table = table_new(KEY_TAG, 1024, start),
				.open_key = UINT32_MAX,
				.small = 1,
				.large = 1024};
}

/* In a process that may die of it or fail: what came of it is seen afterwards. */
static int resize_step(const struct scene *scene, uint32_t n_buffers)
{
	return tide_lookup_resize(scene->table.lookup, n_buffers, 1, NULL);
}

/* --- stories ---------------------------------------------------------------------------------- */

static void begin_full_bucket(struct scene *scene)
{
	begin(scene, 1);
	add(scene, 63, 5, 12);
	scene->open_key = 11;
	ck_assert_int_eq(table_remove(&scene->table, scene->ids[11], 11), 1);
}

static void insert_last(const struct scene *scene)
{
	uint32_t existing;

	(void)table_insert(&scene->table, scene->ids[11], 11, &existing);
}

static void begin_chain(struct scene *scene)
{
	begin(scene, 1);
	add(scene, 63, 5, 23);
	scene->open_key = 3;
}

static void remove_in_front(const struct scene *scene)
{
	(void)table_remove(&scene->table, scene->ids[3], 3);
}

static void begin_replace(struct scene *scene)
{
	begin_chain(scene);
	scene->open_key = 22;
	table_set_key(&scene->table, 500, key_of(scene->table.shape, scene->ids[22]));
}

static void replace_last(const struct scene *scene)
{
	(void)tide_lookup_replace(scene->table.lookup, table_hash(&scene->table, scene->ids[22]),
				  22, 500);
}

/* Bucket 0 is split into two chains. */
static void begin_split(struct scene *scene)
{
	begin(scene, 1);
	add(scene, 127, 0, 25);
	add(scene, 127, 64, 25);
}

static void split(const struct scene *scene)
{
	(void)resize_step(scene, 65 * 5);
}

/* Bucket 64 has its entries and more in bucket 0; no line is left for it. */
static void begin_failing_split(struct scene *scene)
{
	begin(scene, 1);
	add(scene, 127, 64, 99);
}

static void begin_merge(struct scene *scene)
{
	begin(scene, 65 * 5);
	add(scene, 127, 0, 16);
	add(scene, 127, 64, 30);
}

static void merge(const struct scene *scene)
{
	(void)resize_step(scene, 1);
}

static void begin_failing_merge(struct scene *scene)
{
	begin(scene, 65 * 5);
	add(scene, 127, 0, 33);
	add(scene, 127, 64, 33);
	add(scene, 127, 1, 55);
}

/* Bucket 5 has lines both below 8 and beyond. */
static void begin_relocation(struct scene *scene)
{
	begin(scene, 128 * 5);
	add(scene, 127, 5, 60);
	while (lookup_n_buckets(scene->table.lookup) > 64)
		ck_assert_int_eq(tide_lookup_resize(scene->table.lookup, 1, 1, NULL), 1);
}

static void relocate(const struct scene *scene)
{
	while (tide_lookup_resize(scene->table.lookup, 1, 100, NULL) == 1)
		;
}

static void up_and_down(const struct scene *scene)
{
	(void)table_resize(&scene->table, 200 * 5);
	(void)table_resize(&scene->table, 1);
}

static const struct story stories[] = {
	{"insert into a new line", begin_full_bucket, insert_last},
	{"remove, move forward, unlink", begin_chain, remove_in_front},
	{"replace", begin_replace, replace_last},
	{"split", begin_split, split},
	{"split without lines", begin_failing_split, split},
	{"merge", begin_merge, merge},
	{"merge without lines", begin_failing_merge, merge},
	{"relocate lines", begin_relocation, relocate},
	{"up and down", begin_split, up_and_down},
};

#define STORIES ((int)(sizeof(stories) / sizeof(stories[0])))

/* --- deaths ----------------------------------------------------------------------------------- */

/* Readers meet the table as the dead left it, and must not wait: an alarm ends one that does. */
static void all_are_found(const struct scene *scene, const char *when, int k)
{
	for (uint32_t i = 0; i < scene->n; i++) {
		uint32_t found = table_find(&scene->table, scene->ids[i]);

		ck_assert_msg(i == scene->open_key || found == i, "%s, death %d: key %u in %u",
			      when, k, i, found);
		/* What moves is in one place or the other. */
		if (i == scene->open_key && i == 22)
			ck_assert_msg(found == 22 || found == 500, "%s, death %d", when, k);
	}
}

static int in_a_child(void (*change)(const struct scene *), const struct scene *scene, int at)
{
	int status = 0;
	pid_t child = fork();

	ck_assert_int_ge(child, 0);
	if (child == 0) {
		die_at = at;
		change(scene);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_msg(WIFEXITED(status) &&
			      (WEXITSTATUS(status) == KILLED || WEXITSTATUS(status) == 0),
		      "the child ended with %d", status);
	return WEXITSTATUS(status) == KILLED;
}

static void repair_all(const struct scene *scene)
{
	(void)tide_lookup_valid(scene->table.lookup, NULL);
}

/* The table is whole and can go to every size and back. */
static void is_whole(const struct scene *scene, const char *name, int k)
{
	const struct table *table = &scene->table;
	struct tide_lookup_stats stats;
	struct tide_reason why = {0};
	uint32_t n_buckets;

	ck_assert_msg(tide_lookup_valid(table->lookup, &why), "%s, death %d: %s", name, k,
		      why.message);
	all_are_found(scene, name, k);
	tide_lookup_stats(table->lookup, &stats);
	n_buckets = (uint32_t)stats.n_buckets;
	ck_assert_int_eq(table_resize(table, scene->large), 0);
	ck_assert_msg(tide_lookup_valid(table->lookup, &why), "%s, death %d, large: %s", name, k,
		      why.message);
	all_are_found(scene, name, k);
	(void)table_resize(table, scene->small);
	ck_assert_msg(tide_lookup_valid(table->lookup, &why), "%s, death %d, back from %u: %s",
		      name, k, n_buckets, why.message);
	all_are_found(scene, name, k);
}

START_TEST(another_process_goes_on)
{
	const struct story *story = &stories[_i];
	struct scene scene;
	unsigned char *saved;
	int died = 1, k;

	story->begin(&scene);
	saved = malloc(scene.table.all_bytes);
	ck_assert_ptr_nonnull(saved);
	memcpy(saved, scene.table.all, scene.table.all_bytes);
	for (k = 1; died; k += story->change == up_and_down ? 7 : 1) {
		int repairer_died;

		memcpy(scene.table.all, saved, scene.table.all_bytes);
		died = in_a_child(story->change, &scene, k);
		alarm(60);
		all_are_found(&scene, story->name, k);
		/* Every second death is repaired by processes that die over it, each a store later. */
		for (int j = 1; k % 2 == 0 && j < 60; j++) {
			repairer_died = in_a_child(repair_all, &scene, j);
			all_are_found(&scene, story->name, k);
			if (!repairer_died)
				break;
		}
		is_whole(&scene, story->name, k);
		alarm(0);
	}
	ck_assert_int_gt(k, 2);
	free(saved);
	table_free(&scene.table);
}
END_TEST

/* --- between a reader's loads ------------------------------------------------------------------- */

static const struct scene *act_scene;
static const struct story *act_story;
static int act_stores; /* the writer dies after so many stores; 0 = it comes to its end */
static int act_died;

/* A page that moved leaves its buffer to another page, and comes back to it: nothing looks changed. */
static void move_there_and_back(void)
{
	const struct table *table = &act_scene->table;
	uint64_t hash = table_hash(table, act_scene->ids[22]);

	table_set_key(table, 500, key_of(table->shape, act_scene->ids[22]));
	ck_assert_int_eq(tide_lookup_replace(table->lookup, hash, 22, 500), 1);
	table_set_key(table, 22, key_of(table->shape, UINT32_MAX));
}

static void change_between(void)
{
	if (act_story->change == replace_last && act_stores == 0)
		move_there_and_back();
	else if (act_stores)
		act_died = in_a_child(act_story->change, act_scene, act_stores);
	else
		act_story->change(act_scene);
}

/* What a reader finds when the change, or its first stores, happen between two of its loads. */
static void look_between(const struct scene *scene, const unsigned char *saved, uint32_t i,
			 int stores)
{
	int pending = 0;

	for (int load = 1; !pending; load++) {
		uint32_t found;

		memcpy(scene->table.all, saved, scene->table.all_bytes);
		act_stores = stores;
		act_at = load;
		found = table_find(&scene->table, scene->ids[i]);
		pending = act_at;
		act_at = 0;
		ck_assert_msg(found == i || (i == 22 && found == 500),
			      "%s: key %u in %u when %d stores come before load %d",
			      act_story->name, i, found, stores, load);
	}
}

START_TEST(readers_find_what_moves_between_their_loads)
{
	struct scene scene;
	unsigned char *saved;

	act_story = &stories[_i];
	act_scene = &scene;
	act = change_between;
	act_story->begin(&scene);
	saved = malloc(scene.table.all_bytes);
	ck_assert_ptr_nonnull(saved);
	memcpy(saved, scene.table.all, scene.table.all_bytes);
	for (uint32_t i = 0; i < scene.n; i++) {
		if (i == scene.open_key && i != 22)
			continue;
		look_between(&scene, saved, i, 0);
		act_died = i % 7 == 1 && act_story->change != up_and_down;
		for (int stores = 1; act_died; stores += stores < 30 ? 1 : 5) {
			act_died = 0;
			look_between(&scene, saved, i, stores);
		}
	}
	free(saved);
	table_free(&scene.table);
}
END_TEST

START_TEST(repairs_are_counted)
{
	struct tide_lookup_stats stats;
	struct scene scene;

	begin_split(&scene);
	ck_assert_int_eq(in_a_child(split, &scene, 5), 1);
	table_is_valid(&scene.table);
	tide_lookup_stats(scene.table.lookup, &stats);
	ck_assert_uint_eq(stats.repairs, 1);
	table_free(&scene.table);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("lookup_death");
	TCase *tcase = tcase_create("lookup_death");

	tcase_set_timeout(tcase, 300);
	tcase_add_loop_test(tcase, another_process_goes_on, 0, STORIES);
	tcase_add_loop_test(tcase, readers_find_what_moves_between_their_loads, 0, STORIES);
	tcase_add_test(tcase, repairs_are_counted);
	suite_add_tcase(suite, tcase);
	return table_run(suite);
}
