/* SPDX-License-Identifier: PostgreSQL */
/*
 * resize/slice.h - how many chunks one action takes on, learned from how long the last one took.
 */
#ifndef RESIZE_SLICE_H
#define RESIZE_SLICE_H

#include <stdint.h>

/* Doubles below step_ns, halves above twice that; begins at one, so the first action is quick. */
static inline uint32_t slice_next(uint32_t slice, uint32_t used, uint64_t took_ns, uint64_t step_ns)
{
	/* A slice that was not full says nothing about what a full one would take. */
	if (took_ns < step_ns)
		return used < slice || slice > UINT32_MAX / 2 ? slice : 2 * slice;
	if (took_ns > 2 * step_ns && slice > 1)
		return slice / 2;
	return slice;
}

#endif /* RESIZE_SLICE_H */
