/* SPDX-License-Identifier: PostgreSQL */
/*
 * tests/models/lookup.pml - the lookup table grows and shrinks by one bucket while readers run: bucket P,
 * its partner T in a split, two slots each, one overflow line that P may have. One key K, which belongs to
 * T when there are two buckets, is in the table throughout; a filler keeps P's first slot busy now and then, so
 * that K lies in the overflow line. A writer splits, merges and moves entries forward, dies between
 * any two stores and is followed by another that repairs.
 *
 * One step is one load or store of the code, or a few where nobody else can see the difference.
 *
 * Safety, by assertions:
 *   found    a reader never concludes that K is not in the table
 *   valid    what a repair or an operation leaves behind is in order: K once, levels as the count says
 * Liveness:
 *   ends     when, from some moment on, no writer stores anything (alive or dead), every find ends
 *
 * How it is run (spin -a, then pan; -DSAFETY without the claim):
 *   safety     -DSAFETY            no error
 *   liveness   -DLIVENESS, -a      no error
 * Faults that the model must find in its safety (each takes one safeguard out):
 *   -DNO_BUMP            no change of version between a copy and the removal of its original
 *   -DNO_LEVEL           a reader does not ask whether the bucket answers for its hash
 *   -DPUBLISH_FIRST      the count is raised before the new bucket is filled
 *   -DDELETE_FIRST       an entry that moves forward is deleted before it was copied
 *   -DNO_REPAIR          the lock of a dead owner is taken over without a repair
 * and in its liveness:
 *   -DLEVEL_LATE         the partner's level is lowered after the count
 */
#ifndef DEATHS
#define DEATHS 2
#endif
#ifndef OPERATIONS
#define OPERATIONS 5
#endif

#define P 0
#define T 1
#define FREE 0
#define K 1
#define FILLER 2
#define OTHER 3 /* an entry of another bucket, in a line that was let go and taken again */

/* Slots 0 and 1 are P and its overflow line, slot 2 is T. */
byte slot[3];
byte version[2];
byte level[2];	 /* 0 = not in use; 1 = one bucket for everything; 2 = split */
byte count = 1;	 /* buckets */
bool chained;	 /* P leads to the overflow line */
bool owned;	 /* the overflow line is P's */

bool top;	 /* the partition's record: a split or merge is under way */
bool changed;	 /* entries move forward in P */
byte deaths;
bool resting;	 /* the writer stores nothing any more: it came to its end or died */
bool idle;	 /* a find has just ended */

#ifdef NO_BUMP
#define BUMP(b) skip
#else
#define BUMP(b) version[b]++
#endif

#define MAY_DIE                                                                                    \
	if                                                                                         \
	:: atomic { deaths < DEATHS -> deaths++ }; goto dead                                       \
	:: true                                                                                    \
	fi

/* The line is let go and taken by another bucket, which fills it. */
inline unlink()
{
	chained = false;
	BUMP(P);
	d_step { owned = false; slot[1] = OTHER };
	d_step { slot[1] = FREE }
}

proctype reader()
{
	byte n, b, seen, lv;
	bool found, more;

find:	do
	:: n = count;
		b = (n == 2 -> T : P);
		seen = version[b];
		found = false;
		if
		:: b == T -> found = (slot[2] == K); more = false
		:: else -> found = (slot[0] == K); more = chained
		fi;
		if
		:: found -> break
		:: else
		fi;
		lv = level[b];
#ifndef NO_LEVEL
		/* Level 1 answers as P only, level 2 for K as T only, level 0 never. */
		if
		:: (b == P && lv != 1) || (b == T && lv != 2) -> goto again
		:: else
		fi;
#endif
		if
		:: version[b] != seen -> goto again
		:: else
		fi;
		if
		:: more -> found = (slot[1] == K);
			if
			:: found -> break
			:: version[b] != seen -> goto again
			:: else -> assert(false)
			fi
		:: else -> assert(false)
		fi;
again:		skip
	od;
	idle = true;
	d_step { n = 0; b = 0; seen = 0; lv = 0; found = false; more = false };
	idle = false;
	goto find
}

/* The second half of a split or merge, and its repair. */
inline settle()
{
	if
	:: count == 2 ->
		level[P] = 2; MAY_DIE;
		BUMP(P); MAY_DIE;
		if
		:: slot[0] == K -> slot[0] = FREE
		:: else
		fi;
		MAY_DIE;
		if
		:: slot[1] == K -> slot[1] = FREE
		:: else
		fi;
		MAY_DIE;
		if
		:: chained && slot[1] == FREE -> unlink()
		:: else
		fi
	:: else ->
		level[P] = 1; MAY_DIE;
		level[T] = 0; MAY_DIE;
		BUMP(T)
	fi;
	MAY_DIE;
	top = false
}

/* What lies in the line moves into P when there is room; then the line goes. */
inline tidy()
{
	changed = true; MAY_DIE;
	if
	:: chained && slot[0] == FREE && slot[1] == K ->
#ifdef DELETE_FIRST
		slot[1] = FREE; MAY_DIE;
		BUMP(P); MAY_DIE;
		slot[0] = K; MAY_DIE;
#else
		slot[0] = K; MAY_DIE;
		BUMP(P); MAY_DIE;
		slot[1] = FREE; MAY_DIE;
#endif
	:: else
	fi;
	if
	:: chained && slot[1] == FREE -> unlink()
	:: else
	fi;
	MAY_DIE;
	changed = false
}

/* Enter K into P: in the bucket, or in a line that is filled before it is linked. */
inline enter()
{
	if
	:: slot[0] == FREE -> slot[0] = K
	:: slot[0] == K || (chained && slot[1] == K) -> skip
	:: else ->
		d_step { owned = true; slot[1] = K };
		MAY_DIE;
		chained = true
	fi
}

inline in_order()
{
	atomic {
		assert(!top && !changed);
		assert(level[P] == count && (count == 1 || level[T] == 2) && (count == 2 || level[T] == 0));
		assert((count == 2 && slot[2] == K && slot[0] != K && !(chained && slot[1] == K)) ||
		       (count == 1 && (slot[0] == K || (chained && slot[1] == K)) &&
			!(slot[0] == K && chained && slot[1] == K)));
		assert(owned == chained)
	}
}

proctype writer()
{
	byte left = OPERATIONS;

	do
	:: in_order();
		if
		:: left == 0 -> break
		:: left > 0 -> left--
		fi;
		if
		:: slot[0] == FREE -> slot[0] = FILLER
		:: slot[0] == FILLER -> slot[0] = FREE; MAY_DIE; tidy()
		:: count == 1 ->
			top = true; MAY_DIE;
#ifdef PUBLISH_FIRST
			level[T] = 2; count = 2; MAY_DIE;
#endif
			slot[2] = FREE; MAY_DIE;
			slot[2] = K; MAY_DIE;
			BUMP(T); MAY_DIE;
			level[T] = 2; MAY_DIE;
			count = 2; MAY_DIE;
			settle()
		:: count == 2 ->
			top = true; MAY_DIE;
			enter(); MAY_DIE;
			BUMP(P); MAY_DIE;
#ifdef LEVEL_LATE
			count = 1; MAY_DIE;
			level[P] = 1; MAY_DIE;
#else
			level[P] = 1; MAY_DIE;
			count = 1; MAY_DIE;
#endif
			settle()
		fi
	od;
	goto ended;

dead:
	/* Nobody need come: the lock stays with the dead until somebody wants it. */
	if
	:: true -> goto ended
	:: true
	fi;
#ifdef NO_REPAIR
	d_step { top = false; changed = false };
	in_order();
	goto ended;
#endif
	/* A line that is owned and not in the chain; a copy whose original is still there; the rest. */
	if
	:: owned && !chained -> BUMP(P); d_step { owned = false; slot[1] = FREE }
	:: else
	fi;
	if
	:: changed && chained && slot[0] == K && slot[1] == K -> BUMP(P); slot[1] = FREE
	:: else
	fi;
	if
	:: changed -> tidy()
	:: else
	fi;
	if
	:: top -> settle()
	:: else
	fi;
	in_order();
ended:
	resting = true
}

init
{
	d_step { slot[0] = K; level[P] = 1 };
	atomic { run reader(); run writer() }
}

#ifdef LIVENESS
ltl ends { (<> [] resting) -> ([] <> idle) }
#endif
