/* SPDX-License-Identifier: PostgreSQL */
/*
 * tidepool/reason.h - outcome codes and the reason that goes with them.
 *
 * Every call of the library that can fail returns 0 or one of the negative codes below and fills a
 * struct tide_reason: what was asked, what was found, what to do. The words are those of the resize
 * signal, so one outcome has one name in C, in SQL, in the log and on the wire.
 *
 * Caveats: a struct tide_reason is plain memory owned by the caller; passing NULL is allowed and
 * loses the text, never the code. Nothing here allocates, prints or blocks, and errno is kept.
 */
#ifndef TIDEPOOL_REASON_H
#define TIDEPOOL_REASON_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TIDE_PUBLIC __attribute__((visibility("default")))
#define TIDE_CHECKED __attribute__((warn_unused_result))

enum tide_code {
	TIDE_OK = 0,
	TIDE_BAD_REQUEST = -1,		 /* the request itself is malformed */
	TIDE_BELOW_MIN = -2,		 /* smaller than the pool may become */
	TIDE_ABOVE_MAX = -3,		 /* larger than the reserve */
	TIDE_NOT_ENOUGH_MEMORY = -4,	 /* the machine or a memory cgroup has too little */
	TIDE_HUGEPAGES_SHORT = -5,	 /* too few huge pages free or obtainable */
	TIDE_HUGEPAGE_CGROUP_LIMIT = -6, /* a hugetlb cgroup limit is in the way */
	TIDE_HUGEPAGES_UNAVAILABLE =
		-7,		    /* huge pages required, this kernel has none of that size */
	TIDE_PINNED_BUFFERS = -8,   /* buffers stayed pinned until the deadline */
	TIDE_DIRTY_BACKLOG = -9,    /* dirty buffers could not be written by the deadline */
	TIDE_OP_IN_PROGRESS = -10,  /* one operation at a time */
	TIDE_CANCELLED = -11,	    /* somebody asked the operation to stop */
	TIDE_SUPERSEDED = -12,	    /* a newer request took its place */
	TIDE_VERIFY_MISMATCH = -13, /* the kernel disagrees with the plan */
	TIDE_HOST_ERROR = -14,	    /* the host could not carry out a step */
	TIDE_SYSTEM_ERROR = -15,    /* a system call failed in a way no other code describes */
	TIDE_IO_ERROR = -16,	    /* a page could not be read from storage or written to it */
	TIDE_PAGE_CORRUPT = -17,    /* a page was read, and its checksum is wrong */
	TIDE_POOL_EXHAUSTED = -18,  /* every buffer is in use by somebody */
	TIDE_LIMIT_REACHED = -19,   /* a fixed maximum: sessions, fixed pages, deferred calls */
};

/**
 * struct tide_reason - why a call ended as it did
 * @code:       an enum tide_code
 * @sys_errno:  the errno behind it, or 0
 * @want_bytes: bytes asked for, where a quantity is involved
 * @have_bytes: bytes that could be had
 * @message:    one sentence: what was asked and what was found
 * @hint:       one sentence: what to do about it, or empty
 */
struct tide_reason {
	int code;
	int sys_errno;
	uint64_t want_bytes;
	uint64_t have_bytes;
	char message[320];
	char hint[320];
};

/**
 * tide_code_name() - the word for a code, e.g. "HUGEPAGES_SHORT"; "OK" for 0
 *
 * Return: a constant string, "UNKNOWN" for a number that is no code.
 */
TIDE_PUBLIC const char *tide_code_name(int code);

/**
 * tide_code_retryable() - may the same request succeed later without anybody changing it?
 */
TIDE_PUBLIC int tide_code_retryable(int code);

/**
 * tide_reason_set() - begin a reason: code, errno and message; everything else becomes empty
 *
 * A message too long for its place is cut. With @sys_errno not 0 the words for it are appended
 * after ": ". @why may be NULL.
 *
 * Return: @code, so that a failing function can end with it.
 */
TIDE_PUBLIC __attribute__((format(printf, 4, 5))) int
tide_reason_set(struct tide_reason *why, int code, int sys_errno, const char *format, ...);

/** tide_reason_bytes() - add quantities to a reason that was set; @why may be NULL */
TIDE_PUBLIC void tide_reason_bytes(struct tide_reason *why, uint64_t want_bytes,
				   uint64_t have_bytes);

/** tide_reason_hint() - add what to do to a reason that was set; @why may be NULL */
TIDE_PUBLIC __attribute__((format(printf, 2, 3))) void tide_reason_hint(struct tide_reason *why,
									const char *format, ...);

#ifdef __cplusplus
}
#endif

#endif /* TIDEPOOL_REASON_H */
