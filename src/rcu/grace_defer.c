/* SPDX-License-Identifier: PostgreSQL */
/*
 * rcu/grace_defer.c - calls that wait for a grace period.
 *
 * They are carried out in the order in which they came, each once. Tickets are made under the lock and
 * so stand in the queue in ascending order: what is behind a call that has to wait has to wait, too.
 */
#include "rcu/grace_handle.h"

/* The calls that wait are those from the number returned on to *next. */
static uint64_t queue_bounds(struct tide_grace *grace, uint64_t *next)
{
	uint64_t first;

	tide_grace_adopt(grace);
	pthread_mutex_lock(&grace->deferred.lock);
	first = grace->deferred.first;
	*next = grace->deferred.next;
	pthread_mutex_unlock(&grace->deferred.lock);
	return first;
}

/* The call in front, if its number is below @end and its grace period passed; it leaves the queue. */
static int take_passed(struct tide_grace *grace, uint64_t end, struct tide_grace_call *out)
{
	struct tide_grace_deferred *deferred = &grace->deferred;
	int taken = 0;

	pthread_mutex_lock(&deferred->lock);
	if (deferred->first < end) {
		*out = deferred->calls[deferred->first % TIDE_GRACE_DEFERRED_MAX];
		taken = tide_grace_poll(grace, out->ticket);
		deferred->first += (uint64_t)taken;
	}
	pthread_mutex_unlock(&deferred->lock);
	return taken;
}

uint32_t tide_grace_run(struct tide_grace *grace)
{
	struct tide_grace_call call;
	uint64_t first, end;

	/* Not those that are deferred meanwhile: a call that defers itself would never let us go. */
	(void)queue_bounds(grace, &end);
	while (take_passed(grace, end, &call))
		call.function(call.argument);
	first = queue_bounds(grace, &end);
	return (uint32_t)(end - first);
}

int tide_grace_defer(struct tide_grace *grace, void (*function)(void *argument), void *argument,
		     struct tide_reason *why)
{
	struct tide_grace_deferred *deferred = &grace->deferred;
	int code = TIDE_OK;

	(void)tide_grace_run(grace);
	pthread_mutex_lock(&deferred->lock);
	if (deferred->next - deferred->first == TIDE_GRACE_DEFERRED_MAX)
		code = tide_reason_set(why, TIDE_LIMIT_REACHED, 0,
				       "%u deferred calls wait for a grace period already",
				       TIDE_GRACE_DEFERRED_MAX);
	else
		deferred->calls[deferred->next++ % TIDE_GRACE_DEFERRED_MAX] =
			(struct tide_grace_call){tide_grace_start(grace), function, argument};
	pthread_mutex_unlock(&deferred->lock);
	return code;
}
