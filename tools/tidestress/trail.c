/* SPDX-License-Identifier: PostgreSQL */
/* trail.c - what happened to pages lately. */
#include "trail.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "board.h"

#define ENTRIES (UINT64_C(1) << 17)
#define PRINTED 24u

struct entry {
	_Atomic uint64_t time_ns; /* 0 = none */
	_Atomic uint64_t first, n;
	_Atomic uint64_t version;
	_Atomic uint32_t event;
	_Atomic int32_t pid;
};

struct trail {
	_Atomic uint64_t n_added;
	struct entry entry[ENTRIES];
};

struct trail *trail_open(void)
{
	void *memory = mmap(NULL, sizeof(struct trail), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

void trail_close(struct trail *trail)
{
	(void)munmap(trail, sizeof(*trail));
}

#define put(word, value) atomic_store_explicit(word, value, memory_order_relaxed)
#define get(word) atomic_load_explicit(word, memory_order_relaxed)

void trail_add(struct trail *trail, enum trail_event event, uint64_t first, uint64_t n,
	       uint64_t version)
{
	uint64_t number = atomic_fetch_add_explicit(&trail->n_added, 1, memory_order_relaxed);
	struct entry *entry = &trail->entry[number % ENTRIES];

	put(&entry->time_ns, board_clock_ns());
	put(&entry->first, first);
	put(&entry->n, n);
	put(&entry->version, version);
	put(&entry->event, event);
	put(&entry->pid, (int32_t)getpid());
}

static int is_about(const struct entry *entry, uint64_t page)
{
	return get(&entry->time_ns) != 0 && page - get(&entry->first) < get(&entry->n);
}

static void print_entry(const struct entry *entry, FILE *out, uint64_t start_ns)
{
	static const char *const names[] = {
		[TRAIL_WRITING] = "is being written to storage, version",
		[TRAIL_WRITTEN] = "was written to storage, code",
		[TRAIL_WRITE_FAILED] = "could not be written to storage, code",
		[TRAIL_READ] = "was read from storage, version",
		[TRAIL_READ_FAILED] = "could not be read from storage, code",
		[TRAIL_CHANGING] = "is being changed to version",
		[TRAIL_CHANGED] = "was changed to version",
		[TRAIL_BEGUN_AGAIN] = "was begun again with zeros, after version",
		[TRAIL_FELL_BACK] = "fell back to version",
		[TRAIL_FLUSHING] = "is being flushed, code",
		[TRAIL_FLUSHED] = "was flushed, code",
		[TRAIL_DROPPING] = "is being dropped, code",
		[TRAIL_DROPPED] = "was dropped, code",
		[TRAIL_KILLED] = "may have been lost with process",
	};

	(void)fprintf(out, "    %.6f s  process %" PRId32 ": %s %" PRId64 "\n",
		      (double)(get(&entry->time_ns) - start_ns) / 1e9, get(&entry->pid),
		      names[get(&entry->event)], (int64_t)get(&entry->version));
}

void trail_print(const struct trail *trail, FILE *out, uint64_t page, uint64_t start_ns)
{
	uint64_t end = get(&trail->n_added), begin = end > ENTRIES ? end - ENTRIES : 0;
	uint64_t at = end, found = 0;

	while (at > begin && found < PRINTED)
		found += (uint64_t)is_about(&trail->entry[--at % ENTRIES], page);
	(void)fprintf(out, "  the last that happened to that page:\n");
	for (; at < end; at++)
		if (is_about(&trail->entry[at % ENTRIES], page))
			print_entry(&trail->entry[at % ENTRIES], out, start_ns);
}
