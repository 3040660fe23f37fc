/*
 * A lock row and a table of waiters in an SQL database.
 *
 * N clients make one attempt each. A transaction takes the lock of the lock row and commits later; what it reads after
 * that is newer than every transaction that had the row before. A release hands the lock to the first fresh waiter in the
 * same transaction and notifies it on commit (or, with NO_HANDOFF, only clears the owner: a database that cannot notify).
 * A waiter asks again now and then, which also keeps its row fresh. What may go wrong, as often as the bounds allow:
 *   FAULTS    the answer to a commit is lost, a notification is lost, a live waiter's row goes stale
 *   CRASHES   a client dies, also inside a transaction, which is then rolled back
 *   EXPIRIES  the deadline of a live client passes; that of a dead or absent one passes without limit
 *   CANCELS   a waiter gives up
 * Deadlines have stages as in handoff.pml: over for the client before it is over by the clock of the database.
 *
 * Properties
 *   claims_compatible  at most one client has a valid claim
 *   token_grows        each holder's token is greater than every earlier holder's
 *   nobody_passed_over a fresh waiter is not passed over by one that came later
 *   no deadlock        no reachable state in which a client waits and nothing can happen. Without faults, crashes and
 *                      expiries this holds with NO_POLL too: nobody is left asleep beside a free lock
 *   served             client 0, which neither dies nor cancels, does not wait for ever (weak fairness)
 *
 * Each of these makes the design wrong in one place and must break the property named:
 *   CLIENT_CLOCK       a client's clock decides whether the lease has expired           claims_compatible
 *   RELAXED_COMMIT     the database replies before the commit is on disk, then crashes  claims_compatible
 *   ROW_DELETED        a release deletes the row, and the token counter with it         token_grows
 *   NO_TICKETS         the first request after a release gets the lock                  nobody_passed_over
 *   NO_POLL            the waiter relies on the notification (with a fault)             no deadlock
 *   ENQUEUE_UNLOCKED   the client reads the row unlocked, then enqueues (NO_POLL)       no deadlock
 *   ONE_SNAPSHOT       a release reads the waiters as they were before it got the
 *                      row's lock, as one statement does at READ COMMITTED (NO_POLL)    no deadlock
 *   ASKS_AS_NEW        after a lost reply the same attempt queues behind itself         served
 *   DEAD_PLACE_BLOCKS  a waiter whose row is stale still goes first                     served
 *
 * Long because it is one state machine: whoever changes a step should see them all.
 */
#ifndef N
#define N 3
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef EXPIRIES
#define EXPIRIES 1
#endif
#ifndef CANCELS
#define CANCELS 1
#endif

mtype = { Idle, Waiting, Holding, Gone, Dead };
mtype = { None, Acquire, Release };

/* The lock row. */
chan row = [N] of { byte };     /* transactions at the row's lock in order of arrival; the first one has it */
byte owner, last_token;         /* owner is client + 1 */
/* The waiters, one row for each client. */
byte ticket[N];                 /* 0: no row */
bool fresh[N];
byte tickets;
#ifdef RELAXED_COMMIT
byte disk_owner, disk_token;
bool crashed;
#endif

#define PROVEN          0
#define OVER_FOR_CLIENT 1
#define OVER            2
byte stage;                     /* of the owner's deadline */
bool over[N];                   /* the deadline of the newest grant to this client has passed for it */

/* The clients. */
mtype state[N];
mtype statement[N];
bool asked[N];                  /* it has its place: the rest is push, or polling */
byte mine[N];
chan notice[N] = [3] of { byte };
byte seen_waiters[N];           /* what a statement read before it had the lock: a bit for each client */
bool seen_busy[N];

byte faults, crashes, expiries, cancels, newest;
byte i, head;                   /* scratch, zero between steps */
bool claims_compatible = true, token_grows = true, nobody_passed_over = true;

#define UNKNOWN(c) (state[c] == Dead || state[c] == Gone)
#define VALID(c) (state[c] == Holding && !over[c])
#ifdef CLIENT_CLOCK
#define OVERDUE(c) (stage == OVER || (c) == 1)        /* the clock of client 1 is fast */
#else
#define OVERDUE(c) (stage == OVER)
#endif
#define FREE(c) (owner == 0 || OVERDUE(c))
#ifdef DEAD_PLACE_BLOCKS
#define COUNTS(c) (ticket[c] != 0)
#else
#define COUNTS(c) (ticket[c] != 0 && fresh[c])
#endif
#ifdef ONE_SNAPSHOT
#define SEEN(c, w) ((seen_waiters[c] >> (w)) & 1)
#else
#define SEEN(c, w) true
#endif

inline set_owner(c) {
  owner = c + 1; last_token++; stage = PROVEN; over[c] = false;
  ticket[c] = 0; fresh[c] = false;
  printf("the row says: client %d, token %d\n", c, last_token)
}

inline clear_owner() {
  owner = 0; stage = PROVEN;
#ifdef ROW_DELETED
  last_token = 0;
#endif
  printf("the row says: free\n")
}

/* The first fresh waiter that client c may see, plus 1. */
inline first_waiter(c) {
  d_step {
    head = 0;
    do
    :: i == N -> break
    :: i < N && COUNTS(i) && SEEN(c, i) && (head == 0 || ticket[i] < ticket[head - 1]) -> head = i + 1; i++
    :: else -> i++
    od;
    i = 0
  }
}

inline check_place(c) {
  d_step {
    do
    :: i == N -> break
    :: i < N && i != c && ticket[i] != 0 && fresh[i] && (ticket[c] == 0 || ticket[i] < ticket[c]) ->
       nobody_passed_over = false; i++
    :: else -> i++
    od;
    i = 0;
    if :: !nobody_passed_over -> printf("the row goes to client %d, before one that came earlier\n", c) :: else -> skip fi;
    assert(nobody_passed_over)
  }
}

inline enter(c) {
  d_step {
    state[c] = Holding; mine[c] = last_token;
    printf("client %d holds, token %d\n", c, mine[c]);
    do :: i < N -> claims_compatible = claims_compatible && (i == c || !VALID(i)); i++ :: else -> break od;
    i = 0;
    assert(claims_compatible);
    token_grows = mine[c] > newest; assert(token_grows); newest = mine[c]
  }
}

inline insert_waiter(c) {
  if
  :: ticket[c] == 0 -> tickets++; ticket[c] = tickets; printf("client %d waits, ticket %d\n", c, tickets)
  :: else
  fi;
  fresh[c] = true
}

inline hear(c) {
  if
  :: enter(c)
  :: faults < FAULTS -> faults++; printf("the answer to client %d is lost\n", c)
  fi
}

/* With the row's lock: take the lock if it is free and nobody fresh came earlier, else wait. The same again changes nothing. */
inline acquire_body(c) {
  asked[c] = true;
  first_waiter(c);
  if
#ifndef ASKS_AS_NEW
  :: owner == c + 1 && !(stage == OVER) -> stage = PROVEN; over[c] = false; hear(c)
  :: !(owner == c + 1 && !(stage == OVER)) &&
#else
  ::
#endif
#ifdef NO_TICKETS
     FREE(c) ->
#else
     FREE(c) && (head == 0 || head == c + 1 || (ticket[c] != 0 && ticket[c] < ticket[head - 1])) ->
#endif
     check_place(c); set_owner(c); hear(c)
  :: else -> insert_waiter(c)
  fi;
  head = 0
}

/* With the row's lock: end the attempt wherever it is; what was held goes to the first fresh waiter. */
inline release_body(c) {
  ticket[c] = 0; fresh[c] = false;
  if
  :: owner == c + 1 ->
#ifndef NO_HANDOFF
     first_waiter(c);
     if
     :: head != 0 && ticket[head - 1] != 0 ->
        set_owner(head - 1);
        if
        :: nfull(notice[head - 1]) -> notice[head - 1]!last_token
        :: faults < FAULTS -> faults++; printf("the notification of client %d is lost\n", head - 1)
        fi
     :: else -> clear_owner()
     fi;
     head = 0
#else
     clear_owner()
#endif
  :: else
  fi
}

inline read_waiters(c) {
  d_step {
    do :: i < N -> seen_waiters[c] = seen_waiters[c] | ((COUNTS(i) -> 1 : 0) << i); i++ :: else -> break od;
    i = 0
  }
}

inline begin(c, what) {
  statement[c] = what;
#ifdef ONE_SNAPSHOT
  if :: what == Release -> read_waiters(c) :: else -> skip fi;
#endif
#ifdef ENQUEUE_UNLOCKED
  if :: what == Acquire && !FREE(c) -> seen_busy[c] = true :: else -> row!c fi
#else
  row!c
#endif
}

inline commit(c) { row?eval(c); statement[c] = None; seen_waiters[c] = 0; seen_busy[c] = false }

#ifdef NO_POLL
#define MAY_ASK(c) (!asked[c])
#else
#define MAY_ASK(c) true
#endif

proctype Client(byte c) {
  byte t;
  bool done;
  do
  :: atomic { state[c] == Idle -> state[c] = Waiting; printf("client %d asks\n", c) }
  :: atomic { state[c] == Waiting && statement[c] == None && MAY_ASK(c) -> begin(c, Acquire) }
#ifdef ENQUEUE_UNLOCKED
  :: atomic { statement[c] == Acquire && seen_busy[c] -> asked[c] = true; insert_waiter(c);
       statement[c] = None; seen_busy[c] = false }
#endif
  :: atomic { row?[eval(c)] && statement[c] == Acquire ->
       if
       :: state[c] == Waiting -> acquire_body(c)
       :: else                                              /* a push was faster */
       fi;
       commit(c) }
  :: atomic { row?[eval(c)] && statement[c] == Release -> release_body(c); commit(c);
       if :: state[c] == Gone && !done -> done = true :: else -> skip fi }
  :: atomic { notice[c]?t ->
       if
       :: state[c] == Waiting && owner == c + 1 && t == last_token && !over[c] -> enter(c)
       :: else -> printf("a notification comes too late for client %d\n", c)
       fi;
       t = 0 }
  :: atomic { state[c] == Waiting && statement[c] == None && c != 0 && cancels < CANCELS -> cancels++; state[c] = Gone;
       printf("client %d cancels\n", c); begin(c, Release) }
  :: atomic { state[c] == Holding && statement[c] == None -> state[c] = Gone; mine[c] = 0;
       printf("client %d releases\n", c); begin(c, Release) }
  :: atomic { (state[c] == Waiting || state[c] == Holding) && crashes < CRASHES && c != 0 ->
       crashes++; state[c] = Dead; mine[c] = 0; printf("client %d dies\n", c);
       if :: row??[eval(c)] -> row??eval(c) :: else -> skip fi;      /* rolled back */
       statement[c] = None; seen_waiters[c] = 0; seen_busy[c] = false; asked[c] = false;
       do :: notice[c]?_ :: empty(notice[c]) -> break od }
  :: state[c] == Dead -> break
  :: done && empty(notice[c]) -> break
  od
}

/* Deadlines pass, rows of waiters go stale: without limit where nobody is there any more. */
#define TICK(c) \
  :: atomic { owner == (c) + 1 && stage == PROVEN && UNKNOWN(c) -> stage = OVER_FOR_CLIENT; over[c] = true } \
  :: atomic { owner == (c) + 1 && stage == PROVEN && !UNKNOWN(c) && expiries < EXPIRIES -> expiries++; \
       stage = OVER_FOR_CLIENT; over[c] = true; printf("the deadline of client %d passes\n", c) } \
  :: atomic { owner == (c) + 1 && stage == OVER_FOR_CLIENT -> stage = OVER } \
  :: atomic { ticket[c] != 0 && fresh[c] && UNKNOWN(c) -> fresh[c] = false } \
  :: atomic { ticket[c] != 0 && fresh[c] && !UNKNOWN(c) && faults < FAULTS -> faults++; fresh[c] = false; \
       printf("the row of client %d goes stale\n", c) }

proctype Clock() {
end:
  do
  TICK(0)
  TICK(1)
#if N > 2
  TICK(2)
#endif
#if N > 3
  TICK(3)
#endif
#ifdef RELAXED_COMMIT
  :: atomic { disk_owner != owner || disk_token != last_token -> disk_owner = owner; disk_token = last_token }
  :: atomic { !crashed && len(row) == 0 -> crashed = true; owner = disk_owner; last_token = disk_token; stage = PROVEN;
       printf("the database crashes and has lost what was not on disk\n") }
#endif
  od
}

init {
  atomic {
    do :: i < N -> state[i] = Idle; statement[i] = None; run Client(i); i++ :: else -> break od;
    i = 0;
    run Clock()
  }
}

ltl served { [] (state[0] == Waiting -> <> (state[0] != Waiting)) }
