/* SPDX-License-Identifier: PostgreSQL */
/*
 * pool/replace.h - which page goes: the pure half of replacement.
 *
 * S3-FIFO without its queues. New pages are SMALL; pages that proved themselves (used twice while
 * small, or dropped and wanted again soon) are MAIN. Two hands sweep over the buffers: one takes small
 * pages while there are more of them than their share, the other takes main pages that have not
 * been used since it came by last. A mark tells the queues apart. Nothing is linked, so nothing has to
 * be relinked when the pool is resized or a process dies.
 *
 * A hand's order is that of a queue all the same, as long as a new page lies where the hand of its own
 * queue has just been: it is met again a full turn later. So the page's queue, which is known
 * from its ghost, decides whose place it takes (replace_takes_small()).
 *
 * A page's heat is two counters in a byte:
 *   uses       bits 0-1: hits since a hand came by, at most 3. They decide about eviction.
 *   frequency  bits 2-7: logarithm of all its hits, halved by the main hand's every turn. It decides
 *              what a shrink keeps, in replace_worth(). Bits 4-7 are the exponent e, bits 2-3 the
 *              mantissa m of (4 + m) * 2^e - 4 hits; at e every 2^e-th hit counts.
 *
 * What was tried instead, as the difference in points of hit ratio. Traces of bench-pool with 20,000
 * pages, mean of pools of 1, 5 and 25 % of them; zipf is the mean of skews 0.7, 0.99 and 1.2. A loop
 * is chaotic: a point more or less means nothing there.
 *                                                        zipf   loop  shift  pgbench
 *   small share 1/20 (the hand walks 19 buffers, not 11)  +0.2   -2.7    0.0    0.0
 *   small share 1/14 (14 buffers)                         +0.1   +0.1    0.0    0.0
 *   small share 1/10                                      -0.1   -0.8   -0.1   +0.1
 *   small share 1/5                                       -0.8   -9.4   -0.2   -0.2
 *   one use makes a page main                              0.0  -15.7   +0.2   -1.3
 *   uses in two turns of the hand make it main             0.0   -2.0    0.0   -0.9
 *   main pages leave ghosts, too                           0.0  -73.9   +0.1   -0.6
 *   any victim's place for a main page                    +0.3   -2.0   -0.3    0.0
 *   the same, and it begins with one use                  -0.5   -1.5   +0.4   +0.1
 *   ghosts reach 0.5 pools back                           +0.5    0.0   -1.1    0.0
 *   ghosts reach 1 pool back                              +0.2    0.0   -0.2   +0.1
 *   ghosts reach 2 pools back                             -0.1    0.0    0.0    0.0
 *   at most 2 uses                                        -0.2    0.0   +0.3    0.0
 *   main pages of high frequency stay longer              +0.2   +0.2   -0.5    0.0
 *   no fix is too recent to count                          0.0    0.0    0.0   -0.2
 *   only the last fix is                                   0.0    0.0    0.0   -0.3
 *   the last 16 fixes are                                  0.0    0.0    0.0   +0.2
 * When pages are fixed 2 to 4 times at once, counting every fix costs 1.1 under zipf and 1.2 under zipf
 * with scans. The age below which a small page stays (0 to 3/4 of the share) made no difference.
 *
 * Used by the pool and by the simulator, which is how it was tuned.
 */
#ifndef POOL_REPLACE_H
#define POOL_REPLACE_H

#include <stdint.h>

enum replace_queue {
	REPLACE_SMALL,
	REPLACE_MAIN,
};

enum replace_verdict {
	REPLACE_EVICT,
	REPLACE_KEEP,
};

/**
 * struct replace_page - what is known about a page
 * @heat:  uses and frequency, see above
 * @queue: enum replace_queue
 * @stamp: number of the insertion that brought it (wraps)
 */
struct replace_page {
	uint8_t heat;
	uint8_t queue;
	uint32_t stamp;
};

#define REPLACE_HEAT_MAX 255u
#define REPLACE_USES 3u	     /* mask and maximum of uses */
#define REPLACE_FREQUENCY 4u /* one step of the frequency */
#define REPLACE_OCTAVE 16u   /* as many steps as double it */
#define REPLACE_PROMOTE_USES 2u

/*
 * Chance from a counter. Two rounds, because one leaves a page that is hit every 233rd time, or any
 * other Fibonacci number, with long runs of the same chance.
 */
static inline uint32_t replace_chance(uint32_t tick)
{
	tick *= 2654435769u;
	tick ^= tick >> 15;
	return tick * 2246822519u;
}

/**
 * replace_hit() - heat after a hit
 *
 * It changes at most 63 + 3 times until a hand comes by, so hot pages are rarely written to.
 * @tick: a number that the caller's session counts up with every hit.
 */
static inline uint8_t replace_hit(uint8_t heat, uint32_t tick)
{
	unsigned exponent = heat / REPLACE_OCTAVE;
	uint64_t chance = replace_chance(tick);
	unsigned next = heat;

	/*
	 * Without branches: heat comes from a cache line that is often missed, and a branch that waits for
	 * it and goes the other way throws away what the processor has begun meanwhile.
	 */
	next += (next & REPLACE_USES) != REPLACE_USES;
	next += REPLACE_FREQUENCY * ((unsigned)(chance >> (32 - exponent) == 0) &
				     (unsigned)(next <= REPLACE_HEAT_MAX - REPLACE_FREQUENCY));
	return (uint8_t)next;
}

/* The last four fixes of a session, the latest first: 32 bits each. */
struct replace_recent {
	uint64_t first, second;
};

#define REPLACE_RECENT 4u
#define REPLACE_RECENT_NONE ((struct replace_recent){UINT64_MAX, UINT64_MAX})

/**
 * replace_recent() - is @buffer among the session's last fixes? Then its hit does not count.
 *
 * A page that is fixed several times at once, as rows of one page are read, is not hot for that. The
 * loading of a page counts as a fix. Two words that are shifted, because a store of 32 bits that is
 * soon read as part of more holds the processor up.
 */
static inline int replace_recent(struct replace_recent *recent, uint32_t buffer)
{
	const uint64_t first = recent->first, second = recent->second;
	const int found = (uint32_t)first == buffer || (uint32_t)(first >> 32) == buffer ||
			  (uint32_t)second == buffer || (uint32_t)(second >> 32) == buffer;

	recent->second = second << 32 | first >> 32;
	recent->first = first << 32 | buffer;
	return found;
}

/** replace_new() - a page that was just loaded; @ghost = it was dropped not long ago */
static inline struct replace_page replace_new(int ghost, uint32_t stamp)
{
	return (struct replace_page){
		.heat = 0, .queue = ghost ? REPLACE_MAIN : REPLACE_SMALL, .stamp = stamp};
}

/** replace_small_limit() - how many small pages there may be */
static inline uint64_t replace_small_limit(uint64_t n_buffers)
{
	return n_buffers / 12 + 1;
}

/**
 * replace_takes_small() - which hand looks for a victim first: 1 = the small one, 0 = the main one
 *
 * @ghost: of the page that needs the buffer. With one it will be a main page and takes the place of
 * one, unless there are too many small pages by more than chance.
 */
static inline int replace_takes_small(uint64_t n_small, uint64_t n_buffers, int ghost)
{
	uint64_t limit = replace_small_limit(n_buffers);

	return n_small > (ghost ? limit + limit / 8 + 1 : limit);
}

/**
 * replace_small() - the small hand meets a small page; may turn it into a main page
 *
 * A page that has just been loaded in front of the hand, for instance into a buffer that was free,
 * stays for half of the small pages' share at least. There are always older ones when there are more
 * than the share.
 */
static inline enum replace_verdict replace_small(struct replace_page *page, uint32_t now,
						 uint64_t n_buffers)
{
	if ((uint32_t)(now - page->stamp) < replace_small_limit(n_buffers) / 2)
		return REPLACE_KEEP;
	if ((page->heat & REPLACE_USES) < REPLACE_PROMOTE_USES)
		return REPLACE_EVICT;
	page->queue = REPLACE_MAIN;
	page->heat = (uint8_t)(page->heat & ~REPLACE_USES);
	return REPLACE_KEEP;
}

/** replace_age() - halve the frequency of a page */
static inline void replace_age(struct replace_page *page)
{
	unsigned uses = page->heat & REPLACE_USES;
	unsigned frequency = page->heat - uses;

	if (frequency >= REPLACE_OCTAVE)
		frequency -= REPLACE_OCTAVE;
	else
		frequency = frequency / 2 & ~REPLACE_USES;
	page->heat = (uint8_t)(frequency | uses);
}

/** replace_main() - the main hand meets a main page; ages it */
static inline enum replace_verdict replace_main(struct replace_page *page)
{
	if ((page->heat & REPLACE_USES) == 0)
		return REPLACE_EVICT;
	page->heat--;
	replace_age(page);
	return REPLACE_KEEP;
}

/** replace_leaves_ghost() - is an evicted page remembered? Main pages had their chance. */
static inline int replace_leaves_ghost(const struct replace_page *page)
{
	return page->queue == REPLACE_SMALL;
}

/** replace_reach() - how many insertions a ghost is good for */
static inline uint32_t replace_reach(uint64_t n_buffers)
{
	uint64_t reach = n_buffers + n_buffers / 2;

	return reach < UINT32_MAX / 2 ? (uint32_t)reach : UINT32_MAX / 2;
}

#define REPLACE_WORTHS 128u

/** replace_worth() - 0 to REPLACE_WORTHS - 1: what a shrink keeps first is worth most */
static inline uint32_t replace_worth(const struct replace_page *page)
{
	return page->heat / REPLACE_FREQUENCY * 2u + (page->queue == REPLACE_MAIN);
}

#endif /* POOL_REPLACE_H */
