/* SPDX-License-Identifier: PostgreSQL */
/*
 * rcu/bucket.h - a bucket of the lookup table: one cache line.
 *
 * The first 16 bytes decide: 11 one-byte tags, compared at once, the level and the version. An overflow
 * line has the same shape; where a bucket has its version, it names its owner.
 *
 * Every store is a release: a process that is killed leaves a state in which the stores up to some point
 * of the program have happened and none after it, and a reader that sees a store sees those before it.
 */
#ifndef RCU_BUCKET_H
#define RCU_BUCKET_H

#include <stdatomic.h>
#include <stdint.h>

#if defined(__SANITIZE_THREAD__)
#define BUCKET_PLAIN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BUCKET_PLAIN 1
#endif
#endif

#if !defined(BUCKET_PLAIN) && defined(__SSE2__)
#define BUCKET_SSE2 1
#include <emmintrin.h>
#elif !defined(BUCKET_PLAIN) && defined(__aarch64__)
#define BUCKET_NEON 1
#include <arm_neon.h>
#endif

/* For tests, which kill a writer after each of its stores and let others act between a reader's loads. */
#ifdef TIDE_PAUSE_POINTS
void lookup_point(void);
void lookup_look(void);
#else
#define lookup_point() ((void)0)
#define lookup_look() ((void)0)
#endif

#define BUCKET_SLOTS 11u

/*
 * @tags:    0 = empty; otherwise tag_of() the key's hash
 * @level:   how many bits of a hash address this bucket; 0 = not in use
 * @version: changes between a copy and the removal of its original (lookup.h, guarantee 2)
 * @owner:   of an overflow line: bucket + 1; 0 = free
 * @buffers: buffer numbers
 * @next:    overflow line + 1; 0 = none
 */
struct bucket {
	_Atomic uint8_t tags[BUCKET_SLOTS];
	_Atomic uint8_t level;
	union {
		_Atomic uint32_t version;
		_Atomic uint32_t owner;
	};
	_Atomic uint32_t buffers[BUCKET_SLOTS];
	_Atomic uint32_t next;
} __attribute__((aligned(64)));

_Static_assert(sizeof(struct bucket) == 64, "a bucket is a cache line");
_Static_assert(__builtin_offsetof(struct bucket, version) == 12, "compared with the tags at once");

/* The upper eight bits: addresses are made of the lower ones. */
static inline uint8_t tag_of(uint64_t hash)
{
	uint8_t tag = (uint8_t)(hash >> 56);

	return tag ? tag : 1;
}

/*
 * Slots whose tag is @tag, as a set to be walked with match_slot() and match_rest(). The 16 bytes need
 * not be read at one moment: every tag on its own is enough.
 */
#if defined(BUCKET_SSE2)
#define BUCKET_MATCH_SHIFT 0
static inline uint64_t bucket_match(const struct bucket *bucket, uint8_t tag)
{
	__m128i line = _mm_load_si128((const __m128i *)(const void *)bucket);

	return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(line, _mm_set1_epi8((char)tag))) & 0x7ffu;
}
#elif defined(BUCKET_NEON)
#define BUCKET_MATCH_SHIFT 2
static inline uint64_t bucket_match(const struct bucket *bucket, uint8_t tag)
{
	uint8x16_t equal = vceqq_u8(vld1q_u8((const uint8_t *)bucket), vdupq_n_u8(tag));
	uint8x8_t nibbles = vshrn_n_u16(vreinterpretq_u16_u8(equal), 4);

	return vget_lane_u64(vreinterpret_u64_u8(nibbles), 0) & 0x11111111111ull;
}
#else
#define BUCKET_MATCH_SHIFT 0
static inline uint64_t bucket_match(const struct bucket *bucket, uint8_t tag)
{
	uint64_t match = 0;

	for (uint32_t i = 0; i < BUCKET_SLOTS; i++)
		if (atomic_load_explicit(&bucket->tags[i], memory_order_acquire) == tag)
			match |= 1ull << i;
	return match;
}
#endif

static inline uint32_t match_slot(uint64_t match)
{
	return (uint32_t)__builtin_ctzll(match) >> BUCKET_MATCH_SHIFT;
}

static inline uint64_t match_rest(uint64_t match)
{
	return match & (match - 1);
}

/* Orders the loads of a bucket's content before that of its version; ThreadSanitizer knows no fences. */
static inline void bucket_fence(void)
{
#ifndef BUCKET_PLAIN
	atomic_thread_fence(memory_order_acquire);
#endif
}

static inline uint32_t bucket_version(const struct bucket *bucket)
{
	return atomic_load_explicit(&bucket->version, memory_order_acquire);
}

static inline uint32_t bucket_level(const struct bucket *bucket)
{
	return atomic_load_explicit(&bucket->level, memory_order_acquire);
}

static inline uint32_t bucket_next(const struct bucket *bucket)
{
	return atomic_load_explicit(&bucket->next, memory_order_acquire);
}

static inline uint8_t bucket_tag(const struct bucket *bucket, uint32_t slot)
{
	return atomic_load_explicit(&bucket->tags[slot], memory_order_relaxed);
}

static inline uint32_t bucket_buffer(const struct bucket *bucket, uint32_t slot)
{
	return atomic_load_explicit(&bucket->buffers[slot], memory_order_relaxed);
}

/* --- for whoever holds the lock of the partition ---------------------------------------------- */

static inline void bucket_bump(struct bucket *bucket)
{
	uint32_t version = atomic_load_explicit(&bucket->version, memory_order_relaxed);

	atomic_store_explicit(&bucket->version, version + 1, memory_order_release);
	lookup_point();
}

static inline void bucket_set_level(struct bucket *bucket, uint32_t level)
{
	atomic_store_explicit(&bucket->level, (uint8_t)level, memory_order_release);
	lookup_point();
}

static inline void bucket_set_next(struct bucket *bucket, uint32_t next)
{
	atomic_store_explicit(&bucket->next, next, memory_order_release);
	lookup_point();
}

static inline void bucket_set_buffer(struct bucket *bucket, uint32_t slot, uint32_t buffer)
{
	atomic_store_explicit(&bucket->buffers[slot], buffer, memory_order_release);
	lookup_point();
}

static inline void bucket_set_tag(struct bucket *bucket, uint32_t slot, uint8_t tag)
{
	atomic_store_explicit(&bucket->tags[slot], tag, memory_order_release);
	lookup_point();
}

/* The tag last: nobody looks at a slot without one. */
static inline void bucket_fill(struct bucket *bucket, uint32_t slot, uint8_t tag, uint32_t buffer)
{
	bucket_set_buffer(bucket, slot, buffer);
	bucket_set_tag(bucket, slot, tag);
}

#endif /* RCU_BUCKET_H */
