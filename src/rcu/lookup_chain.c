/* SPDX-License-Identifier: PostgreSQL */
/*
 * lookup_chain.c - a bucket and the overflow lines chained to it.
 *
 * A line belongs to the bucket that its owner word names, taken with a compare-and-swap and let go with a
 * store; there is no other allocator, so none has to be repaired. Between the two moments at which a line
 * is owned and in no chain the partition's record names it.
 */
#include <stddef.h>

#include "rcu/lookup.h"
#include "rcu/lookup_key.h"

struct chain chain_begin(const struct tide_lookup *lookup, uint32_t bucket)
{
	return (struct chain){&lookup->buckets[bucket], NULL};
}

int chain_next(const struct tide_lookup *lookup, struct chain *chain)
{
	uint32_t next = bucket_next(chain->line);

	if (next == 0)
		return 0;
	chain->before = chain->line;
	chain->line = &lookup->lines[next - 1];
	return 1;
}

/* A slot with @tag, which is 0 for a free one; BUCKET_SLOTS = none. */
static uint32_t slot_with(const struct bucket *line, uint8_t tag)
{
	uint64_t match = bucket_match(line, tag);

	return match ? match_slot(match) : BUCKET_SLOTS;
}

static uint32_t slot_in_use(const struct bucket *line)
{
	uint32_t slot = 0;

	while (slot < BUCKET_SLOTS && bucket_tag(line, slot) == 0)
		slot++;
	return slot;
}

int chain_find(const struct tide_lookup *lookup, uint32_t bucket, uint8_t tag, uint32_t buffer,
	       struct bucket **line, uint32_t *slot)
{
	struct chain chain = chain_begin(lookup, bucket);

	do {
		uint64_t match = bucket_match(chain.line, tag);

		for (; match; match = match_rest(match)) {
			if (bucket_buffer(chain.line, match_slot(match)) != buffer)
				continue;
			*line = chain.line;
			*slot = match_slot(match);
			return 1;
		}
	} while (chain_next(lookup, &chain));
	return 0;
}

static void record_line(const struct tide_lookup *lookup, uint32_t bucket, uint32_t which,
			uint32_t line)
{
	atomic_store_explicit(&lookup_partition(lookup, bucket)->lines[which], line,
			      memory_order_release);
	lookup_point();
}

static void let_go(struct bucket *line)
{
	/* (D) pairs with the exchange in try_take(): whoever takes it comes after all readers' warnings. */
	atomic_store_explicit(&line->owner, 0, memory_order_release);
	lookup_point();
}

/*
 * (E) pairs with (F) in lookup_resize.c: the limit is looked at after the line was taken, and it is
 * lowered before the resizer looks at owners. So either it is seen here or the owner is seen there.
 */
static int try_take(const struct tide_lookup *lookup, uint32_t bucket, uint64_t number)
{
	struct bucket *line = &lookup->lines[number];
	uint32_t owner = 0;

	if (atomic_load_explicit(&line->owner, memory_order_relaxed) != 0)
		return 0;
	record_line(lookup, bucket, 0, (uint32_t)number + 1);
	if (!atomic_compare_exchange_strong_explicit(&line->owner, &owner, bucket + 1,
						     memory_order_seq_cst, memory_order_relaxed))
		return 0;
	lookup_point();
	if (number < atomic_load_explicit(&lookup->head->lines_limit, memory_order_seq_cst))
		return 1;
	let_go(line);
	return 0;
}

/* A line for @bucket, empty, in no chain yet, recorded: its number + 1, or 0. */
static uint32_t take_line(const struct tide_lookup *lookup, uint32_t bucket)
{
	uint64_t limit = atomic_load_explicit(&lookup->head->lines_limit, memory_order_acquire);
	uint64_t number = limit ? key_mix(bucket ^ lookup->salt[0], lookup->salt[1]) % limit : 0;
	struct bucket *line;

	for (uint64_t tried = 0; tried < limit; tried++) {
		if (try_take(lookup, bucket, number)) {
			line = &lookup->lines[number];
			for (uint32_t slot = 0; slot < BUCKET_SLOTS; slot++)
				bucket_set_tag(line, slot, 0);
			bucket_set_next(line, 0);
			return (uint32_t)number + 1;
		}
		number = number + 1 < limit ? number + 1 : 0;
	}
	record_line(lookup, bucket, 0, 0);
	return 0;
}

int chain_enter(const struct tide_lookup *lookup, uint32_t bucket, uint8_t tag, uint32_t buffer)
{
	struct chain chain = chain_begin(lookup, bucket);
	uint32_t slot, taken;

	do {
		slot = slot_with(chain.line, 0);
		if (slot < BUCKET_SLOTS) {
			bucket_fill(chain.line, slot, tag, buffer);
			return 0;
		}
	} while (chain_next(lookup, &chain));
	taken = take_line(lookup, bucket);
	if (!taken)
		return TIDE_NOT_ENOUGH_MEMORY;
	bucket_fill(&lookup->lines[taken - 1], 0, tag, buffer);
	bucket_set_next(chain.line, taken);
	record_line(lookup, bucket, 0, 0);
	return 0;
}

/* The line goes out of the chain, then the version changes, then others may have it (guarantee 6). */
static void unlink_line(const struct tide_lookup *lookup, uint32_t bucket,
			const struct chain *chain)
{
	record_line(lookup, bucket, 1, (uint32_t)(chain->line - lookup->lines) + 1);
	bucket_set_next(chain->before, bucket_next(chain->line));
	bucket_bump(&lookup->buckets[bucket]);
	let_go(chain->line);
	record_line(lookup, bucket, 1, 0);
}

/* The last line of a chain. */
static struct chain chain_end(const struct tide_lookup *lookup, uint32_t bucket)
{
	struct chain chain = chain_begin(lookup, bucket);

	while (chain_next(lookup, &chain))
		;
	return chain;
}

/* Move an entry of the last line into a free slot before it: 1, or 0 when there is none. */
static int move_forward(const struct tide_lookup *lookup, uint32_t bucket, struct bucket *last,
			uint32_t slot)
{
	struct chain chain = chain_begin(lookup, bucket);
	uint32_t hole = slot_with(chain.line, 0);

	while (hole == BUCKET_SLOTS && chain_next(lookup, &chain))
		hole = slot_with(chain.line, 0);
	if (chain.line == last)
		return 0;
	bucket_fill(chain.line, hole, bucket_tag(last, slot), bucket_buffer(last, slot));
	bucket_bump(&lookup->buckets[bucket]);
	bucket_set_tag(last, slot, 0);
	return 1;
}

static void record_changed(const struct tide_lookup *lookup, uint32_t bucket, uint32_t changed)
{
	atomic_store_explicit(&lookup_partition(lookup, bucket)->changed, changed,
			      memory_order_release);
	lookup_point();
}

void chain_tidy(const struct tide_lookup *lookup, uint32_t bucket)
{
	struct chain end = chain_end(lookup, bucket);
	uint32_t slot;

	if (!end.before)
		return;
	record_changed(lookup, bucket, bucket + 1);
	while (end.before) {
		slot = slot_in_use(end.line);
		if (slot == BUCKET_SLOTS) {
			unlink_line(lookup, bucket, &end);
			end = chain_end(lookup, bucket);
		} else if (!move_forward(lookup, bucket, end.line, slot)) {
			break;
		}
	}
	record_changed(lookup, bucket, 0);
}

void chain_drop(const struct tide_lookup *lookup, uint32_t bucket)
{
	struct chain first = chain_begin(lookup, bucket);

	while (chain_next(lookup, &first)) {
		unlink_line(lookup, bucket, &first);
		first = chain_begin(lookup, bucket);
	}
}

/* Stand at line @number: 1, or 0 when it is not in the chain. */
static int chain_seek(const struct tide_lookup *lookup, uint32_t bucket, uint32_t number,
		      struct chain *chain)
{
	*chain = chain_begin(lookup, bucket);
	while (chain_next(lookup, chain))
		if (chain->line == &lookup->lines[number])
			return 1;
	return 0;
}

int chain_relocate(const struct tide_lookup *lookup, uint32_t bucket, uint32_t number)
{
	struct chain chain;
	uint32_t taken;

	if (!chain_seek(lookup, bucket, number, &chain))
		return 0;
	taken = take_line(lookup, bucket);
	if (!taken)
		return TIDE_NOT_ENOUGH_MEMORY;
	for (uint32_t slot = 0; slot < BUCKET_SLOTS; slot++)
		bucket_fill(&lookup->lines[taken - 1], slot, bucket_tag(chain.line, slot),
			    bucket_buffer(chain.line, slot));
	bucket_set_next(&lookup->lines[taken - 1], bucket_next(chain.line));
	/* Either line serves readers: they are the same until the version has changed. */
	record_line(lookup, bucket, 1, number + 1);
	bucket_set_next(chain.before, taken);
	record_line(lookup, bucket, 0, 0);
	bucket_bump(&lookup->buckets[bucket]);
	let_go(chain.line);
	record_line(lookup, bucket, 1, 0);
	return 0;
}

static void repair_line(const struct tide_lookup *lookup, const struct partition *partition,
			uint32_t number)
{
	struct bucket *line = &lookup->lines[number];
	uint32_t owner = atomic_load_explicit(&line->owner, memory_order_acquire);
	struct chain chain;

	/* Another partition was quicker to take it, or has taken it since. */
	if (owner == 0 || lookup_partition(lookup, owner - 1) != partition)
		return;
	if (chain_seek(lookup, owner - 1, number, &chain))
		return;
	bucket_bump(&lookup->buckets[owner - 1]);
	let_go(line);
}

/* An entry that was copied and not yet deleted is there twice: the one that comes later goes. */
static void remove_duplicates(const struct tide_lookup *lookup, uint32_t bucket)
{
	struct chain chain = chain_begin(lookup, bucket);
	struct bucket *line = NULL;
	uint32_t first = 0;

	do {
		for (uint32_t slot = 0; slot < BUCKET_SLOTS; slot++) {
			uint8_t tag = bucket_tag(chain.line, slot);

			if (tag == 0 || !chain_find(lookup, bucket, tag,
						    bucket_buffer(chain.line, slot), &line, &first))
				continue;
			if (line == chain.line && first == slot)
				continue;
			bucket_bump(&lookup->buckets[bucket]);
			bucket_set_tag(chain.line, slot, 0);
		}
	} while (chain_next(lookup, &chain));
}

void chain_repair(const struct tide_lookup *lookup, struct partition *partition)
{
	uint32_t changed = atomic_load_explicit(&partition->changed, memory_order_acquire);

	for (uint32_t i = 0; i < 2; i++) {
		uint32_t line = atomic_load_explicit(&partition->lines[i], memory_order_acquire);

		if (line)
			repair_line(lookup, partition, line - 1);
		atomic_store_explicit(&partition->lines[i], 0, memory_order_release);
	}
	if (changed) {
		remove_duplicates(lookup, changed - 1);
		chain_tidy(lookup, changed - 1);
		record_changed(lookup, changed - 1, 0);
	}
}
