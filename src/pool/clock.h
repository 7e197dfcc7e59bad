/* SPDX-License-Identifier: PostgreSQL */
/* pool/clock.h - monotonic time. */
#ifndef POOL_CLOCK_H
#define POOL_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

#endif /* POOL_CLOCK_H */
