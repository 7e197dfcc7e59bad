/* SPDX-License-Identifier: PostgreSQL */
/*
 * rcu/participant.c - who is a participant, and does it live?
 *
 * Taking a living thread for dead lets memory go under its feet, so death needs proof: the kernel
 * says there is no such thread (not only /proc, where hidepid or a missing mount hide living ones), or
 * that it has ended, or that the thread of these ids started at another time. The start time
 * has a resolution of one clock tick, 10 ms. Within a tick the same thread id would have to be
 * handed out twice, and ids are handed out in turn: all of them would have to be used in 10 ms.
 *
 * exec() keeps ids and start time: a program that was executed inside a section counts as in it.
 */
#include "rcu/participant.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory/prim.h"
#include "rcu/prim.h"

#define STAT_BYTES 1024
#define PATH_BYTES 64

/*
 * The thread has begun to end: it runs no user code any more. Giving back a large address space
 * afterwards takes a while, in which it is no zombie yet. Linux has had this value since 2.6.
 */
#define PF_EXITING 0x4u

int tide_participant_parse(const char *line, struct tide_participant_stat *out)
{
	const char *rest = strrchr(line, ')'); /* the name before it may contain anything */

	/* Fields 3 (state), 9 (flags) and 22 (start time). */
	if (!rest || sscanf(rest + 1,
			    " %c %*s %*s %*s %*s %*s %u %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
			    "%*s %*s %llu",
			    &out->state, &out->flags, &out->start_time) != 3)
		return -EINVAL;
	return 0;
}

static int read_stat(uint32_t process_id, uint32_t thread_id, struct tide_participant_stat *out)
{
	char path[PATH_BYTES], line[STAT_BYTES];
	int rc;

	(void)snprintf(path, sizeof(path), "/proc/%" PRIu32 "/task/%" PRIu32 "/stat", process_id,
		       thread_id);
	rc = tide_prim_read(path, line, sizeof(line));
	return rc ? rc : tide_participant_parse(line, out);
}

int tide_participant_self(struct tide_participant *out)
{
	struct tide_participant_stat stat;
	int rc;

	out->process_id = (uint32_t)getpid();
	out->thread_id = (uint32_t)gettid();
	rc = read_stat(out->process_id, out->thread_id, &stat);
	if (rc != 0)
		return rc;
	out->start_time = stat.start_time;
	return 0;
}

int tide_participant_is_dead(const struct tide_participant *participant)
{
	struct tide_participant_stat stat;

	if (tide_rcu_prim_probe(participant->process_id, participant->thread_id) == -ESRCH)
		return 1;
	if (read_stat(participant->process_id, participant->thread_id, &stat) != 0)
		return 0;
	return stat.state == 'Z' || stat.state == 'X' || (stat.flags & PF_EXITING) != 0 ||
	       stat.start_time != participant->start_time;
}

int tide_participant_namespace(uint64_t *inode)
{
	char line[STAT_BYTES];
	int rc;

	rc = tide_prim_read("/proc/self/stat", line, sizeof(line));
	if (rc != 0)
		return rc;
	if (strtol(line, NULL, 10) != getpid())
		return -EXDEV;
	return tide_rcu_prim_namespace(inode);
}
