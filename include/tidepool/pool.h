/* SPDX-License-Identifier: PostgreSQL */
/*
 * tidepool/pool.h - pool layer: a buffer pool for any C program, resizable at any moment.
 *
 * A pool holds pages of files in buffers. It lies in two memfds that any number of processes map;
 * every thread that uses it opens a session. A page is fixed before it is looked at and unfixed
 * afterwards; while it is fixed it neither moves nor goes away. Any session may resize the pool.
 *
 * Caveats:
 *  - A session belongs to one thread, and so do its fixes. After fork() the child opens sessions of
 *    its own; of those that it inherited it may only call tide_session_close(), which forgets them.
 *  - A session that fixes a page for writing which it has fixed for reading already gets an error.
 *    Two sessions that fix two pages in opposite order wait for each other for ever: the order is the
 *    host's business, as with every buffer pool.
 *  - A process that dies gives back everything that it held. A page that it was writing to at that moment
 *    is dropped, because nobody knows how far it came: it is read again from storage, as it was
 *    flushed last. Changes that nobody flushed are as lost as after a crash of the machine; a host
 *    that wants them keeps a log.
 *  - A process that is stopped while it has a page or a lock to itself makes those wait who want the same.
 *  - A page is durable after tide_pool_flush() returned 0, and not before.
 *  - Pages lie at different addresses in different processes.
 *  - All participants are trusted: who can write to the memory can destroy it.
 *  - Nothing prints, exits or aborts. Functions of the same pool may be called by all threads at once.
 */
#ifndef TIDEPOOL_POOL_H
#define TIDEPOOL_POOL_H

#include <stddef.h>
#include <stdint.h>

#include <tidepool/reason.h>
#include <tidepool/region.h>
#include <tidepool/resize.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A page of a file; the numbers mean what the storage makes of them. */
struct tide_page_id {
	uint64_t file;
	uint64_t page;
};

/* --- storage ---------------------------------------------------------------------------------- */

/**
 * struct tide_io - one transfer of one page
 * @id:    which page
 * @page:  its memory, page_bytes long, aligned to page_bytes
 * @write: 1 = to storage, 0 = from it
 * @code:  out: 0, TIDE_IO_ERROR or TIDE_PAGE_CORRUPT
 */
struct tide_io {
	struct tide_page_id id;
	void *page;
	int write;
	int code;
};

/**
 * struct tide_storage_ops - where pages come from and go to
 *
 * Called by any thread of the process, several at a time.
 *
 * @transfer: carry out @n transfers (1 to TIDE_IO_BATCH) in any order and return when all have ended:
 *            0 when every one has code 0, otherwise the code of one that failed, with @why. Ids differ
 *            from each other. A page that was never written reads as zeros. After a failed write
 *            the page in storage may be anything that tide_io.code of a later read tells apart.
 * @sync:     everything written to @file before is durable on return; 0 or TIDE_IO_ERROR. After an
 *            error, pages written since the last sync that returned 0 are not durable, and a later 0
 *            does not change that: the kernel may have dropped them. The host writes them again
 *            (from its log), or stops.
 */
#define TIDE_IO_BATCH 64u
struct tide_storage_ops {
	int (*transfer)(void *storage, struct tide_io *ios, uint32_t n, struct tide_reason *why);
	int (*sync)(void *storage, uint64_t file, struct tide_reason *why);
};

/* A storage made below: @ops and @self go into the pool's configuration. */
struct tide_storage {
	const struct tide_storage_ops *ops;
	void *self;
};

/**
 * struct tide_file_config - pages in ordinary files
 *
 * Descriptors of files are kept open: a file may be truncated meanwhile, but not be removed and made
 * anew; close the storage first. After a read the 8 bytes of the checksum hold it; after a write the
 * page in memory holds what it held before.
 *
 * @directory:       one file for each file number, named by it in decimal; it must exist
 * @page_bytes:      4096 to 65536, a power of two
 * @checksum_offset: where in a page its checksum lies: 8 bytes that belong to the storage, a multiple
 *                   of 8; UINT32_MAX = pages carry none. It covers the page and its id, so that a
 *                   write that was torn or went elsewhere is found at the next read.
 * @io_uring:        1 = several pages at once through io_uring where the kernel allows it;
 *                   0 = pread and pwrite, one after the other
 * @direct:          1 = past the kernel's page cache (O_DIRECT)
 */
struct tide_file_config {
	const char *directory;
	uint32_t page_bytes;
	uint32_t checksum_offset;
	int io_uring;
	int direct;
};

/**
 * tide_file_open() - storage in files
 *
 * Return: 0 and *out; TIDE_BAD_REQUEST, TIDE_IO_ERROR (directory), TIDE_NOT_ENOUGH_MEMORY.
 * Every process opens its own. Released with tide_file_close().
 */
TIDE_PUBLIC TIDE_CHECKED int tide_file_open(const struct tide_file_config *config,
					    struct tide_storage *out, struct tide_reason *why);
TIDE_PUBLIC void tide_file_close(struct tide_storage *storage);

/** tide_file_uses_io_uring() - 1 when transfers of several pages go through io_uring */
TIDE_PUBLIC int tide_file_uses_io_uring(const struct tide_storage *storage);

/**
 * tide_memory_open() - storage in a memfd of @n_files x @n_pages pages, for tests and benchmarks
 *
 * Shared by the processes that inherit it. A page outside is TIDE_IO_ERROR.
 * Return: 0 and *out; TIDE_BAD_REQUEST, TIDE_NOT_ENOUGH_MEMORY, TIDE_SYSTEM_ERROR.
 */
TIDE_PUBLIC TIDE_CHECKED int tide_memory_open(uint64_t n_files, uint64_t n_pages,
					      uint32_t page_bytes, struct tide_storage *out,
					      struct tide_reason *why);
TIDE_PUBLIC void tide_memory_close(struct tide_storage *storage);

/* What a fault-injecting storage does to a transfer or sync; the first five fail with TIDE_IO_ERROR. */
enum tide_fault {
	TIDE_FAULT_EIO,	   /* fails; nothing is transferred */
	TIDE_FAULT_ENOSPC, /* a write fails; nothing is written */
	TIDE_FAULT_SHORT,  /* half of the page is transferred */
	TIDE_FAULT_TORN,   /* half of the page is written, and the process learns that it failed */
	TIDE_FAULT_SYNC,   /* a sync fails */
	TIDE_FAULT_DELAY,  /* succeeds, later */
	TIDE_FAULTS
};

/**
 * struct tide_fault_config - how often
 * @below:        the storage that does the work; stays open as long
 * @page_bytes:   as of @below
 * @per_million:  chance of each fault, of 1,000,000 transfers (TIDE_FAULT_SYNC: of syncs); those of
 *                transfers sum to 1,000,000 at most; ENOSPC and TORN happen to writes only
 * @delay_ns:     of TIDE_FAULT_DELAY
 * @seed:         the same seed and order of calls give the same faults
 */
struct tide_fault_config {
	struct tide_storage below;
	uint32_t page_bytes;
	uint32_t per_million[TIDE_FAULTS];
	uint64_t delay_ns;
	uint64_t seed;
};

/** tide_fault_open() - 0 and *out; TIDE_BAD_REQUEST, TIDE_NOT_ENOUGH_MEMORY */
TIDE_PUBLIC TIDE_CHECKED int tide_fault_open(const struct tide_fault_config *config,
					     struct tide_storage *out, struct tide_reason *why);
TIDE_PUBLIC void tide_fault_close(struct tide_storage *storage);

/**
 * tide_fault_next() - the next @n transfers (or syncs) suffer @fault, whatever the chances are
 *
 * Replaces an earlier call for the same fault; 0 takes it back. ENOSPC and TORN wait for a write.
 */
TIDE_PUBLIC void tide_fault_next(struct tide_storage *storage, enum tide_fault fault, uint32_t n);

/** tide_fault_count() - how often @fault has happened */
TIDE_PUBLIC uint64_t tide_fault_count(const struct tide_storage *storage, enum tide_fault fault);

/* --- pool ------------------------------------------------------------------------------------- */

/**
 * struct tide_pool_config - what to create
 * @name:            shown by the kernel as the name of the memfds
 * @page_bytes:      4096 to 65536, a power of two
 * @max_bytes:       ceiling of the pages; reserved, not committed
 * @start_bytes:     committed at once
 * @min_bytes:       floor; 0 = one chunk
 * @max_sessions:    sessions of all processes together; 0 = 256
 * @huge, @huge_page_bytes, @numa, @machine: as for a region (tidepool/region.h)
 * @storage:         of the creating process
 */
struct tide_pool_config {
	const char *name;
	uint32_t page_bytes;
	uint64_t max_bytes;
	uint64_t start_bytes;
	uint64_t min_bytes;
	uint32_t max_sessions;
	enum tide_huge_policy huge;
	uint64_t huge_page_bytes;
	struct tide_numa numa;
	struct tide_machine machine;
	struct tide_storage storage;
};

struct tide_pool; /* a process's handle */

/**
 * tide_pool_create() - a new pool
 *
 * The size of a chunk is chosen so that there are at most 32,768 chunks; sizes are rounded to it.
 *
 * Return: 0 and *out; TIDE_BAD_REQUEST (a setting is out of range, or more than 2^31 - 1 buffers),
 * and every error of tide_region_reserve() and tide_region_commit().
 * Ownership: the caller lets go of *out with tide_pool_detach(); the memory lives as long as a process
 * maps it or holds a descriptor.
 */
TIDE_PUBLIC TIDE_CHECKED int tide_pool_create(const struct tide_pool_config *config,
					      struct tide_pool **out, struct tide_reason *why);

/**
 * tide_pool_fds() - the two memfds, to be inherited or passed to another process
 *
 * They stay open until tide_pool_detach(), close on exec; the caller does not close them.
 */
TIDE_PUBLIC void tide_pool_fds(const struct tide_pool *pool, int fds[2]);

/**
 * tide_pool_attach() - map a pool that another process created
 *
 * @fds:     as of tide_pool_fds(); the caller keeps them
 * @storage: of this process; must reach the same pages
 *
 * A child that was forked may go on with its parent's handle instead.
 *
 * Return: 0 and *out; TIDE_BAD_REQUEST (not a pool, another layout version, another PID namespace),
 * TIDE_NOT_ENOUGH_MEMORY, TIDE_SYSTEM_ERROR.
 */
TIDE_PUBLIC TIDE_CHECKED int tide_pool_attach(const int fds[2], const struct tide_storage *storage,
					      const struct tide_machine *machine,
					      struct tide_pool **out, struct tide_reason *why);

/**
 * tide_pool_detach() - unmap; every session of this process is closed before
 *
 * Dirty pages stay in the pool; when this was the last process they are lost, so flush first.
 */
TIDE_PUBLIC void tide_pool_detach(struct tide_pool *pool);

/* --- sessions and pages ----------------------------------------------------------------------- */

struct tide_session;

#define TIDE_SESSION_FIXES 64u /* pages that one session may have fixed at a time */

/**
 * tide_session_open() - make the calling thread a user of the pool
 *
 * Return: 0 and *out; TIDE_LIMIT_REACHED (max_sessions), TIDE_NOT_ENOUGH_MEMORY, TIDE_SYSTEM_ERROR.
 */
TIDE_PUBLIC TIDE_CHECKED int tide_session_open(struct tide_pool *pool, struct tide_session **out,
					       struct tide_reason *why);

/** tide_session_close() - unfix what is still fixed, and end; by the same thread */
TIDE_PUBLIC void tide_session_close(struct tide_session *session);

enum tide_fix_mode {
	TIDE_FIX_PIN, /* stays where it is; who reads is the host's business; not for changing it */
	TIDE_FIX_READ,	/* and nobody writes to it */
	TIDE_FIX_WRITE, /* and nobody else reads or writes it */
	TIDE_FIX_NEW, /* as WRITE, but when it is not in the pool it is zeros and storage is not read */
};

/* A page that is fixed. @page: its memory; the rest is private. */
struct tide_fix {
	void *page;
	uint32_t buffer;
	uint32_t entry;
};

/**
 * tide_pool_fix() - have a page in the pool and keep it there
 *
 * Waits while another session loads the page, or holds it in a mode that excludes @mode.
 *
 * Return: 0 and *fix; on error nothing is fixed:
 *   TIDE_IO_ERROR, TIDE_PAGE_CORRUPT  the page could not be read, or a dirty victim not be written
 *   TIDE_POOL_EXHAUSTED               every buffer is in use by somebody, for at least a second
 *   TIDE_LIMIT_REACHED                TIDE_SESSION_FIXES pages are fixed already
 *   TIDE_BAD_REQUEST                  no such mode, or this session has the page fixed in a mode that
 *                                     excludes @mode
 *   TIDE_PINNED_BUFFERS               its writer died, and others keep the page fixed for a second since
 *   TIDE_NOT_ENOUGH_MEMORY            the lookup table is full
 */
TIDE_PUBLIC TIDE_CHECKED int tide_pool_fix(struct tide_session *session,
					   const struct tide_page_id *id, enum tide_fix_mode mode,
					   struct tide_fix *fix, struct tide_reason *why);

/**
 * tide_pool_mark_dirty() - the page, fixed for writing, differs from storage
 *
 * To be called before the first change, or any time before unfix.
 */
TIDE_PUBLIC void tide_pool_mark_dirty(struct tide_session *session, const struct tide_fix *fix);

/** tide_pool_unfix() - let go of a page; its memory may not be touched any more */
TIDE_PUBLIC void tide_pool_unfix(struct tide_session *session, struct tide_fix *fix);

/**
 * tide_pool_prefetch() - load pages that are not in the pool, several transfers at a time
 *
 * Return: how many were loaded; pages that could not be read or found no buffer are left out.
 */
TIDE_PUBLIC uint32_t tide_pool_prefetch(struct tide_session *session,
					const struct tide_page_id *ids, uint32_t n);

#define TIDE_ALL_FILES UINT64_MAX
#define TIDE_ALL_PAGES UINT64_MAX

/**
 * tide_pool_flush() - make pages durable: write those that are dirty, then sync
 *
 * @file:      a file, or TIDE_ALL_FILES (then every file of which a page was written is synced)
 * @first, @n: its pages first .. first + n - 1; n = TIDE_ALL_PAGES: to the end
 *
 * Waits for pages that others hold for writing. What was dirty when the call began is durable when it
 * returns 0. On error the rest was tried all the same, and what could not be written is still dirty.
 *
 * Return: 0, TIDE_IO_ERROR, TIDE_BAD_REQUEST (this session has one of the pages fixed for writing).
 */
TIDE_PUBLIC TIDE_CHECKED int tide_pool_flush(struct tide_session *session, uint64_t file,
					     uint64_t first, uint64_t n, struct tide_reason *why);

/**
 * tide_pool_drop() - forget pages without writing them; storage is not told
 *
 * Return: 0; TIDE_PINNED_BUFFERS when some were fixed for more than a second: these stay, the others
 * are gone.
 */
TIDE_PUBLIC TIDE_CHECKED int tide_pool_drop(struct tide_session *session, uint64_t file,
					    uint64_t first, uint64_t n, struct tide_reason *why);

/* --- resizing --------------------------------------------------------------------------------- */

/**
 * tide_pool_resize() - carry out a resize, in the calling thread, and return when it has ended
 *
 * A shrink moves the pages that are worth keeping from the chunks that go into buffers of the coldest
 * pages that stay; only what is colder is dropped, after it has been written. Everything else of the
 * pool goes on meanwhile. The session must not have a page fixed.
 *
 * Return: 0 when an operation ended; *progress tells how (tidepool/resize.h). TIDE_OP_IN_PROGRESS:
 * somebody else resizes. TIDE_BAD_REQUEST, TIDE_BELOW_MIN, TIDE_ABOVE_MAX: the request was refused.
 * TIDE_HOST_ERROR and others: what a resizer that died left behind could not be repaired.
 */
TIDE_PUBLIC TIDE_CHECKED int tide_pool_resize(struct tide_session *session,
					      const struct tide_request *request,
					      struct tide_progress *progress,
					      struct tide_reason *why);

/** tide_pool_resize_cancel() - ask whoever resizes, in whatever process, to stop and undo */
TIDE_PUBLIC void tide_pool_resize_cancel(struct tide_pool *pool);

/**
 * A resizer, for hosts with a loop of their own: the engine of tidepool/resize.h on this pool.
 *
 * tide_resizer_open() takes the pool's resize lock, and repairs what a resizer that died left behind; all calls
 * are made by the session's thread. tide_resizer_step() replaces tide_engine_step(): it also
 * resizes lookup table and ghost entries and gives their memory back. Return and *wait_ns as there, and
 * it returns 1 until that is done, too.
 */
struct tide_resizer;
TIDE_PUBLIC TIDE_CHECKED int tide_resizer_open(struct tide_session *session,
					       struct tide_resizer **out, struct tide_reason *why);
TIDE_PUBLIC struct tide_engine *tide_resizer_engine(struct tide_resizer *resizer);
TIDE_PUBLIC int tide_resizer_step(struct tide_resizer *resizer, uint64_t *wait_ns);
TIDE_PUBLIC void tide_resizer_close(struct tide_resizer *resizer);

/* Who keeps memory from being given back at this moment. */
struct tide_blocker {
	uint32_t process_id, thread_id;
	uint32_t fixes;	     /* pages that it has fixed, or works on, in chunks on their way out */
	uint32_t in_section; /* 1 = it stopped in the middle of a lookup */
	uint32_t scanning;   /* 1 = it flushes or drops pages: none moves meanwhile */
	uint64_t blocked_ns; /* how long the resizer has been waiting for it */
};

/** tide_pool_blockers() - fills at most @n; returns how many there are */
TIDE_PUBLIC uint32_t tide_pool_blockers(struct tide_pool *pool, struct tide_blocker *out,
					uint32_t n);

/**
 * struct tide_pool_status - a snapshot without a lock
 *
 * Sizes in bytes: allocatable (active chunks), committed (pages, by the kernel's count), beside
 * (descriptors, lookup table, ghosts and the rest, by the kernel's count), maximum, floor, chunk.
 * Counts since the pool was created, over all sessions.
 */
struct tide_pool_status {
	uint64_t allocatable_bytes, committed_bytes, beside_bytes;
	uint64_t max_bytes, min_bytes, chunk_bytes;
	uint32_t page_bytes;
	enum tide_backing backing;
	uint32_t chunks[TIDE_CHUNK_STATES];
	uint32_t sessions;
	uint64_t hits, misses, evictions, ghost_hits;
	uint64_t read_pages, written_pages, relocated_pages;
	uint64_t torn_pages;		    /* dropped because their writer died */
	uint64_t dead_sessions;		    /* taken back */
	uint64_t dirty_pages, cached_pages; /* at this moment, counted by a walk: O(buffers) */
};

/** tide_pool_status() - 0, or TIDE_SYSTEM_ERROR when the kernel's count cannot be had */
TIDE_PUBLIC TIDE_CHECKED int tide_pool_status(struct tide_pool *pool, struct tide_pool_status *out,
					      struct tide_reason *why);

/**
 * tide_pool_reap() - take back what participants that died still hold
 *
 * Happens by itself when somebody waits for them; a host may call it when it learns of a death.
 * Not with a page fixed. Return: sessions taken back.
 */
TIDE_PUBLIC uint32_t tide_pool_reap(struct tide_session *session);

/**
 * tide_pool_check() - does everything in the pool make sense? For tests; nobody else uses the pool.
 *
 * What participants left that died is taken back first.
 *
 * Return: 0, or TIDE_VERIFY_MISMATCH with the first contradiction.
 */
TIDE_PUBLIC TIDE_CHECKED int tide_pool_check(struct tide_session *session, struct tide_reason *why);

#ifdef __cplusplus
}
#endif

#endif /* TIDEPOOL_POOL_H */
