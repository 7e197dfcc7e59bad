/* SPDX-License-Identifier: PostgreSQL */
/*
 * lookup_resize.c - the lookup table grows and shrinks by one bucket at a time.
 *
 * Splitting fills the new bucket, then counts it, then takes the entries that moved out of its partner.
 * Merging copies the last bucket into its partner, then counts it out, then declares it unused. Up to the
 * change of the count either can be undone, after it either can be finished, and both by the same
 * function, lookup_settle(), which needs to know nothing but the count.
 */
#include <inttypes.h>

#include "rcu/lookup.h"
#include "rcu/lookup_key.h"

uint64_t lookup_hash_of(const struct tide_lookup *lookup, uint32_t buffer)
{
	uint32_t key[LOOKUP_KEY_WORDS];

	key_copy(lookup, buffer, key);
	return key_hash(lookup, key);
}

static uint32_t level_of_top(uint32_t top)
{
	return 32u - (uint32_t)__builtin_clz(top);
}

/* Delete those entries of @partner that belong to @top. */
static void purge(const struct tide_lookup *lookup, uint32_t partner, uint32_t top)
{
	struct chain chain = chain_begin(lookup, partner);

	do {
		for (uint32_t slot = 0; slot < BUCKET_SLOTS; slot++)
			if (bucket_tag(chain.line, slot) &&
			    lookup_answers(top, level_of_top(top),
					   lookup_hash_of(lookup, bucket_buffer(chain.line, slot))))
				bucket_set_tag(chain.line, slot, 0);
	} while (chain_next(lookup, &chain));
}

void lookup_settle(const struct tide_lookup *lookup, uint32_t top)
{
	uint32_t partner = lookup_partner(top);

	if (lookup_n_buckets(lookup) > top) {
		bucket_set_level(&lookup->buckets[partner], level_of_top(top));
		bucket_bump(&lookup->buckets[partner]);
		purge(lookup, partner, top);
		chain_tidy(lookup, partner);
	} else {
		bucket_set_level(&lookup->buckets[top], 0);
		bucket_bump(&lookup->buckets[top]);
		chain_drop(lookup, top);
	}
}

static void record_top(struct partition *partition, uint32_t top)
{
	atomic_store_explicit(&partition->top, top, memory_order_release);
	lookup_point();
}

/* (H) pairs with (A): who sees the number sees the buckets as complete as it says. */
static void set_n_buckets(const struct tide_lookup *lookup, uint64_t n_buckets)
{
	atomic_store_explicit(&lookup->head->n_buckets, n_buckets, memory_order_release);
	lookup_point();
}

/* Enter into @to what lies in @from and belongs to @top. */
static int copy_entries(const struct tide_lookup *lookup, uint32_t from, uint32_t to, uint32_t top)
{
	struct chain chain = chain_begin(lookup, from);
	int rc = 0;

	do {
		for (uint32_t slot = 0; slot < BUCKET_SLOTS && !rc; slot++) {
			uint32_t buffer = bucket_buffer(chain.line, slot);
			uint8_t tag = bucket_tag(chain.line, slot);

			if (tag && (from == top || lookup_answers(top, level_of_top(top),
								  lookup_hash_of(lookup, buffer))))
				rc = chain_enter(lookup, to, tag, buffer);
		}
	} while (!rc && chain_next(lookup, &chain));
	return rc;
}

/* A bucket at and beyond the end has level 0, or is zero; the rest may be of an earlier life. */
static int fill_top(const struct tide_lookup *lookup, uint32_t top)
{
	struct bucket *bucket = &lookup->buckets[top];
	int rc;

	for (uint32_t slot = 0; slot < BUCKET_SLOTS; slot++)
		bucket_set_tag(bucket, slot, 0);
	bucket_set_next(bucket, 0);
	rc = copy_entries(lookup, lookup_partner(top), top, top);
	if (rc)
		return rc;
	bucket_bump(bucket);
	bucket_set_level(bucket, level_of_top(top));
	set_n_buckets(lookup, (uint64_t)top + 1);
	return 0;
}

static int empty_top(const struct tide_lookup *lookup, uint32_t top)
{
	struct bucket *partner = &lookup->buckets[lookup_partner(top)];
	int rc = copy_entries(lookup, top, lookup_partner(top), top);

	if (rc)
		return rc;
	bucket_bump(partner);
	bucket_set_level(partner, level_of_top(top) - 1);
	set_n_buckets(lookup, top);
	return 0;
}

/* Split or merge one bucket: @change is fill_top() or empty_top(). */
static int step(const struct tide_lookup *lookup, uint32_t top,
		int (*change)(const struct tide_lookup *lookup, uint32_t top))
{
	struct partition *partition = lookup_lock(lookup, top);
	int rc;

	record_top(partition, top + 1);
	rc = change(lookup, top);
	lookup_settle(lookup, top);
	record_top(partition, 0);
	lookup_unlock(partition);
	atomic_fetch_add_explicit(&lookup->head->generation, 1, memory_order_relaxed);
	return rc;
}

static uint64_t n_lines_of(const struct tide_lookup *lookup)
{
	return atomic_load_explicit(&lookup->head->n_lines, memory_order_relaxed);
}

/* (F) pairs with (E) in lookup_chain.c. */
static void set_limit(const struct tide_lookup *lookup, uint64_t limit)
{
	atomic_store_explicit(&lookup->head->lines_limit, limit, memory_order_seq_cst);
	lookup_point();
}

static void set_n_lines(const struct tide_lookup *lookup, uint64_t n_lines)
{
	atomic_store_explicit(&lookup->head->n_lines, n_lines, memory_order_release);
	lookup_point();
}

static int relocate_line(const struct tide_lookup *lookup, uint64_t number)
{
	struct bucket *line = &lookup->lines[number];
	uint32_t owner = atomic_load_explicit(&line->owner, memory_order_seq_cst);
	struct partition *partition;
	int rc = 0;

	if (owner == 0)
		return 0;
	partition = lookup_lock(lookup, owner - 1);
	if (atomic_load_explicit(&line->owner, memory_order_relaxed) == owner)
		rc = chain_relocate(lookup, owner - 1, (uint32_t)number);
	lookup_unlock(partition);
	return rc;
}

/* Empty the end of the overflow lines; as tide_lookup_resize(). */
static int lower_lines(const struct tide_lookup *lookup, uint64_t target, uint32_t steps)
{
	uint64_t n_lines = n_lines_of(lookup);

	set_limit(lookup, target);
	while (n_lines > target) {
		int rc;

		if (steps-- == 0)
			return 1;
		rc = relocate_line(lookup, n_lines - 1);
		if (rc) {
			set_limit(lookup, n_lines);
			return rc;
		}
		if (atomic_load_explicit(&lookup->lines[n_lines - 1].owner, memory_order_seq_cst) ==
		    0)
			set_n_lines(lookup, --n_lines);
	}
	return 0;
}

static int move_towards(const struct tide_lookup *lookup, const struct tide_lookup_layout *target,
			uint32_t steps)
{
	uint64_t target_lines = target->overflow_bytes / sizeof(struct bucket);
	uint64_t n = lookup_n_buckets(lookup);
	int rc;

	if (target_lines > n_lines_of(lookup))
		set_n_lines(lookup, target_lines);
	if (n != target->n_buckets)
		set_limit(lookup, n_lines_of(lookup));
	for (; n != target->n_buckets; n = lookup_n_buckets(lookup)) {
		if (steps-- == 0)
			return 1;
		if (n < target->n_buckets)
			rc = step(lookup, (uint32_t)n, fill_top);
		else
			rc = step(lookup, (uint32_t)n - 1, empty_top);
		if (rc)
			return rc;
	}
	return lower_lines(lookup, target_lines, steps);
}

int tide_lookup_resize(struct tide_lookup *lookup, uint32_t n_buffers, uint32_t max_steps,
		       struct tide_reason *why)
{
	struct tide_lookup_layout target;
	int rc;

	if (n_buffers > TIDE_LOOKUP_BUFFERS || max_steps == 0)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "lookup table: %" PRIu32 " steps towards %" PRIu32
				       " buffers were asked for",
				       max_steps, n_buffers);
	tide_lookup_layout(n_buffers, &target);
	rc = move_towards(lookup, &target, max_steps);
	if (rc < 0)
		return tide_reason_set(why, rc, 0,
				       "lookup table: every overflow bucket is in use at %" PRIu64
				       " buckets on the way to %" PRIu64,
				       lookup_n_buckets(lookup), target.n_buckets);
	return rc;
}
