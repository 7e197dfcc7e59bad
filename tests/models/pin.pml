/* SPDX-License-Identifier: PostgreSQL */
/*
 * tests/models/pin.pml - pins, claims and deaths in the pool: one page that lives in one of two
 * buffers or in storage only, two participants that fix it in every mode, one that writes it back and
 * evicts it, one that takes back what the dead have left. Memory is always there; what makes it go is in
 * pool.pml.
 *
 * A participant's pins are entries in a slot of its own. The entry of a PIN fix is a plain store: it
 * waits in the store buffer (`late`) until the hardware gets round to it, the participant makes a
 * locked instruction, or somebody else's membarrier() forces it out. So a claim that wants nobody to
 * pin the buffer is made first, then comes the barrier, and then the entries are looked at; who
 * stores an entry looks at the state word afterwards. Entries of READ and WRITE fixes are out at once.
 *
 * Safety, by assertions:
 *   pinned     a page that is fixed stays in its buffer
 *   exclusion  who holds it for writing is alone with it but for PIN fixes; no reader sees half a change
 *   durable    a page is not read from storage while its newest content is only in a buffer, unless
 *              somebody died who had claimed it for writing
 *   one        a valid buffer that nobody claims is the one that the lookup table names
 *
 * Faults that the model must find:
 *   -DNO_BARRIER    no membarrier() between the claim and the look at the entries
 *   -DNO_WAIT       a writer does not wait for the readers that came before it
 *   -DEARLY_CLEAN   the dirty flag is cleared when the write begins
 *   -DEARLY_SLOT    the slot of a dead participant is free before its claims are taken back
 *
 * Left out: the lookup table is one atomic variable (lookup.pml), the version in the state word, which
 * stands for a second look at the key, other pages (a buffer that was given to another page is as
 * invalid as a free one), failed transfers (the same steps as a death while loading or writing), and
 * a reaper that dies: all of its steps can be repeated.
 */
#define PARTICIPANTS 2
#define EVICTOR PARTICIPANTS
#define SLOTS 3
#define BUFFERS 2
#define NOWHERE BUFFERS
#ifndef DEATHS
#define DEATHS 1
#endif

#define FREE 0
#define LOADING 1
#define VALID 2
#define TORN 3 /* its writer died: to be dropped as soon as nobody has it pinned */

#define NONE 0
#define PIN 1
#define READ 2
#define WRITE 3

/* The state word of each buffer. */
byte state[BUFFERS];
byte owner[BUFFERS]; /* slot + 1; 0 = nobody */
byte claim[BUFFERS]; /* what for */
#define LOAD 1
#define CHANGE 2
#define EVICT 3
bool dirty[BUFFERS];
bool bias[BUFFERS]; /* there may be READ entries */

byte where = NOWHERE; /* the lookup table's entry for the page */

/* The slots. entry: buffer + 1, as everybody sees it. */
byte entry[SLOTS];
byte mode[SLOTS];
byte late[SLOTS]; /* the same, on its way out */
bool taken[SLOTS];
bool dead[SLOTS];
bool kill[SLOTS];

/* What is true, whoever knows it. */
bool unsaved;	  /* the newest content is not in storage */
bool changing;	  /* half of a change is made */
bool overtaken;	  /* the page was changed after the write in flight began */
byte held[SLOTS]; /* mode in which the page is fixed */
byte deaths;

inline flush(q)
{
	if
	:: late[q] != 0 -> entry[q] = late[q]; mode[q] = PIN; late[q] = 0
	:: else
	fi
}

inline barrier()
{
#ifndef NO_BARRIER
	atomic { flush(0); flush(1) }
#else
	skip
#endif
}

inline enter(b, m)
{
	entry[me] = b + 1;
	mode[me] = m;
	late[me] = 0
}

inline clear_entry()
{
	entry[me] = 0;
	mode[me] = NONE;
	late[me] = 0
}

inline make_free(b)
{
	state[b] = FREE;
	owner[b] = 0;
	claim[b] = NONE;
	dirty[b] = false;
	bias[b] = false
}

#define idle(b) (state[b] == VALID && owner[b] == 0)
#define resident(b) (state[b] == VALID && claim[b] != EVICT) /* for PIN: a writer is no hindrance */

/* A fixed page: it is there, and nobody changes it who must not. */
inline use(b)
{
	assert(where == b && (state[b] == VALID || state[b] == TORN));
	assert(held[me] != READ || !changing);
	assert(held[me] != WRITE || ((me == 0 || held[0] <= PIN) && (me == 1 || held[1] <= PIN) &&
				     (me == 2 || held[2] <= PIN)))
}

inline unfix()
{
	atomic { held[me] = NONE; clear_entry() }
}

/* READ, also of the flusher: b is set, ok says whether it is fixed. */
inline fix_read()
{
	ok = false;
	if
	:: atomic { idle(b) -> bias[b] = true };
		atomic { enter(b, READ) };
		atomic {
			if
			:: idle(b) && bias[b] && where == b -> held[me] = READ; ok = true
			:: else -> clear_entry()
			fi
		}
	:: atomic { !idle(b) -> skip }
	fi
}

/* One READ entry after the other; an entry that comes later finds the claim and goes away again. */
inline wait_for_readers()
{
#ifndef NO_WAIT
	(me == 0 || !(entry[0] == b + 1 && mode[0] == READ));
	(me == 1 || !(entry[1] == b + 1 && mode[1] == READ));
	(me == 2 || !(entry[2] == b + 1 && mode[2] == READ));
#endif
	bias[b] = false
}

inline fix_write()
{
	ok = false;
	if
	:: atomic { idle(b) && where == b -> /* the key is compared under the entry */
			enter(b, WRITE);
			owner[b] = me + 1;
			claim[b] = CHANGE
		};
		if
		:: bias[b] -> wait_for_readers()
		:: else
		fi;
		held[me] = WRITE;
		ok = true
	:: atomic { !(idle(b) && where == b) -> skip }
	fi
}

inline load()
{
	if
	:: atomic { state[0] == FREE -> b = 0 }
	:: atomic { state[1] == FREE -> b = 1 }
	:: atomic { state[0] != FREE && state[1] != FREE -> goto again }
	fi;
	atomic {
		if
		:: state[b] == FREE && owner[b] == 0 ->
			state[b] = LOADING; owner[b] = me + 1; claim[b] = LOAD;
			enter(b, WRITE)
		:: else -> goto again
		fi
	};
	atomic {
		if
		:: where == NOWHERE -> where = b
		:: else -> make_free(b); clear_entry(); goto again /* another was quicker */
		fi
	};
	assert(!unsaved);
	atomic { state[b] = VALID; owner[b] = 0; claim[b] = NONE; held[me] = PIN; mode[me] = PIN }
}

proctype participant(byte me)
{
	byte b;
	bool ok;

again:
	{
		do
		:: where == NOWHERE ->
			load();
			use(b);
			unfix()
		:: atomic { where != NOWHERE -> b = where };
			if
			:: late[me] = b + 1; /* PIN: a plain store */
				atomic {
					if
					:: resident(b) && where == b -> held[me] = PIN
					:: else -> clear_entry(); goto again
					fi
				};
				use(b);
				unfix()
			:: fix_read();
				if
				:: ok -> use(b); unfix()
				:: else
				fi
			:: fix_write();
				if
				:: ok ->
					use(b);
					if
					:: dirty[b] = true;
						atomic { use(b); changing = true; unsaved = true; overtaken = true };
						atomic { use(b); changing = false }
					:: true
					fi;
					atomic { held[me] = NONE; owner[b] = 0; claim[b] = NONE };
					clear_entry()
				:: else
				fi
			fi
		od
	} unless {
		atomic { kill[me] -> flush(me); dead[me] = true; held[me] = NONE; b = 0; ok = false };
		atomic { !taken[me] -> taken[me] = true; kill[me] = false; dead[me] = false }
		/* another participant, in the same slot */
		goto again
	}
}

/* Writes the page back and evicts it, again and again. */
proctype evictor(byte me)
{
	byte b;
	bool ok;

again:
	{
		do
		:: atomic { where != NOWHERE && state[where] == VALID && dirty[where] -> b = where };
			fix_read();
			if
			:: ok ->
				assert(dirty[b]); /* nobody else cleans */
				overtaken = false;
#ifdef EARLY_CLEAN
				dirty[b] = false;
#endif
				atomic {
					use(b);
					if
					:: !overtaken -> unsaved = false
					:: else
					fi
				};
#ifndef EARLY_CLEAN
				dirty[b] = false;
#endif
				unfix()
			:: else
			fi
		:: atomic { where != NOWHERE && owner[where] == 0 &&
				(state[where] == TORN || (state[where] == VALID && !dirty[where])) ->
				b = where;
				owner[b] = me + 1;
				claim[b] = EVICT
			};
			barrier();
			if
			:: entry[0] == b + 1 -> ok = false
			:: else -> ok = true
			fi;
			if
			:: entry[1] == b + 1 -> ok = false
			:: else
			fi;
			if
			:: ok ->
				atomic {
					where = NOWHERE;
					if
					:: state[b] == TORN -> unsaved = false; changing = false /* lost */
					:: else
					fi
				};
				atomic { make_free(b) }
			:: else -> atomic { owner[b] = 0; claim[b] = NONE }
			fi
		od
	} unless {
		atomic { kill[me] -> dead[me] = true; held[me] = NONE; b = 0; ok = false };
		atomic { !taken[me] -> taken[me] = true; kill[me] = false; dead[me] = false };
		goto again
	}
}

inline take_back(b)
{
	atomic {
		if
		:: owner[b] == q + 1 && claim[b] == CHANGE ->
			state[b] = TORN; owner[b] = 0; claim[b] = NONE
		:: owner[b] == q + 1 && claim[b] == EVICT && where == b ->
			owner[b] = 0; claim[b] = NONE
		:: owner[b] == q + 1 && claim[b] == EVICT && where != b -> make_free(b)
		:: owner[b] == q + 1 && claim[b] == LOAD ->
			where = (where == b -> NOWHERE : where);
			make_free(b)
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
			:: taken[0] && dead[0] -> q = 0
			:: taken[1] && dead[1] -> q = 1
			:: taken[2] && dead[2] -> q = 2
			fi
		};
#ifdef EARLY_SLOT
		taken[q] = false;
#endif
		take_back(0);
		take_back(1);
		atomic { entry[q] = 0; mode[q] = NONE };
#ifndef EARLY_SLOT
		taken[q] = false;
#endif
		q = 0
	od
}

/* Store buffers, and death. */
active proctype world()
{
	atomic {
		taken[0] = true; taken[1] = true; taken[EVICTOR] = true;
		run participant(0);
		run participant(1);
		run evictor(EVICTOR)
	};
end:
	do
	:: atomic { late[0] != 0 -> flush(0) }
	:: atomic { late[1] != 0 -> flush(1) }
	:: atomic { deaths < DEATHS ->
			if
			:: taken[0] && !dead[0] -> kill[0] = true
			:: taken[1] && !dead[1] -> kill[1] = true
			:: taken[2] && !dead[2] -> kill[2] = true
			fi;
			deaths++
		}
	:: atomic { idle(0) && where != 0 -> assert(false) }
	:: atomic { idle(1) && where != 1 -> assert(false) }
	od
}
