/* SPDX-License-Identifier: PostgreSQL */
/* random.h - numbers that follow from a seed. */
#ifndef TIDESTRESS_RANDOM_H
#define TIDESTRESS_RANDOM_H

#include <stdint.h>

struct random {
	uint64_t state;
};

/* The finaliser of splitmix64: every bit of @x changes half of the result. */
static inline uint64_t random_mix(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static inline uint64_t random_next(struct random *random)
{
	return random_mix(random->state += UINT64_C(0x9e3779b97f4a7c15));
}

/* Of @seed, a stream for each combination of @who and @which. */
static inline struct random random_stream(uint64_t seed, uint64_t who, uint64_t which)
{
	return (struct random){random_mix(random_mix(random_mix(seed) + who) + which)};
}

/* 0 to @n - 1; @n is not 0. */
static inline uint64_t random_below(struct random *random, uint64_t n)
{
	return (uint64_t)(((unsigned __int128)random_next(random) * n) >> 64);
}

/* 0 <= result < 1 */
static inline double random_unit(struct random *random)
{
	return (double)(random_next(random) >> 11) * 0x1p-53;
}

/* 1 in @n */
static inline int random_one_in(struct random *random, uint64_t n)
{
	return random_below(random, n) == 0;
}

#endif
