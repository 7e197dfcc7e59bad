/* SPDX-License-Identifier: PostgreSQL */
/*
 * pool/descriptor.h - one descriptor for each buffer, and its state word.
 *
 * A state changes by compare-and-swap only, except that an owner may set or clear flags of its own.
 * Pins are not in it: they are entries of the sessions (slot.h), so that a hit stores nothing that
 * others read, and the pins of a process that died go with its slot.
 *
 *   bits  0..19  owner: index of a slot + 1; 0 = nobody has it to himself
 *   bits 20..31  flags
 *   bits 32..51  writer: index of a slot + 1, of the session that writes the page to storage; 0 = none
 *   bits 52..63  version: one more for every page that enters the buffer (wraps; it shortens races that
 *                are decided by comparing the key again)
 *
 * What a buffer can be:
 *   retired    0 apart from the version; its chunk has no memory, or is about to lose it
 *   free       USABLE, no page; HINT = noted by the session that made it free
 *   loading    USABLE LOAD owner; in the lookup table already, so that others wait
 *   resident   USABLE VALID [DIRTY] [BIAS] [X owner]
 *   claimed    USABLE VALID EVICT owner: about to be evicted or moved, or given back
 *   moving in  USABLE MOVE owner: destination of a move that is not in the lookup table yet
 *   torn       USABLE TORN: its writer died; in the lookup table until it is dropped
 */
#ifndef POOL_DESCRIPTOR_H
#define POOL_DESCRIPTOR_H

#include <stdatomic.h>
#include <stdint.h>

#include <tidepool/pool.h>

#include "pool/replace.h"

#define STATE_OWNER UINT64_C(0xfffff)
#define STATE_USABLE (UINT64_C(1) << 20)
#define STATE_VALID (UINT64_C(1) << 21)
#define STATE_DIRTY (UINT64_C(1) << 22)
#define STATE_BIAS (UINT64_C(1) << 23) /* sessions may have READ entries on it */
#define STATE_X (UINT64_C(1) << 24)
#define STATE_LOAD (UINT64_C(1) << 25)
#define STATE_EVICT (UINT64_C(1) << 26)
#define STATE_MOVE (UINT64_C(1) << 27)
#define STATE_TORN (UINT64_C(1) << 28)
#define STATE_HINT (UINT64_C(1) << 29)
#define STATE_WAIT (UINT64_C(1) << 30) /* somebody sleeps until the owner lets go */
#define STATE_FLAGS (UINT64_C(0xfff) << 20)
#define STATE_WRITER_SHIFT 32
#define STATE_WRITER (STATE_OWNER << STATE_WRITER_SHIFT)
#define STATE_VERSION (UINT64_C(1) << 52)

_Static_assert((STATE_WAIT | STATE_OWNER | STATE_FLAGS) < UINT64_C(1) << STATE_WRITER_SHIFT,
	       "a futex looks at the lower half, which must hold owner and flags");
_Static_assert((STATE_WRITER | STATE_OWNER | STATE_FLAGS) < STATE_VERSION,
	       "the version comes last");

struct descriptor {
	_Atomic uint64_t file,
		page; /* the key; written only while the buffer is not in the table */
	_Atomic uint64_t state;
	_Atomic uint32_t stamp; /* replace.h; changed without a lock: hints */
	_Atomic uint8_t heat;
	_Atomic uint8_t queue;
	uint16_t unused;
};

_Static_assert(sizeof(struct descriptor) == 32, "two descriptors to a cache line");

static inline uint32_t state_owner(uint64_t state)
{
	return (uint32_t)(state & STATE_OWNER);
}

static inline uint32_t state_writer(uint64_t state)
{
	return (uint32_t)((state & STATE_WRITER) >> STATE_WRITER_SHIFT);
}

/* Free: usable, and neither a page nor an owner. */
static inline int state_is_free(uint64_t state)
{
	return (state & (STATE_OWNER | STATE_FLAGS) & ~(STATE_HINT | STATE_BIAS | STATE_WAIT)) ==
	       STATE_USABLE;
}

/* A page that can be fixed at this moment, whatever the mode. */
static inline int state_is_resident(uint64_t state)
{
	return (state & (STATE_VALID | STATE_EVICT)) == STATE_VALID;
}

/* Resident, and nobody has it to himself. */
static inline int state_is_open(uint64_t state)
{
	return state_is_resident(state) && state_owner(state) == 0;
}

static inline int state_is_valid(uint64_t state)
{
	const uint64_t owned = STATE_X | STATE_LOAD | STATE_EVICT | STATE_MOVE;
	const uint64_t page = STATE_VALID | STATE_TORN;

	if (!(state & STATE_USABLE))
		return (state & (STATE_OWNER | STATE_FLAGS) & ~(STATE_BIAS | STATE_WAIT)) == 0;
	if ((state & owned) && state_owner(state) == 0)
		return 0;
	if (state_owner(state) != 0 && !(state & owned))
		return 0;
	if ((state & STATE_DIRTY) && !(state & page))
		return 0;
	if ((state & STATE_WRITER) && !(state & STATE_VALID))
		return 0;
	return (state & page) != page;
}

static inline struct tide_page_id descriptor_id(const struct descriptor *d)
{
	return (struct tide_page_id){.file = atomic_load_explicit(&d->file, memory_order_relaxed),
				     .page = atomic_load_explicit(&d->page, memory_order_relaxed)};
}

static inline void descriptor_set_id(struct descriptor *d, const struct tide_page_id *id)
{
	atomic_store_explicit(&d->file, id->file, memory_order_relaxed);
	atomic_store_explicit(&d->page, id->page, memory_order_relaxed);
}

static inline int descriptor_holds(const struct descriptor *d, const struct tide_page_id *id)
{
	return atomic_load_explicit(&d->file, memory_order_relaxed) == id->file &&
	       atomic_load_explicit(&d->page, memory_order_relaxed) == id->page;
}

/* (C) pairs with (D): who sees a state sees what its predecessor did to the buffer. */
static inline uint64_t descriptor_state(const struct descriptor *d)
{
	return atomic_load_explicit(&d->state, memory_order_acquire);
}

/* (D) pairs with (C). Sequentially consistent, as claims are ordered against pins (slot.h). */
static inline int descriptor_swap(struct descriptor *d, uint64_t *expected, uint64_t wanted)
{
	return atomic_compare_exchange_strong_explicit(&d->state, expected, wanted,
						       memory_order_seq_cst, memory_order_acquire);
}

static inline struct replace_page descriptor_worth(const struct descriptor *d)
{
	return (struct replace_page){.heat = atomic_load_explicit(&d->heat, memory_order_relaxed),
				     .queue = atomic_load_explicit(&d->queue, memory_order_relaxed),
				     .stamp =
					     atomic_load_explicit(&d->stamp, memory_order_relaxed)};
}

static inline void descriptor_set_worth(struct descriptor *d, const struct replace_page *page)
{
	atomic_store_explicit(&d->heat, page->heat, memory_order_relaxed);
	atomic_store_explicit(&d->queue, page->queue, memory_order_relaxed);
	atomic_store_explicit(&d->stamp, page->stamp, memory_order_relaxed);
}

#endif /* POOL_DESCRIPTOR_H */
