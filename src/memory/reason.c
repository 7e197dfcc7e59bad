/* SPDX-License-Identifier: PostgreSQL */
/* reason.c - outcome codes and the reason that goes with them. */
#include <tidepool/reason.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct code_fact {
	const char *name;
	int retryable;
};

/* Indexed by the negated code. */
static const struct code_fact code_facts[] = {
	[-TIDE_OK] = {"OK", 0},
	[-TIDE_BAD_REQUEST] = {"BAD_REQUEST", 0},
	[-TIDE_BELOW_MIN] = {"BELOW_MIN", 0},
	[-TIDE_ABOVE_MAX] = {"ABOVE_MAX", 0},
	[-TIDE_NOT_ENOUGH_MEMORY] = {"NOT_ENOUGH_MEMORY", 1},
	[-TIDE_HUGEPAGES_SHORT] = {"HUGEPAGES_SHORT", 1},
	[-TIDE_HUGEPAGE_CGROUP_LIMIT] = {"HUGEPAGE_CGROUP_LIMIT", 1},
	[-TIDE_HUGEPAGES_UNAVAILABLE] = {"HUGEPAGES_UNAVAILABLE", 0},
	[-TIDE_PINNED_BUFFERS] = {"PINNED_BUFFERS", 1},
	[-TIDE_DIRTY_BACKLOG] = {"DIRTY_BACKLOG", 1},
	[-TIDE_OP_IN_PROGRESS] = {"OP_IN_PROGRESS", 1},
	[-TIDE_CANCELLED] = {"CANCELLED", 0},
	[-TIDE_SUPERSEDED] = {"SUPERSEDED", 0},
	[-TIDE_VERIFY_MISMATCH] = {"VERIFY_MISMATCH", 1},
	[-TIDE_HOST_ERROR] = {"HOST_ERROR", 0},
	[-TIDE_SYSTEM_ERROR] = {"SYSTEM_ERROR", 0},
	[-TIDE_IO_ERROR] = {"IO_ERROR", 1},
	[-TIDE_PAGE_CORRUPT] = {"PAGE_CORRUPT", 0},
	[-TIDE_POOL_EXHAUSTED] = {"POOL_EXHAUSTED", 1},
	[-TIDE_LIMIT_REACHED] = {"LIMIT_REACHED", 1},
};

#define N_CODES ((int)(sizeof(code_facts) / sizeof(code_facts[0])))

const char *tide_code_name(int code)
{
	if (code > 0 || code <= -N_CODES)
		return "UNKNOWN";
	return code_facts[-code].name;
}

int tide_code_retryable(int code)
{
	if (code > 0 || code <= -N_CODES)
		return 0;
	return code_facts[-code].retryable;
}

int tide_reason_set(struct tide_reason *why, int code, int sys_errno, const char *format, ...)
{
	int saved_errno = errno;
	size_t used;
	va_list args;

	if (!why)
		return code;
	*why = (struct tide_reason){.code = code, .sys_errno = sys_errno};
	va_start(args, format);
	vsnprintf(why->message, sizeof(why->message), format, args);
	va_end(args);
	used = strlen(why->message);
	if (sys_errno != 0 && used < sizeof(why->message) - 1) {
		const char *words = strerrordesc_np(sys_errno);

		snprintf(why->message + used, sizeof(why->message) - used, ": %s",
			 words ? words : "unknown errno");
	}
	errno = saved_errno;
	return code;
}

void tide_reason_bytes(struct tide_reason *why, uint64_t want_bytes, uint64_t have_bytes)
{
	if (!why)
		return;
	why->want_bytes = want_bytes;
	why->have_bytes = have_bytes;
}

void tide_reason_hint(struct tide_reason *why, const char *format, ...)
{
	int saved_errno = errno;
	va_list args;

	if (!why)
		return;
	va_start(args, format);
	vsnprintf(why->hint, sizeof(why->hint), format, args);
	va_end(args);
	errno = saved_errno;
}
