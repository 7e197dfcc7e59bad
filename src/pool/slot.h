/* SPDX-License-Identifier: PostgreSQL */
/*
 * pool/slot.h - what a session shows to the others: pins, claims, counters.
 *
 * Only the session writes to its slot, and whoever reaps it after its death.
 *
 * Pins. Before a session looks at a page it notes the buffer in an entry and checks the state
 * afterwards; whoever claims a buffer changes the state and looks through the entries afterwards.
 * Either the session sees the claim and backs off, or the claimer sees the entry and gives the buffer
 * back:
 *   PIN    a plain store; the claimer issues tide_grace_barrier() between the two
 *   READ   an exchange, so that a writer, who cannot afford that barrier each time, sees it at once
 *   WRITE  a plain store; the exclusive owner in the state is what counts, the entry tells the reaper
 *
 * Claims. A session that dies leaves no buffer owned: every buffer that it owns is in @claim or @entry
 * before it becomes its own.
 */
#ifndef POOL_SLOT_H
#define POOL_SLOT_H

#include <stdatomic.h>
#include <stdint.h>

#include <tidepool/pool.h>

#define SLOT_HOLDS 32u /* READ entries of the session itself, for pages that it writes out */
#define SLOT_ENTRIES (TIDE_SESSION_FIXES + SLOT_HOLDS)
#define SLOT_CLAIMS 64u
#define SLOT_HINTS 32u

enum slot_counter {
	SLOT_HIT,
	SLOT_MISS,
	SLOT_EVICTION,
	SLOT_GHOST_HIT,
	SLOT_READ,
	SLOT_WRITTEN,
	SLOT_RELOCATED,
	SLOT_COUNTERS
};

struct slot {
	_Atomic uint64_t entry[SLOT_ENTRIES]; /* buffer + 1, and the mode above; 0 = none */
	_Atomic uint32_t used;		      /* entries beyond were never used */
	_Atomic uint32_t scanning;	      /* walks the descriptors in order: nothing may move */
	_Atomic uint32_t moves; /* READ entries that took over from another one (latch.c) */
	_Atomic uint64_t counter[SLOT_COUNTERS];
	_Atomic uint32_t claim[SLOT_CLAIMS]; /* buffer + 1; 0 = none */
	_Atomic uint32_t hint[SLOT_HINTS];   /* free buffers that this session takes first */
	uint32_t unused[29];
};

_Static_assert(sizeof(struct slot) % 64 == 0, "no two slots share a cache line");

#define ENTRY_MODE_SHIFT 32

static inline uint64_t entry_make(uint32_t buffer, enum tide_fix_mode mode)
{
	return ((uint64_t)mode << ENTRY_MODE_SHIFT) | (buffer + 1u);
}

/* Of an entry that is not 0. */
static inline uint32_t entry_buffer(uint64_t entry)
{
	return (uint32_t)entry - 1u;
}

static inline enum tide_fix_mode entry_mode(uint64_t entry)
{
	return (enum tide_fix_mode)(entry >> ENTRY_MODE_SHIFT);
}

#endif /* POOL_SLOT_H */
