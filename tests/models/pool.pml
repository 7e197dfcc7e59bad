/* SPDX-License-Identifier: PostgreSQL */
/*
 * tests/models/pool.pml - a shrinking pool: fence, drain, relocation, grace period, decommit against
 * participants that fix the page, change it and die, and a resizer that dies and is followed by
 * another one. How pins, claims and write-back work among participants is in pin.pml.
 *
 * One page; one buffer in the chunk that is resized (GOES) and one that stays (STAYS). Descriptor and
 * page memory of GOES come and go with its chunk: who looks at them does so inside a read section that
 * began while somebody could still find the buffer, or with an entry that keeps the chunk from being
 * drained.
 *
 * Participant 0 reads. Its stores are plain, that with which it enters a section and that of its entry:
 * they wait in its store buffer (`late_*`), in order, until the hardware gets round to them, it makes a
 * locked instruction, or somebody's membarrier() forces them out. Participant 1 writes, and makes its
 * stores with locked instructions.
 *
 * Safety, by assertions:
 *   memory     nobody looks at memory that is not there
 *   pinned     a page that is fixed stays in its buffer
 *   content    what is found is the newest content, unless somebody died who had claimed it for writing
 *   one        a valid buffer that nobody claims is the one that the lookup table names
 *   table      an active chunk has memory; a retired one has none and no usable buffer
 * Liveness:
 *   ends       when, from some moment on, nobody who is alive fixes pages, every resize ends; the dead
 *              do not stop it, in a section or with a page fixed
 *
 * Faults that the model must find:
 *   -DNO_BARRIER   no membarrier() between the claim and the look at the entries
 *   -DNO_GRACE     memory goes as soon as the chunk is drained
 *   -DEARLY_READY  a relocated page's new buffer is not claimed until the lookup table names it
 *   -DDEAD_COUNT   the dead are not told from the living
 *
 * Left out: storage that fails, partitions of the lookup table (one atomic variable here, lookup.pml),
 * the epoch's number (a participant is old when it was in a section at the beginning of the grace
 * period, until it leaves that section), chunks of several buffers, lingering, participants that take
 * the slot of a dead one (pin.pml), and that READ fixes exclude writers by the bias flag (pin.pml):
 * here one test does both.
 */
#ifndef DEATHS
#define DEATHS 1
#endif
#define SLOTS 4 /* participants 0 and 1, resizers 2 and 3 */

#define GOES 0
#define STAYS 1
#define NOWHERE 2

/* Buffers. Zeroed memory is a retired buffer. */
#define RETIRED 0
#define FREE 1
#define LOADING 2
#define VALID 3
#define TORN 4
byte state[2];
byte owner[2]; /* slot + 1 */
byte claim[2];
#define LOAD 1
#define CHANGE 2
#define EVICT 3
bool dirty[2];

byte where = NOWHERE; /* the lookup table's entry for the page */

/* The chunk of GOES. */
#define IS_RETIRED 0
#define IS_COMMITTING 1
#define IS_ACTIVE 2
#define IS_FENCED 3
#define IS_DRAINING 4
#define IS_QUIESCING 5
#define IS_RELEASING 6
byte chunk = IS_ACTIVE;
bool memory = true; /* what the kernel has */

/* Slots, as everybody sees them, and what is on its way. */
byte entry[SLOTS]; /* buffer + 1 */
bool inside[2];
bool old[2]; /* the grace period waits for it */
byte late_entry; /* of participant 0; 1 makes its stores with locked instructions */
bool late_inside;
bool late_leave;
bool taken[SLOTS];
bool dead[SLOTS];

/* What is true, whoever knows it. */
bool unsaved;  /* the newest content is not in storage */
bool newest[2]; /* the buffer holds the newest content */
bool busy[2];  /* in the middle of a fix, or has the page fixed */
byte deaths;
bool resizing;

#ifdef DEAD_COUNT
#define is_dead(q) false
#else
#define is_dead(q) dead[q]
#endif

inline look(b)
{
	assert(b == STAYS || memory)
}

/* --- store buffers ------------------------------------------------------------------------------ */

inline flush_inside()
{
	if
	:: late_inside -> inside[0] = true; late_inside = false
	:: else
	fi
}

inline flush()
{
	flush_inside();
	if
	:: late_entry != 0 -> entry[0] = late_entry; late_entry = 0
	:: else
	fi;
	if
	:: late_leave -> inside[0] = false; old[0] = false; late_leave = false
	:: else
	fi
}

/* --- participants ------------------------------------------------------------------------------- */

inline enter()
{
	if
	:: me == 0 -> flush(); late_inside = true
	:: else -> inside[1] = true
	fi
}

#define is_late (me == 0 && (late_inside || late_entry != 0))

inline leave()
{
	if
	:: atomic { is_late -> late_leave = true }
	:: atomic { !is_late -> inside[me] = false; old[me] = false }
	fi
}

/* In one with what comes next when that is a locked instruction. */
inline set_entry(b)
{
	if
	:: me == 0 -> flush()
	:: else
	fi;
	entry[me] = b + 1
}

inline clear_entry()
{
	if
	:: me == 0 -> flush()
	:: else
	fi;
	entry[me] = 0
}

#define idle(b) (state[b] == VALID && owner[b] == 0)
#define resident(b) (state[b] == VALID && claim[b] != EVICT) /* for PIN: a writer is no hindrance */

inline use()
{
	look(b);
	assert(where == b && (state[b] == TORN || (state[b] == VALID && newest[b])))
}

inline make_free(b)
{
	state[b] = FREE;
	owner[b] = 0;
	claim[b] = 0;
	dirty[b] = false;
	newest[b] = false
}

/* The page is not in the pool: it is read into a free buffer. */
inline load()
{
	if
	:: chunk == IS_ACTIVE -> b = GOES
	:: b = STAYS
	fi;
	atomic {
		look(b);
		if
		:: state[b] == FREE && owner[b] == 0 ->
			state[b] = LOADING; owner[b] = me + 1; claim[b] = LOAD;
			set_entry(b)
		:: else -> goto retry
		fi
	};
	leave();
	atomic {
		if
		:: where == NOWHERE -> where = b
		:: else -> look(b); make_free(b); goto retry /* another was quicker */
		fi
	};
	atomic {
		look(b);
		assert(!unsaved);
		newest[b] = true;
		state[b] = VALID; owner[b] = 0; claim[b] = 0
	}
}

inline pin()
{
	atomic {
		look(b);
		if
		:: resident(b) && where == b -> skip
		:: else -> goto retry
		fi
	};
	leave()
}

inline change()
{
	atomic {
		look(b);
		if
		:: idle(b) && where == b && entry[2] != b + 1 && entry[3] != b + 1 ->
			set_entry(b);
			owner[b] = me + 1; claim[b] = CHANGE
		:: else -> goto retry
		fi
	};
	leave();
	atomic { use(); dirty[b] = true; unsaved = true; newest[1 - b] = false };
	atomic { use(); owner[b] = 0; claim[b] = 0 }
}

/* 0 reads, 1 writes. */
proctype participant(byte me)
{
	byte b;

again:
	{
		do
		:: atomic { busy[me] = true; enter() };
			if
			:: where == NOWHERE -> load()
			:: atomic { where != NOWHERE -> b = where };
				if
				:: me == 0 -> late_entry = b + 1; pin()
				:: me == 1 -> change()
				fi
			fi;
			atomic { use(); clear_entry(); busy[me] = false; b = 0 }
		od;
retry:		atomic { clear_entry(); leave(); busy[me] = false; b = 0 };
		goto again
	} unless {
		atomic { dead[me] -> b = 0 }
	}
}

/* --- resizer ------------------------------------------------------------------------------------ */

/* After a claim: has anybody pinned it all the same? */
inline look_at_entries(b)
{
#ifndef NO_BARRIER
	atomic { flush() };
#endif
	pinned = (entry[0] == b + 1);
	pinned = pinned || (entry[1] == b + 1)
}

inline unclaim(b)
{
	atomic { look(b); owner[b] = 0; claim[b] = 0 }
}

inline claim_idle(b)
{
	owner[b] = me + 1;
	claim[b] = EVICT
}

inline relocate()
{
	atomic {
		look(GOES);
		if
		:: idle(GOES) -> claim_idle(GOES)
		:: else -> goto next_step
		fi
	};
	look_at_entries(GOES);
	if
	:: pinned -> unclaim(GOES); goto next_step
	:: else
	fi;
	atomic {
		if
		:: state[STAYS] == FREE && owner[STAYS] == 0 -> claim_idle(STAYS)
		:: else -> unclaim(GOES); goto next_step
		fi
	};
	atomic { look(GOES); newest[STAYS] = newest[GOES] };
	atomic {
		look(GOES);
		state[STAYS] = VALID;
		dirty[STAYS] = dirty[GOES];
#ifdef EARLY_READY
		owner[STAYS] = 0; claim[STAYS] = 0
#endif
	};
	atomic { where = STAYS };
	atomic { look(GOES); make_free(GOES); state[GOES] = RETIRED };
#ifndef EARLY_READY
	unclaim(STAYS)
#endif
}

/* What is clean, or torn, may go. */
inline evict()
{
	atomic {
		look(GOES);
		if
		:: owner[GOES] == 0 && (state[GOES] == TORN || (state[GOES] == VALID && !dirty[GOES])) ->
			claim_idle(GOES)
		:: else -> goto next_step
		fi
	};
	look_at_entries(GOES);
	if
	:: pinned -> unclaim(GOES); goto next_step
	:: else
	fi;
	atomic {
		if
		:: state[GOES] == TORN -> unsaved = false /* lost */
		:: else
		fi;
		where = NOWHERE
	};
	atomic { look(GOES); make_free(GOES); state[GOES] = RETIRED }
}

/* As a reader. */
inline write_back()
{
	atomic {
		look(GOES);
		if
		:: idle(GOES) && dirty[GOES] -> entry[me] = GOES + 1
		:: else -> goto next_step
		fi
	};
	atomic { look(GOES); assert(idle(GOES)); unsaved = false };
	atomic { look(GOES); dirty[GOES] = false };
	entry[me] = 0
}

inline drain()
{
	do
	:: atomic { state[GOES] == FREE && owner[GOES] == 0 -> look(GOES); state[GOES] = RETIRED }
	:: atomic { state[GOES] == RETIRED -> break }
	:: idle(GOES) && state[STAYS] == FREE -> relocate()
	:: owner[GOES] == 0 && state[GOES] == TORN || idle(GOES) && !dirty[GOES] -> evict()
	:: idle(GOES) && dirty[GOES] -> write_back()
	:: goto publish /* cancelled */
next_step:
	od
}

proctype resizer(byte me)
{
	bool pinned;

	{
		/* What the one before has left. */
		if
		:: chunk == IS_COMMITTING || chunk == IS_RELEASING -> goto release
		:: chunk == IS_FENCED || chunk == IS_DRAINING || chunk == IS_QUIESCING -> goto publish
		:: chunk == IS_ACTIVE || chunk == IS_RETIRED
		fi;
idle:
		resizing = false;
		if
		:: chunk == IS_ACTIVE -> resizing = true; goto shrink
		:: chunk == IS_RETIRED -> resizing = true; chunk = IS_COMMITTING
		fi;
		memory = true;
		chunk = IS_FENCED;
publish:
		atomic {
			look(GOES);
			if
			:: state[GOES] == RETIRED -> state[GOES] = FREE
			:: else
			fi
		};
		chunk = IS_ACTIVE;
		goto idle;
shrink:
		chunk = IS_FENCED;
		chunk = IS_DRAINING;
		drain();
		chunk = IS_QUIESCING;
#ifndef NO_GRACE
		atomic { flush(); old[0] = inside[0]; old[1] = inside[1] };
		do
		:: atomic { flush();
				(!old[0] || is_dead(0)) && (!old[1] || is_dead(1)) -> break }
		:: goto publish
		od;
#endif
		chunk = IS_RELEASING;
release:
		atomic {
			memory = false;
			assert(state[GOES] == RETIRED);
			make_free(GOES);
			state[GOES] = RETIRED
		};
		chunk = IS_RETIRED;
		goto idle
	} unless {
		atomic { dead[me] -> pinned = false; taken[3] = true; run resizer(3) }
	}
}

/* --- death -------------------------------------------------------------------------------------- */

inline take_back(b)
{
	atomic {
		if
		:: owner[b] == q + 1 ->
			look(b);
			if
			:: claim[b] == CHANGE -> state[b] = TORN; owner[b] = 0; claim[b] = 0
			:: claim[b] == EVICT && where == b -> owner[b] = 0; claim[b] = 0
			:: claim[b] == EVICT && where != b -> make_free(b)
			:: claim[b] == LOAD ->
				where = (where == b -> NOWHERE : where);
				make_free(b)
			fi
		:: else
		fi
	}
}

active proctype reaper()
{
	byte q;

end:
	do
	:: atomic {
			if
			:: taken[0] && is_dead(0) -> q = 0
			:: taken[1] && is_dead(1) -> q = 1
			:: taken[2] && is_dead(2) -> q = 2
			fi
		};
		take_back(GOES);
		take_back(STAYS);
		atomic {
			entry[q] = 0;
			if
			:: q < 2 -> inside[q] = false; old[q] = false
			:: else
			fi;
			taken[q] = false;
			q = 0
		}
	od
}

active proctype world()
{
	atomic {
		state[GOES] = FREE; state[STAYS] = FREE;
#ifndef NO_READER
		taken[0] = true; run participant(0);
#endif
#ifndef NO_WRITER
		taken[1] = true; run participant(1);
#endif
		taken[2] = true; run resizer(2)
	};
end:
	do
	:: atomic { late_inside -> flush_inside() }
	:: atomic { late_entry != 0 || late_leave -> flush() }
	:: atomic { deaths < DEATHS ->
			if
			:: taken[0] && !dead[0] -> flush(); busy[0] = false; dead[0] = true
			:: taken[1] && !dead[1] -> busy[1] = false; dead[1] = true
			:: taken[2] && !dead[2] -> dead[2] = true
			fi;
			deaths++
		}
	:: atomic { idle(GOES) && where != GOES -> assert(false) }
	:: atomic { idle(STAYS) && where != STAYS -> assert(false) }
	:: atomic { chunk == IS_ACTIVE && !memory -> assert(false) }
	:: atomic { chunk == IS_RETIRED && (memory || state[GOES] != RETIRED) -> assert(false) }
	od
}

#ifdef LIVENESS
ltl ends { (<> [] (!busy[0] && !busy[1])) -> [] (resizing -> <> !resizing) }
#endif
