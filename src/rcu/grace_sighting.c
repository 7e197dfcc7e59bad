/* SPDX-License-Identifier: PostgreSQL */
/*
 * rcu/grace_sighting.c - what this process knows of the slots that were in its way.
 *
 * Looking for an owner costs microseconds, and most sections end before that: an owner is looked
 * for when its section has been in the way for a while, and then now and again.
 */
#include "rcu/grace_handle.h"

#define FIRST_LOOK_NS 1000000u
#define NEXT_LOOK_NS 5000000u

static int is_same(const struct tide_participant *a, const struct tide_participant *b)
{
	return a->process_id == b->process_id && a->thread_id == b->thread_id &&
	       a->start_time == b->start_time;
}

static void look_locked(struct tide_grace_sighting *sighting, uint64_t now_ns)
{
	const uint64_t wait_ns =
		sighting->look_ns == sighting->first_ns ? FIRST_LOOK_NS : NEXT_LOOK_NS;

	if (sighting->dead || now_ns - sighting->look_ns < wait_ns)
		return;
	sighting->look_ns = now_ns;
	sighting->dead = tide_participant_is_dead(&sighting->who);
}

int tide_grace_sight(struct tide_grace *grace, uint32_t index, uint64_t epoch,
		     struct tide_grace_blocker *out)
{
	struct tide_grace_sighting *sighting = &grace->sightings[index];
	struct tide_participant who;
	uint64_t now_ns;
	int dead;

	/* Who gives a slot back has ended its section before. */
	if (!tide_grace_table_owner(grace->table, index, &who))
		return 0;
	now_ns = tide_grace_now_ns();
	tide_grace_adopt(grace);
	pthread_mutex_lock(&grace->sighting_lock);
	if (sighting->epoch != epoch || !is_same(&sighting->who, &who))
		*sighting = (struct tide_grace_sighting){
			.who = who, .epoch = epoch, .first_ns = now_ns, .look_ns = now_ns};
	/* Another thread may have written it after this one read the clock. */
	if (now_ns > sighting->look_ns)
		look_locked(sighting, now_ns);
	else
		now_ns = sighting->look_ns;
	dead = sighting->dead;
	*out = (struct tide_grace_blocker){.index = index,
					   .process_id = who.process_id,
					   .thread_id = who.thread_id,
					   .blocked_ns = now_ns - sighting->first_ns};
	pthread_mutex_unlock(&grace->sighting_lock);
	return !dead;
}
