/* SPDX-License-Identifier: PostgreSQL */
/*
 * faulty_prim.h - the memory layer's system calls, counted, and made to fail on demand.
 *
 * Included by the one source file of a test program. The real functions are compiled in under other
 * names; those defined here take the place of the weak ones of the library.
 */
#ifndef TIDE_TESTS_FAULTY_PRIM_H
#define TIDE_TESTS_FAULTY_PRIM_H

#include <stdatomic.h>

#define tide_prim_memfd real_memfd
#define tide_prim_dup real_dup
#define tide_prim_close real_close
#define tide_prim_stat real_stat
#define tide_prim_statfs real_statfs
#define tide_prim_truncate real_truncate
#define tide_prim_map real_map
#define tide_prim_unmap real_unmap
#define tide_prim_advise real_advise
#define tide_prim_fallocate real_fallocate
#define tide_prim_bind real_bind
#define tide_prim_get_policy real_get_policy
#define tide_prim_set_policy real_set_policy
#define tide_prim_address_limit real_address_limit
#define tide_prim_thread real_thread
#define tide_prim_read real_read
#include "memory/prim.c"
#undef tide_prim_memfd
#undef tide_prim_dup
#undef tide_prim_close
#undef tide_prim_stat
#undef tide_prim_statfs
#undef tide_prim_truncate
#undef tide_prim_map
#undef tide_prim_unmap
#undef tide_prim_advise
#undef tide_prim_fallocate
#undef tide_prim_bind
#undef tide_prim_get_policy
#undef tide_prim_set_policy
#undef tide_prim_address_limit
#undef tide_prim_thread
#undef tide_prim_read

enum prim_call {
	PRIM_MEMFD,
	PRIM_DUP,
	PRIM_STAT,
	PRIM_STATFS,
	PRIM_TRUNCATE,
	PRIM_MAP,
	PRIM_UNMAP,
	PRIM_ADVISE,
	PRIM_FALLOCATE,
	PRIM_BIND,
	PRIM_GET_POLICY,
	PRIM_SET_POLICY,
	PRIM_ADDRESS_LIMIT,
	PRIM_THREAD,
	PRIM_READ,
	PRIM_CALLS,
	PRIM_ANY = PRIM_CALLS
};

/*
 * What is to fail: calls number @first to @last of @call (or of all of them), with @error. Before a
 * call that populates or allocates fails, the first half of its bytes is done when @half is set.
 */
static struct {
	enum prim_call call;
	unsigned first, last;
	int error;
	int half;
	uint64_t above_bytes; /* only calls on more than so many bytes fail */
} prim_plan;

static atomic_uint prim_counts[PRIM_CALLS + 1];

/* Called before every call, in the thread that makes it. */
static void (*prim_observer)(enum prim_call call);

static inline void prim_plan_set(enum prim_call call, unsigned first, unsigned last, int error,
				 int half)
{
	for (int i = 0; i <= PRIM_CALLS; i++)
		atomic_store(&prim_counts[i], 0);
	prim_plan.call = call;
	prim_plan.first = first;
	prim_plan.last = last;
	prim_plan.error = error;
	prim_plan.half = half;
	prim_plan.above_bytes = 0;
}

static inline void prim_plan_clear(void)
{
	prim_plan_set(PRIM_ANY, 0, 0, 0, 0);
}

static int prim_fault(enum prim_call call)
{
	unsigned total = atomic_fetch_add(&prim_counts[PRIM_ANY], 1) + 1;
	unsigned of_call = atomic_fetch_add(&prim_counts[call], 1) + 1;
	unsigned number = prim_plan.call == PRIM_ANY ? total : of_call;

	if (prim_observer)
		prim_observer(call);
	if (prim_plan.call != PRIM_ANY && prim_plan.call != call)
		return 0;
	return number >= prim_plan.first && number <= prim_plan.last ? -prim_plan.error : 0;
}

#define WRAP(call, name, parameters, arguments)         \
	int tide_prim_##name parameters                 \
	{                                               \
		int rc = prim_fault(call);              \
                                                        \
		return rc ? rc : real_##name arguments; \
	}

WRAP(PRIM_MEMFD, memfd, (const char *name, unsigned flags, int *fd), (name, flags, fd))
WRAP(PRIM_DUP, dup, (int fd, int *copy), (fd, copy))
WRAP(PRIM_STAT, stat, (int fd, struct stat *out), (fd, out))
WRAP(PRIM_STATFS, statfs, (int fd, struct statfs *out), (fd, out))
WRAP(PRIM_TRUNCATE, truncate, (int fd, uint64_t bytes), (fd, bytes))
WRAP(PRIM_MAP, map, (void *address, uint64_t bytes, int protection, int flags, int fd, void **out),
     (address, bytes, protection, flags, fd, out))
WRAP(PRIM_UNMAP, unmap, (void *address, uint64_t bytes), (address, bytes))
WRAP(PRIM_BIND, bind,
     (void *address, uint64_t bytes, int mode, const unsigned long *mask, unsigned long mask_bits),
     (address, bytes, mode, mask, mask_bits))
WRAP(PRIM_GET_POLICY, get_policy, (int *mode, unsigned long *mask, unsigned long mask_bits),
     (mode, mask, mask_bits))
WRAP(PRIM_SET_POLICY, set_policy, (int mode, const unsigned long *mask, unsigned long mask_bits),
     (mode, mask, mask_bits))
WRAP(PRIM_ADDRESS_LIMIT, address_limit, (uint64_t * bytes), (bytes))
WRAP(PRIM_THREAD, thread, (pthread_t * out, void *(*run)(void *), void *argument),
     (out, run, argument))
WRAP(PRIM_READ, read, (const char *path, char *text, size_t size), (path, text, size))

void tide_prim_close(int fd)
{
	real_close(fd);
}

int tide_prim_advise(void *address, uint64_t bytes, int advice)
{
	int rc = prim_fault(PRIM_ADVISE);

	if (bytes <= prim_plan.above_bytes)
		rc = 0;
	if (rc && prim_plan.half && advice == MADV_POPULATE_WRITE)
		(void)real_advise(address, bytes / 2 & ~0x1fffffull, advice);
	return rc ? rc : real_advise(address, bytes, advice);
}

int tide_prim_fallocate(int fd, int mode, uint64_t offset, uint64_t bytes)
{
	int rc = prim_fault(PRIM_FALLOCATE);

	if (bytes <= prim_plan.above_bytes)
		rc = 0;
	if (rc && prim_plan.half && (bytes / 2 & ~0x1fffffull))
		(void)real_fallocate(fd, mode, offset, bytes / 2 & ~0x1fffffull);
	return rc ? rc : real_fallocate(fd, mode, offset, bytes);
}

#endif /* TIDE_TESTS_FAULTY_PRIM_H */
