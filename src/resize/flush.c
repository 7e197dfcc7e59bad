/* SPDX-License-Identifier: PostgreSQL */
/*
 * resize/flush.c - token bucket that limits how fast a drain writes dirty pages.
 */
#include "resize/flush.h"

#define NS_PER_S UINT64_C(1000000000)

/* A portion is what the rate yields in 1/50 s, and at least room for the largest common page. */
#define PORTIONS_PER_S 50u
#define PORTION_MIN 65536u

/* The bucket holds some portions, so that a late step does not lose what time has earned. */
#define BUCKET_PORTIONS 4u

static uint64_t portion(const struct flush_bucket *bucket)
{
	uint64_t bytes = bucket->bytes_per_s / PORTIONS_PER_S;

	return bytes > PORTION_MIN ? bytes : PORTION_MIN;
}

void flush_open(struct flush_bucket *bucket, uint64_t bytes_per_s, uint64_t now_ns)
{
	*bucket = (struct flush_bucket){
		.bytes_per_s = bytes_per_s,
		.filled_ns = now_ns,
	};
	bucket->tokens = portion(bucket);
}

static void fill(struct flush_bucket *bucket, uint64_t now_ns)
{
	uint64_t full = BUCKET_PORTIONS * portion(bucket);
	double seconds = (double)(now_ns - bucket->filled_ns) / (double)NS_PER_S;
	double earned = seconds * (double)bucket->bytes_per_s;

	if (earned < 1.0)
		return; /* the fraction is kept: the clock of the bucket does not advance */
	if (earned >= (double)(full - bucket->tokens))
		bucket->tokens = full;
	else
		bucket->tokens += (uint64_t)earned;
	bucket->filled_ns = now_ns;
}

uint64_t flush_allowance(struct flush_bucket *bucket, uint64_t now_ns)
{
	if (bucket->bytes_per_s == 0)
		return UINT64_MAX;
	fill(bucket, now_ns);
	return bucket->tokens >= portion(bucket) ? portion(bucket) : 0;
}

void flush_charge(struct flush_bucket *bucket, uint64_t bytes)
{
	if (bucket->bytes_per_s != 0)
		bucket->tokens -= bytes < bucket->tokens ? bytes : bucket->tokens;
}

uint64_t flush_wait(const struct flush_bucket *bucket)
{
	if (bucket->bytes_per_s == 0 || bucket->tokens >= portion(bucket))
		return 0;

	double missing = (double)(portion(bucket) - bucket->tokens);

	return (uint64_t)(missing / (double)bucket->bytes_per_s * (double)NS_PER_S) + 1;
}
