/* SPDX-License-Identifier: PostgreSQL */
/*
 * tests/models/resize.pml - the life of a chunk on a stock server: one chunk of two buffers, one page
 * that lives in one of them or on disk only, two backends, one engine that dies and is restarted.
 *
 * Each atomic block is what a real process does while it holds a buffer header's lock (and the
 * lock of the page's mapping partition where `where` changes).
 *
 * Safety, by assertions:
 *   memory   nobody reads or writes memory that is not there
 *   page     the page is never read from disk while its newest content is only in a buffer
 *   state    an active chunk has memory; a retired one has none and no usable buffer
 * Liveness:
 *   ends     when, from some moment on, nobody holds a pin, every resize ends
 *
 * Faults that the model must find (each takes one safeguard out):
 *   -DNO_PARK_RECORD            a pinned buffer without a tag is taken for a parked one
 *   -DNO_RECHECK                dirty is not looked at again between write and drop
 *   -DPUBLISH_WHILE_COMMITTING  the chunk is not stored as fenced before publication begins
 *   -DNO_RETRY                  what was busy once is not looked at again
 */
#define BUFFERS 2
#define NOWHERE BUFFERS
#ifndef BACKENDS
#define BACKENDS 2
#endif
#ifndef DEATHS
#define DEATHS 2
#endif

#define RETIRED 0
#define COMMITTING 1
#define ACTIVE 2
#define FENCED 3
#define DRAINING 4
#define QUIESCING 5
#define RELEASING 6

byte state = ACTIVE; /* in the chunk table, survives the engine */
bool memory = true;  /* what the kernel has */

byte pins[BUFFERS];
bool parked[BUFFERS]; /* own record: the pin is ours. Survives the engine. */
bool tagged[BUFFERS];
bool loaded[BUFFERS];
bool dirty[BUFFERS];

byte where = NOWHERE; /* the lookup table's entry for the page */
bool unsaved;	      /* the newest content of the page is not on disk */

byte users;	/* backends that hold a pin */
bool resizing;	/* an operation runs */
byte deaths;

inline access()
{
	assert(memory)
}

/* A backend wants the page: finds it, or takes a victim and reads it in. */
proctype backend()
{
	byte b;

	do
	:: atomic { where != NOWHERE -> b = where; pins[b]++; users++ };
		if
		:: loaded[b] ->
			access();
			if
			:: atomic { true -> access(); dirty[b] = true; unsaved = true }
			:: true
			fi
		:: !loaded[b] -> skip /* another backend still reads it in: let it */
		fi;
		atomic { pins[b]--; users-- }
	:: atomic { where == NOWHERE -> select(b : 0 .. BUFFERS - 1);
			if
			:: pins[b] == 0 && !tagged[b] -> pins[b]++; users++
			:: else -> goto next
			fi };
		/* Victim taken: pinned and without a tag. */
		atomic {
			if
			:: where == NOWHERE -> where = b; tagged[b] = true; loaded[b] = false
			:: else -> pins[b]--; users--; goto next /* another was quicker */
			fi
		};
		atomic { access(); assert(!unsaved); loaded[b] = true };
		access();
		atomic { pins[b]--; users-- }
	:: atomic { where != NOWHERE && pins[where] == 0 && !dirty[where] ->
			/* evicted for another page, which is dropped again at once */
			b = where; where = NOWHERE; tagged[b] = false; loaded[b] = false };
	:: break
next:	skip
	od
}

/* The checkpointer writes the page now and then. */
proctype checkpointer()
{
	byte b;

	do
	:: atomic { where != NOWHERE && dirty[where] -> b = where; pins[b]++; users++ };
		atomic { access(); dirty[b] = false; unsaved = false };
		atomic { pins[b]--; users-- }
	:: break
	od
}

byte i;		/* the buffer the engine is at */
byte busy;	/* buffers that could not be drained in this pass */
bool writing;	/* the engine holds a pin of its own on i */
bool alive;

/* The engine may die before each of its steps; its pins go with it, what it parked stays parked. */
#define MAY_DIE                                                                                    \
	if                                                                                         \
	:: atomic { deaths < DEATHS -> deaths++; alive = false };                                  \
		goto dead                                                                          \
	:: true                                                                                    \
	fi

inline publish_buffer()
{
	atomic {
		if
		:: parked[i] -> assert(memory); parked[i] = false; pins[i]--
		:: else
		fi
	}
}

inline park()
{
	parked[i] = true;
	pins[i]++
}

/* One look at buffer i; it is drained, or busy, or is written and looked at again next time. */
inline drain_buffer()
{
	atomic {
		if
		:: parked[i]
#ifdef NO_PARK_RECORD
		:: !parked[i] && pins[i] > 0 && !tagged[i]
#endif
		:: !parked[i] && pins[i] == 0 && !tagged[i] -> park()
		:: !parked[i] && pins[i] == 0 && tagged[i] && dirty[i] ->
			pins[i]++; writing = true; busy++
		:: !parked[i] && pins[i] == 0 && tagged[i] && !dirty[i] ->
			tagged[i] = false; loaded[i] = false; where = NOWHERE; park()
		:: else -> busy++
		fi
	};
	if
	:: writing ->
		MAY_DIE;
		atomic { access(); dirty[i] = false; unsaved = false };
		MAY_DIE;
#ifdef NO_RECHECK
		atomic {
			writing = false;
			pins[i]--;
			if
			:: pins[i] == 0 ->
				tagged[i] = false; loaded[i] = false; dirty[i] = false;
				where = NOWHERE; park()
			:: else
			fi
		}
#else
		atomic { pins[i]--; writing = false }
#endif
	:: else
	fi
}

active proctype engine()
{
	alive = true;
	run backend();
#if BACKENDS > 1
	run backend();
#endif
	run checkpointer();

idle:
	resizing = false;
	if
	:: state == ACTIVE -> resizing = true; goto shrink
	:: state == RETIRED -> resizing = true; goto grow
	fi;

grow:
	state = COMMITTING;
	MAY_DIE;
	memory = true;
	MAY_DIE;
#ifndef PUBLISH_WHILE_COMMITTING
	state = FENCED;
#endif
	goto publish;

publish:
	i = 0;
	do
	:: i < BUFFERS ->
		MAY_DIE;
		publish_buffer();
		i++
	:: else -> break
	od;
	MAY_DIE;
	state = ACTIVE;
	goto idle;

shrink:
	state = FENCED;
	i = 0;
	do
	:: i < BUFFERS ->
		MAY_DIE;
		atomic {
			if
			:: pins[i] == 0 && !tagged[i] && !parked[i] -> park()
			:: else
			fi
		};
		i++
	:: else -> break
	od;
	state = DRAINING;
	do
	:: true ->
		busy = 0;
		i = 0;
		do
		:: i < BUFFERS ->
			MAY_DIE;
			drain_buffer();
			i++
		:: else -> break
		od;
		if
		:: busy == 0 -> break
#ifdef NO_RETRY
		:: busy > 0 -> do :: true -> skip od
#else
		:: busy > 0 -> skip
#endif
		:: busy > 0 -> goto publish /* cancelled, or the deadline passed */
		fi
	od;
	state = QUIESCING;
	MAY_DIE;
	if
	:: true -> skip
	:: true -> goto publish /* cancelled at the last moment */
	fi;
	state = RELEASING;
	MAY_DIE;
	memory = false;
	MAY_DIE;
	state = RETIRED;
	goto idle;

dead:
	/* Its pin goes with it. A new engine knows the chunk table and the record of parked buffers. */
	atomic {
		if
		:: writing -> writing = false; pins[i]--
		:: else
		fi;
		alive = true
	};
	if
	:: state == COMMITTING || state == RELEASING ->
		memory = false;
		state = RETIRED;
		goto idle
	:: state == FENCED || state == DRAINING || state == QUIESCING -> goto publish
	:: state == ACTIVE || state == RETIRED -> goto idle
	fi
}

#define USABLE(b) (!parked[b])

/* Invariants of the chunk table, checked in every state. */
active proctype observer()
{
end:
	if
	:: atomic { state == ACTIVE && !memory -> assert(false) }
	:: atomic { state == RETIRED && memory -> assert(false) }
	:: atomic { !memory && state != COMMITTING && (USABLE(0) || USABLE(1)) -> assert(false) }
	:: atomic { unsaved && (where == NOWHERE || !dirty[where]) -> assert(false) }
	fi
}

#ifdef LIVENESS
ltl ends { (<> [] (users == 0)) -> [] (resizing -> <> !resizing) }
#endif
