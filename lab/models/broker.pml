/*
 * One machine, no server: the lock is kept by a broker in one of the processes, and the broker may die.
 *
 * CLIENTS processes make K attempts each for one exclusive lock. Two hosts are ready to be the broker. Whoever binds the
 * name is it; the kernel gives the name to one at a time, closes the connections of a process that dies and frees its
 * name. What was written to a connection is still read by the other end; what the broker had not read dies with it.
 * The broker keeps its table in memory and a journal in a file. The page cache survives every process, so an append that
 * was made stays. Each line of a broker below is one step, and it may die between any two:
 *   CRASHES   the broker dies (its host's own lock or not, the journal stays)
 *   DEATHS    a client dies
 *   REUSES    a new process, which has nothing to do with us, gets the number of a dead client
 *   CANCELS   a waiting client gives up
 *
 * The rules (the journal knows process number, start time, attempt and token of the holder):
 *   append before the answer; load the journal after the name is bound; a holder that lives, told by number and start
 *   time, holds until it connects and says otherwise, or dies; a client tells a new broker what it has and what it waits
 *   for, with the place it had; a release that was not answered is told again.
 *
 * Properties
 *   claims_compatible  at most one client that lives believes it holds
 *   token_grows        each holder's token is greater than every earlier holder's, whatever broker gave it
 *   nobody_passed_over among those that wait with this broker the one that was first told its place is next
 *   no deadlock        every client that lives gets the lock or cancels, and goes
 *   served             client 0, if it does not die, does not wait for ever (weak fairness)
 *
 * Each of these makes the design wrong in one place and must break the property named:
 *   JOURNAL_AFTER_REPLY  the grant is sent first and journalled afterwards                        claims_compatible
 *   IGNORES_JOURNAL      a new broker starts with an empty table                                  claims_compatible
 *   LIVE_IS_DEAD         a new broker frees holds that their live clients have not confirmed yet  claims_compatible
 *   LOAD_BEFORE_BIND     the journal is loaded before the name is bound                           claims_compatible
 *   TWO_BROKERS          the name does not exclude a second broker                                claims_compatible
 *   TOKENS_START_AGAIN   a new broker restarts the token count                                    token_grows
 *   OWNER_IS_PROCESS     the journal names the process, not the attempt                           token_grows
 *   NEW_PLACES           a new broker gives returning waiters new positions                       nobody_passed_over
 *   PID_ONLY             a process counts as alive by its pid alone                               no deadlock, served
 *   RELEASE_TOLD_ONCE    an unacknowledged release is not resent                                  no deadlock
 *
 * Long because it is one state machine: whoever changes a step should see them all.
 */
#ifndef CLIENTS
#define CLIENTS 3
#endif
#ifndef K
#define K 1
#endif
#ifndef CRASHES
#define CRASHES 2
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef REUSES
#define REUSES 1
#endif
#ifndef CANCELS
#define CANCELS 0
#endif
#define HOSTS 2

mtype = { Idle, Waiting, Holding, Dead };                                 /* a client */
mtype = { Candidate, Loading, Serving, GrantAppend, GrantSend, ReleaseAppend, ReleaseSend };   /* a broker */
mtype = { wants, holds, nothing };                                        /* client to broker */
mtype = { granted, released };                                            /* broker to client */

/* The kernel. */
byte bound;                       /* the host that has the name, plus 1 */
byte epoch;                       /* counts binds */
byte epoch_of[HOSTS];             /* 0: not the broker */
byte connected[CLIENTS];          /* to the broker of this epoch; 0: not */
bool reused[CLIENTS];
chan up[CLIENTS] = [4] of { mtype, byte, byte };
chan down[CLIENTS] = [4] of { mtype, byte, byte };

/* The journal. */
byte journal_owner, journal_attempt, journal_token, journal_top;

/* The broker's table, one for each host. Owner is client + 1. */
mtype phase[HOSTS];
byte owner[HOSTS], owner_attempt[HOSTS], owner_token[HOSTS], top[HOSTS];
bool unconfirmed[HOSTS];          /* the owner is known from the journal only */
bool loaded_early[HOSTS];
byte about[HOSTS];                /* the client the present step is about */
byte tell[HOSTS];                 /* the attempt whose end it wants confirmed; 0: none */
byte place[HOSTS * CLIENTS];      /* place of each client that waits here; 0: does not wait here */
byte waiting_attempt[HOSTS * CLIENTS];

/* The clients. */
mtype state[CLIENTS];
byte attempt[CLIENTS], token[CLIENTS], told_place[CLIENTS];
byte owes[CLIENTS];               /* the attempt whose end no broker has confirmed yet */

byte crashes, deaths, reuses, cancels;
byte clock;                       /* places come from the wall clock, so those of a new broker are later */
byte newest;                      /* the greatest token a holder was given so far */
byte i, best;                     /* scratch, zero between steps */
bool claims_compatible = true, token_grows = true, nobody_passed_over = true;

#define AT(b, c) ((b) * CLIENTS + (c))
#define ALIVE(c) (state[c] != Dead)
#ifdef LIVE_IS_DEAD
#define LOOKS_ALIVE(c) false
#else
#ifdef PID_ONLY
#define LOOKS_ALIVE(c) (ALIVE(c) || reused[c])
#else
#define LOOKS_ALIVE(c) ALIVE(c)
#endif
#endif
#ifdef OWNER_IS_PROCESS
#define OWNS(b, c, a) (owner[b] == (c) + 1)
#else
#define OWNS(b, c, a) (owner[b] == (c) + 1 && owner_attempt[b] == (a))
#endif

/* ---- the broker ---- */

inline load(b) {
#ifndef IGNORES_JOURNAL
  owner[b] = journal_owner; owner_attempt[b] = journal_attempt; owner_token[b] = journal_token;
  unconfirmed[b] = journal_owner != 0;
#endif
#ifndef TOKENS_START_AGAIN
  top[b] = journal_top;
#endif
  if
  :: journal_owner != 0 -> printf("host %d loads the journal: client %d holds, token %d\n", b, journal_owner - 1, journal_token)
  :: else -> printf("host %d loads the journal: nobody holds\n", b)
  fi
}

inline forget_table(b) {
  d_step {
    owner[b] = 0; owner_attempt[b] = 0; owner_token[b] = 0; top[b] = 0; unconfirmed[b] = false;
    about[b] = 0; tell[b] = 0; loaded_early[b] = false;
    do :: i < CLIENTS -> place[AT(b, i)] = 0; waiting_attempt[AT(b, i)] = 0; i++ :: else -> break od;
    i = 0
  }
}

inline begin_release(b, c, answer) {
  about[b] = c; tell[b] = answer; phase[b] = ReleaseAppend
}

inline stop_waiting(b, c) { place[AT(b, c)] = 0; waiting_attempt[AT(b, c)] = 0 }

inline receive(b, c, kind, a, what) {
  if
  :: kind == wants ->
     if
     :: OWNS(b, c, a) ->                                     /* granted before, but it did not hear of it */
        unconfirmed[b] = false; owner_attempt[b] = a; about[b] = c; phase[b] = GrantSend
     :: else ->
        waiting_attempt[AT(b, c)] = a;
        if
#ifndef NEW_PLACES
        :: what != 0 -> place[AT(b, c)] = what
        :: what == 0 ->
#else
        :: true ->
#endif
           clock++; place[AT(b, c)] = clock;
           if
           :: state[c] == Waiting && attempt[c] == a && told_place[c] == 0 -> told_place[c] = clock
           :: else
           fi
        fi;
        printf("client %d waits, place %d\n", c, place[AT(b, c)])
     fi
  :: kind == holds ->
     if
     :: OWNS(b, c, a) -> unconfirmed[b] = false
     :: else                                                 /* the journal is the truth: it would be told that it lost */
     fi
  :: kind == nothing ->
     if :: waiting_attempt[AT(b, c)] == a -> stop_waiting(b, c) :: else -> skip fi;
     if
     :: OWNS(b, c, a) -> begin_release(b, c, a)
     :: else -> about[b] = c; tell[b] = a; phase[b] = ReleaseSend
     fi
  fi
}

#if CLIENTS > 2
#define SOME_WAIT(b) (place[AT(b, 0)] != 0 || place[AT(b, 1)] != 0 || place[AT(b, 2)] != 0)
#else
#define SOME_WAIT(b) (place[AT(b, 0)] != 0 || place[AT(b, 1)] != 0)
#endif

/* Who of those that wait here has the first place, plus 1. */
inline first_in_line(b) {
  d_step {
    best = 0;
    do
    :: i == CLIENTS -> break
    :: i < CLIENTS && place[AT(b, i)] != 0 && (best == 0 || place[AT(b, i)] < place[AT(b, best - 1)]) -> best = i + 1; i++
    :: else -> i++
    od;
    i = 0
  }
}

inline check_place(b, c) {
  d_step {
    do
    :: i == CLIENTS -> break
    :: i < CLIENTS && place[AT(b, i)] != 0 && told_place[i] != 0 && told_place[i] < told_place[c] ->
       nobody_passed_over = false; i++
    :: else -> i++
    od;
    i = 0;
    if :: !nobody_passed_over -> printf("client %d is next, before one that was told an earlier place\n", c) :: else -> skip fi;
    assert(nobody_passed_over)
  }
}

/* What this broker has not read from client c goes with it. */
inline lose_unread(c) {
  if
  :: connected[c] == epoch_of[b] ->
     do :: up[c]?_, _, _ :: empty(up[c]) -> break od;
     if :: !ALIVE(c) -> connected[c] = 0 :: else -> skip fi
  :: else
  fi
}

#define HEAR(c) \
  :: atomic { phase[b] == Serving && c < CLIENTS && connected[c] == epoch_of[b] && len(up[c]) > 0 -> \
       up[c]?kind, a, what; receive(b, c, kind, a, what); kind = 0; a = 0; what = 0 } \
  :: atomic { phase[b] == Serving && c < CLIENTS && connected[c] == epoch_of[b] && len(up[c]) == 0 && !ALIVE(c) -> \
       connected[c] = 0; stop_waiting(b, c); printf("the connection of client %d closes\n", c); \
       if :: owner[b] == c + 1 -> begin_release(b, c, 0) :: else -> skip fi }

proctype Broker(byte b) {
  mtype kind;
  byte a, what;
end_broker:
  do
#ifdef LOAD_BEFORE_BIND
  :: atomic { phase[b] == Candidate && bound == 0 && !loaded_early[b] -> loaded_early[b] = true; load(b) }
  :: atomic { phase[b] == Candidate && bound == 0 && loaded_early[b] ->
       bound = b + 1; epoch++; epoch_of[b] = epoch; phase[b] = Serving; printf("host %d is the broker\n", b) }
#else
#ifdef TWO_BROKERS
  :: atomic { phase[b] == Candidate ->
#else
  :: atomic { phase[b] == Candidate && bound == 0 ->
#endif
       bound = b + 1; epoch++; epoch_of[b] = epoch; phase[b] = Loading; printf("host %d is the broker\n", b) }
  :: atomic { phase[b] == Loading -> load(b); phase[b] = Serving }
#endif
  HEAR(0)
  HEAR(1)
#if CLIENTS > 2
  HEAR(2)
#endif
  :: atomic { phase[b] == Serving && unconfirmed[b] && !LOOKS_ALIVE(owner[b] - 1) ->
       printf("host %d finds that client %d is gone\n", b, owner[b] - 1); begin_release(b, owner[b] - 1, 0) }
  :: atomic { phase[b] == Serving && owner[b] == 0 && SOME_WAIT(b) ->
       first_in_line(b); about[b] = best - 1; best = 0; check_place(b, about[b]);
       top[b]++; owner[b] = about[b] + 1; owner_attempt[b] = waiting_attempt[AT(b, about[b])]; owner_token[b] = top[b];
       stop_waiting(b, about[b]);
#ifdef JOURNAL_AFTER_REPLY
       phase[b] = GrantSend }
#else
       phase[b] = GrantAppend }
#endif
  :: atomic { phase[b] == GrantAppend ->
       journal_owner = owner[b]; journal_attempt = owner_attempt[b]; journal_token = owner_token[b]; journal_top = top[b];
       printf("journal: client %d holds, token %d\n", about[b], owner_token[b]);
#ifdef JOURNAL_AFTER_REPLY
       about[b] = 0; phase[b] = Serving }
#else
       phase[b] = GrantSend }
#endif
  :: atomic { phase[b] == GrantSend ->
       if
       :: connected[about[b]] == epoch_of[b] -> down[about[b]]!granted, owner_attempt[b], owner_token[b]
       :: else
       fi;
#ifdef JOURNAL_AFTER_REPLY
       phase[b] = GrantAppend }
#else
       about[b] = 0; phase[b] = Serving }
#endif
  :: atomic { phase[b] == ReleaseAppend ->
       owner[b] = 0; owner_attempt[b] = 0; owner_token[b] = 0; unconfirmed[b] = false;
       journal_owner = 0; journal_attempt = 0; journal_token = 0;
       printf("journal: nobody holds\n"); phase[b] = ReleaseSend }
  :: atomic { phase[b] == ReleaseSend ->
       if
       :: tell[b] != 0 && connected[about[b]] == epoch_of[b] -> down[about[b]]!released, tell[b], 0
       :: else
       fi;
       about[b] = 0; tell[b] = 0; phase[b] = Serving }
  :: atomic { phase[b] != Candidate && crashes < CRASHES -> crashes++; printf("the broker dies, host %d\n", b);
       if :: bound == b + 1 -> bound = 0 :: else -> skip fi;
       lose_unread(0); lose_unread(1);
#if CLIENTS > 2
       lose_unread(2);
#endif
       epoch_of[b] = 0; phase[b] = Candidate; forget_table(b) }
  od
}

/* ---- a client ---- */

#define NEEDS_BROKER(c) (state[c] == Waiting || state[c] == Holding || owes[c] != 0)
#define BROKER_LIVES(c) (connected[c] == epoch_of[0] || connected[c] == epoch_of[1])

inline say(c, kind, a, what) {
  if
  :: connected[c] != 0 && BROKER_LIVES(c) -> up[c]!kind, a, what
  :: else
  fi
}

inline connect_to(c, b) {
  connected[c] = epoch_of[b];
#ifdef OWNER_IS_PROCESS
  if :: owes[c] != 0 && state[c] == Idle -> up[c]!nothing, owes[c], 0 :: else -> owes[c] = 0 fi;
#else
  if :: owes[c] != 0 -> up[c]!nothing, owes[c], 0 :: else -> skip fi;
#endif
  if
  :: state[c] == Waiting -> up[c]!wants, attempt[c], told_place[c]
  :: state[c] == Holding -> up[c]!holds, attempt[c], token[c]
  :: else
  fi
}

/* Done with its attempt. The claim ends now; a broker has to learn of it, this one or the next. */
inline leave(c) {
  state[c] = Idle; token[c] = 0; told_place[c] = 0;
#ifdef RELEASE_TOLD_ONCE
  if :: connected[c] != 0 && BROKER_LIVES(c) -> owes[c] = attempt[c] :: else -> skip fi;
#else
  owes[c] = attempt[c];
#endif
  say(c, nothing, attempt[c], 0)
}

proctype Client(byte c) {
  mtype kind;
  byte a, t;
  do
  :: atomic { state[c] == Idle && attempt[c] < K -> attempt[c]++; state[c] = Waiting;
       printf("client %d asks, attempt %d\n", c, attempt[c]); say(c, wants, attempt[c], 0) }
  :: atomic { connected[c] == 0 && NEEDS_BROKER(c) && epoch_of[0] != 0 -> connect_to(c, 0) }
  :: atomic { connected[c] == 0 && NEEDS_BROKER(c) && epoch_of[1] != 0 -> connect_to(c, 1) }
  :: atomic { connected[c] != 0 && !BROKER_LIVES(c) && len(down[c]) == 0 -> connected[c] = 0;
#ifdef RELEASE_TOLD_ONCE
       owes[c] = 0
#endif
     }
  :: atomic { down[c]?kind, a, t ->
       if
       :: kind == granted && state[c] == Waiting && a == attempt[c] ->
          d_step {
            state[c] = Holding; token[c] = t; told_place[c] = 0;
            printf("client %d holds, token %d\n", c, t);
            do
            :: i < CLIENTS -> claims_compatible = claims_compatible && (i == c || state[i] != Holding); i++
            :: else -> break
            od;
            i = 0;
            assert(claims_compatible);
            token_grows = t > newest; assert(token_grows); newest = t
          }
       :: kind == released && owes[c] == a -> owes[c] = 0
       :: else                                               /* granted while it was leaving: the broker will hear */
       fi;
       kind = 0; a = 0; t = 0 }
  :: atomic { state[c] == Waiting && owes[c] == 0 && cancels < CANCELS -> cancels++; printf("client %d cancels\n", c); leave(c) }
  :: atomic { state[c] == Holding && owes[c] == 0 -> printf("client %d releases\n", c); leave(c) }
  :: atomic { state[c] != Dead && deaths < DEATHS && c != 0 -> deaths++; state[c] = Dead; printf("client %d dies\n", c);
       attempt[c] = 0; token[c] = 0; told_place[c] = 0; owes[c] = 0;
       do :: down[c]?_, _, _ :: empty(down[c]) -> break od;
       if :: connected[c] != 0 && !BROKER_LIVES(c) -> connected[c] = 0 :: else -> skip fi }
  :: atomic { state[c] == Dead && reuses < REUSES && !reused[c] -> reuses++; reused[c] = true;
       printf("another process gets the number of client %d\n", c) }
  :: state[c] == Dead -> break
  :: state[c] == Idle && attempt[c] == K && owes[c] == 0 -> break
  od
}

init {
  atomic {
    do :: i < CLIENTS -> state[i] = Idle; i++ :: else -> break od;
    i = 0;
    phase[0] = Candidate; phase[1] = Candidate;
    run Broker(0); run Broker(1);
    run Client(0); run Client(1);
#if CLIENTS > 2
    run Client(2)
#endif
  }
}

ltl served { [] (state[0] == Waiting -> <> (state[0] != Waiting)) }
