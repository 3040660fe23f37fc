/*
 * A lock that is handed from its holder straight to the next in the queue, on one server, in every mode.
 *
 * N clients make K attempts each. The server runs one script at a time, so a script is one atomic step here. Around it
 * everything may go wrong, as often as the bounds allow:
 *   FAULTS    an answer or a push is lost, a request is lost, a waiter cannot be reached for a moment
 *   CRASHES   a client dies while it waits or holds
 *   EXPIRIES  the deadline of a live client passes; that of a dead or absent one passes without limit
 *   STRAYS    a request comes again, or only after its client has given up
 *   FORGERIES somebody who can read everything at the server and write nothing sends a push about any attempt to any client
 * A write leaves its client while the claim is valid and reaches the storage at any later time.
 *
 * A push only says that it is time to ask: the answer makes a holder.
 *
 * Time has no numbers. Each grant goes through stages: proven, over for the client, over for the server. That the client's
 * deadline comes first is an assumption here; it is what deadlines counted from before the request left are for.
 *
 * All attempts are exclusive; with READERS_WRITERS each may be shared instead, and a writer may become a reader; with
 * PERMITS each may be for one or two of LIMIT permits.
 *
 * Properties
 *   claims_compatible    claims that clients may rely on at the same time are allowed beside each other
 *   write_in_order       no write arrives at the storage after one with a greater token (asked only without a guard)
 *   valid_write_accepted the guard never refuses the write of a client whose claim is still valid
 *   nobody_passed_over   the line is first come, first served, but for those who could not be reached
 *   ended_stays_ended    an attempt that was released or cancelled is never granted again
 *   no deadlock          no reachable state in which a client waits and nothing can happen
 *   served               client 0, which neither dies nor cancels, does not wait for ever (weak fairness)
 *
 * Each of these makes the design wrong in one place and must break the property named:
 *   RECEIPT_CLOCK      the client counts its lease from the arrival of the push            claims_compatible
 *   BELIEVES_PUSH      the push makes a holder                                             claims_compatible
 *   DECLINES           a push for an attempt unknown to the client ends that attempt       claims_compatible
 *   CLAIM_UNTIL_REPLY  the claim ends at the reply to the release, not before it           claims_compatible
 *   LATE_DOWNGRADE     a writer that downgrades keeps writing until the reply              claims_compatible
 *   OWNER_IS_CLIENT    the owner is the client, not the attempt (a release is sent twice)  claims_compatible
 *   PERMITS_BY_COUNT   a release adds permits instead of ending one hold                   claims_compatible
 *   NO_GUARD           the storage does not check the token                                write_in_order
 *   COUNTER_LOST       the server forgets its token counter while the lock is free         valid_write_accepted
 *   BARGING            a newcomer that fits does not queue                                 nobody_passed_over
 *   NO_TOMBSTONE       the server does not remember ended attempts                         ended_stays_ended
 *   NO_POLL            the waiter polls only when it is notified                           no deadlock
 *   POLL_KEEPS_PLACE   a poll only checks for its own grant and never serves the queue     served
 *   QUEUES_AGAIN       an acquire that was granted and is resent queues behind itself      served
 *   NO_EXPIRY          the server never expires a hold                                     served
 * A push for an attempt that is over is ignored: it costs one lease.
 *
 * Long because it is one state machine: whoever changes a step should see them all.
 */
#ifndef N
#define N 3
#endif
#ifndef K
#define K 1
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
#ifndef STRAYS
#define STRAYS 0
#endif
#ifndef FORGERIES
#define FORGERIES 0
#endif
#ifndef LIMIT
#define LIMIT 2
#endif
#define ATTEMPTS (N * K)
#define CLIENT(a) ((a) / K)

mtype = { exclusive, shared, one_permit, two_permits };          /* what an attempt asks for */
#define TAKES(a) (mode[a] == two_permits -> 2 : 1)
#define OF_PERMITS(a) (mode[a] == one_permit || mode[a] == two_permits)

mtype = { Idle, Waiting, Holding, Lowering, Leaving, Dead };
mtype = { acquire_again, release_again };

/* The server. */
chan line = [ATTEMPTS] of { byte };
bool held[ATTEMPTS];
bool ended[ATTEMPTS];         /* released or cancelled */
byte token[ATTEMPTS];         /* of the newest grant to this attempt */
mtype mode[ATTEMPTS];
byte last_token;
bool writer;                  /* what `held` adds up to */
byte readers, taken;

/* How far the deadline of the newest grant to this attempt is. */
#define PROVEN          0
#define OVER_FOR_CLIENT 1
#define OVER            2
byte stage[ATTEMPTS];

/* The clients. */
mtype state[N];
byte current[N];              /* the attempt it is making, plus 1; 0: none */
byte mine[N];                 /* the token it was told */
chan push[N] = [K + 2] of { byte, byte };
#ifdef RECEIPT_CLOCK
bool blind[N];                /* it counts from the arrival of the push, so it sees no deadline in time */
#define IN_TIME(c) (blind[c] || stage[current[c] - 1] == PROVEN)
#else
#define IN_TIME(c) (stage[current[c] - 1] == PROVEN)
#endif
#define MAY_CLAIM(c) (state[c] == Holding || state[c] == Lowering)
#define VALID(c) (MAY_CLAIM(c) && token[current[c] - 1] == mine[c] && IN_TIME(c))
#define UNKNOWN(a) (state[CLIENT(a)] == Dead || current[CLIENT(a)] != (a) + 1)

/* The storage the lock protects. */
byte newest_seen;

/* Requests still in flight when their client has moved on. */
chan stray = [STRAYS + 1] of { mtype, byte };

byte faults, crashes, expiries, strays;
#if FORGERIES > 0
byte forgeries;
#endif

/* Scratch, zero between steps. */
byte asker, i, left, who, unreached;
bool open;
byte writers_, readers_, permits_;

/* The properties, one variable each, so that a failed assertion says its name. */
bool claims_compatible = true, write_in_order = true, valid_write_accepted = true;
bool nobody_passed_over = true, ended_stays_ended = true;

#define FITS(a) (!writer && (mode[a] == exclusive -> readers == 0 && taken == 0 : \
                            (mode[a] == shared -> taken == 0 : readers == 0 && taken + TAKES(a) <= LIMIT)))

inline count_in(a) {
  if
  :: mode[a] == exclusive -> writer = true
  :: mode[a] == shared -> readers++
  :: else -> taken = taken + TAKES(a)
  fi
}

inline count_out(a) {
  if
  :: mode[a] == exclusive -> writer = false
  :: mode[a] == shared -> readers--
  :: else -> taken = taken - TAKES(a)
  fi
}

inline grant(a) {
  d_step {
    ended_stays_ended = !ended[a]; assert(ended_stays_ended);
    count_in(a);
    held[a] = true;
    last_token++;
    token[a] = last_token;
    stage[a] = PROVEN;
    printf("the server grants attempt %d, token %d\n", a, last_token)
  }
}

inline send_push(a) {
  if
  :: nfull(push[CLIENT(a)]) -> push[CLIENT(a)]!a, token[a]
  :: faults < FAULTS -> faults++; printf("the push to attempt %d is lost\n", a)
  :: full(push[CLIENT(a)]) && faults == FAULTS -> assert(false)     /* the bound of the channel was too small */
  fi
}

/* Lets in the line from its head for as long as it fits. One that cannot be reached keeps its place. */
inline admit() {
  left = len(line); open = true;
  do
  :: left == 0 -> break
  :: else ->
     left--; line?who;
     if
     :: !open || !FITS(who) -> open = false; line!who
     :: open && FITS(who) ->
        nobody_passed_over = len(line) - left == unreached; assert(nobody_passed_over);
        if
        :: who + 1 == asker -> grant(who)                      /* the answer tells it */
        :: who + 1 != asker && state[CLIENT(who)] == Dead ->   /* the push counts no receiver */
           printf("attempt %d is dead and leaves the line\n", who)
        :: who + 1 != asker && (state[CLIENT(who)] != Dead || faults < FAULTS) ->
           if                                                  /* a frozen process still counts as a receiver */
           :: state[CLIENT(who)] == Dead -> faults++
           :: else
           fi;
           grant(who); send_push(who)
        :: who + 1 != asker && state[CLIENT(who)] != Dead && faults < FAULTS ->
           faults++; unreached++; line!who; printf("attempt %d cannot be reached\n", who)
        fi
     fi
  od;
  who = 0; open = false; unreached = 0
}

inline drop(a) { held[a] = false; count_out(a) }

inline drop_overdue() {
#ifndef NO_EXPIRY
  d_step {
    do
    :: i == ATTEMPTS -> break
    :: i < ATTEMPTS && held[i] && stage[i] == OVER -> drop(i); printf("the hold of attempt %d has expired\n", i); i++
    :: else -> i++
    od;
    i = 0
  }
#endif
  skip
}

inline check_claims() {
  d_step {
    do
    :: i == N -> break
    :: i < N && !VALID(i) -> i++
    :: i < N && VALID(i) ->
       if
#ifdef LATE_DOWNGRADE
       :: mode[current[i] - 1] == exclusive || state[i] == Lowering -> writers_++
#else
       :: mode[current[i] - 1] == exclusive && state[i] == Lowering -> readers_++
       :: mode[current[i] - 1] == exclusive && state[i] != Lowering -> writers_++
#endif
       :: mode[current[i] - 1] == shared && state[i] != Lowering -> readers_++
       :: OF_PERMITS(current[i] - 1) -> permits_ = permits_ + TAKES(current[i] - 1)
       fi;
       i++
    od;
    claims_compatible = (writers_ == 0 && (readers_ == 0 || permits_ == 0) && permits_ <= LIMIT) ||
                        (writers_ == 1 && readers_ == 0 && permits_ == 0);
    assert(claims_compatible);
    i = 0; writers_ = 0; readers_ = 0; permits_ = 0
  }
}

inline enter(c, t) {
  mine[c] = t; state[c] = Holding;
  printf("client %d holds, token %d\n", c, t);
  check_claims()
}

/* Enqueue, poll and repeat are the same script. */
inline acquire_script(a) {
  if
#ifndef NO_TOMBSTONE
  :: ended[a] -> printf("attempt %d has ended, its late acquire is refused\n", a)
  :: !ended[a] ->
#else
  :: true ->
#endif
     drop_overdue();
     asker = a + 1;
#ifdef POLL_KEEPS_PLACE
     if :: held[a] || line??[eval(a)] -> skip :: else -> line!a; admit() fi;
#else
#ifdef BARGING
     if
     :: !held[a] && !(line??[eval(a)]) && FITS(a) ->
        nobody_passed_over = len(line) == 0; printf("attempt %d does not stand in line\n", a); assert(nobody_passed_over);
        grant(a)
     :: else
     fi;
#endif
     if :: held[a] || line??[eval(a)] -> skip :: else -> line!a fi;
     admit();
#endif
     asker = 0
  fi
}

/* Told by attempt, so it may come twice and may come late. */
inline release_script(a) {
  drop_overdue();
#ifdef OWNER_IS_CLIENT
  if :: current[CLIENT(a)] != 0 && held[current[CLIENT(a)] - 1] -> drop(current[CLIENT(a)] - 1) :: else -> skip fi;
#endif
  if
  :: held[a] -> drop(a); ended[a] = true
#ifdef PERMITS_BY_COUNT
  :: !held[a] && ended[a] && OF_PERMITS(a) && taken >= TAKES(a) -> taken = taken - TAKES(a)
  :: !held[a] && !(ended[a] && OF_PERMITS(a) && taken >= TAKES(a)) -> ended[a] = true
#else
  :: !held[a] -> ended[a] = true
#endif
  fi;
  if :: line??[eval(a)] -> line??eval(a) :: else -> skip fi;
  stage[a] = PROVEN; token[a] = 0;
  admit()
}

/* One client releases what another asked for, and may hold by now: its own token and deadline are left as they are. */
inline decline(a) {
  drop_overdue();
  ended[a] = true;
  if :: held[a] -> drop(a) :: else -> skip fi;
  if :: line??[eval(a)] -> line??eval(a) :: else -> skip fi;
  admit()
}

/* The client is done with its attempt: its request arrives, is lost, or arrives and comes once more later. */
inline give_up(c, a) {
  current[c] = 0; mine[c] = 0; state[c] = Idle;
  if
  :: release_script(a)
  :: faults < FAULTS -> faults++; printf("the release of attempt %d is lost\n", a)
  :: strays < STRAYS -> strays++; stray!release_again, a; release_script(a)
  fi
}

inline choose_mode(c, a) {
  if
  :: mode[a] = exclusive; printf("client %d asks, attempt %d\n", c, a)
#ifdef READERS_WRITERS
  :: mode[a] = shared; printf("client %d asks to share, attempt %d\n", c, a)
#endif
#ifdef PERMITS
  :: mode[a] = one_permit; printf("client %d asks for one permit, attempt %d\n", c, a)
  :: mode[a] = two_permits; printf("client %d asks for two permits, attempt %d\n", c, a)
#endif
  fi
}

inline ask_once(c, a) {
  acquire_script(a);
  if
  :: held[a] -> stage[a] = PROVEN;                        /* granted now or before: proven again, same token */
     if
     :: enter(c, token[a])
     :: faults < FAULTS -> faults++; printf("the answer to attempt %d is lost\n", a)
     fi
  :: else -> printf("attempt %d waits\n", a)
  fi
}

inline ask(c, a) {
#ifdef QUEUES_AGAIN
  if
  :: held[a] && stage[a] != OVER ->
     printf("attempt %d stands behind itself\n", a);
     if :: line??[eval(a)] -> skip :: else -> line!a fi
  :: else -> ask_once(c, a)
  fi
#else
  ask_once(c, a)
#endif
}

/* Who knows the store may have sent it: the client asks. */
inline hear(c, a, t) {
  if
  :: state[c] == Waiting && current[c] == a + 1 ->
#ifdef RECEIPT_CLOCK
     blind[c] = true; enter(c, t)
#else
#ifdef BELIEVES_PUSH
     enter(c, t)
#else
     ask(c, a)
#endif
#endif
#ifdef DECLINES
  :: current[c] != a + 1 -> printf("client %d has not got attempt %d and declines\n", c, a); decline(a)
#endif
  :: else                                               /* over, or a second notice of the grant it has */
  fi
}

proctype Client(byte c) {
  byte tries, a, t;
  bool writing;
  do
  :: atomic { state[c] == Idle && tries < K ->
       current[c] = c * K + tries + 1; tries++; state[c] = Waiting;
       a = current[c] - 1; choose_mode(c, a); ask(c, a); a = 0 }
#ifndef NO_POLL
  :: atomic { state[c] == Waiting -> a = current[c] - 1; ask(c, a); a = 0 }
#endif
  :: atomic { push[c]?a, t -> hear(c, a, t); a = 0; t = 0 }
#if FORGERIES > 0
  :: atomic { forgeries < FORGERIES && state[c] != Dead -> forgeries++;
       do :: a < ATTEMPTS - 1 -> a++ :: break od;
       printf("client %d is told of attempt %d, and it is a lie\n", c, a);
       t = token[a]; hear(c, a, t); a = 0; t = 0 }
#endif
  :: atomic { state[c] == Waiting && c != 0 -> a = current[c] - 1; printf("client %d cancels attempt %d\n", c, a);
       if
       :: strays < STRAYS -> strays++; stray!acquire_again, a
       :: true
       fi;
       give_up(c, a); a = 0 }
  :: atomic { VALID(c) && !writing && state[c] == Holding -> writing = true }   /* checked, and then the write leaves */
  :: atomic { writing -> writing = false;
       if
       :: mode[current[c] - 1] == exclusive ->
          printf("the write of client %d arrives with token %d\n", c, mine[c]);
#ifdef NO_GUARD
          write_in_order = mine[c] >= newest_seen; assert(write_in_order); newest_seen = mine[c]
#else
          if
          :: mine[c] >= newest_seen -> newest_seen = mine[c]
          :: else -> valid_write_accepted = !VALID(c); assert(valid_write_accepted)
          fi
#endif
       :: else ->                                         /* a reader only shows its token */
          if :: mine[c] > newest_seen -> newest_seen = mine[c] :: else -> skip fi
       fi;
       state[c] = Leaving }
#ifdef READERS_WRITERS
  :: atomic { state[c] == Holding && !writing && mode[current[c] - 1] == exclusive -> state[c] = Lowering }
  :: atomic { state[c] == Lowering -> a = current[c] - 1; state[c] = Holding;
       if
       :: held[a] && mode[a] == exclusive ->
#ifdef LATE_DOWNGRADE
          state[c] = Lowering;
#endif
          count_out(a); mode[a] = shared; count_in(a); printf("client %d is a reader now\n", c); drop_overdue(); admit()
       :: else -> mode[a] = shared
       fi; a = 0 }
#endif
#ifdef CLAIM_UNTIL_REPLY
  :: atomic { VALID(c) && !writing && !ended[current[c] - 1] -> a = current[c] - 1; t = token[a];
       printf("client %d releases attempt %d and claims it until the answer comes\n", c, a);
       release_script(a); token[a] = t; t = 0; a = 0 }
  :: atomic { state[c] == Holding && !writing && ended[current[c] - 1] -> state[c] = Idle; current[c] = 0; mine[c] = 0 }
#else
  :: atomic { state[c] == Holding && !writing -> state[c] = Leaving }           /* the claim ends before the request */
#endif
  :: atomic { state[c] == Leaving -> a = current[c] - 1; printf("client %d releases attempt %d\n", c, a); give_up(c, a); a = 0 }
  :: atomic { (state[c] == Waiting || state[c] == Holding) && !writing && crashes < CRASHES && c != 0 ->
       crashes++; state[c] = Dead; mine[c] = 0; printf("client %d dies\n", c);
       do :: push[c]?_, _ :: empty(push[c]) -> break od }
  :: state[c] == Dead -> break
  :: atomic { state[c] == Idle && tries == K && empty(push[c]) -> goto done }
  od;
  goto gone;
done:
end_done:
  atomic { push[c]?_, _ -> goto done };
gone:
  skip
}

/* Deadlines pass: without limit where nobody proves the grant again. */
#define TICK(a) \
  :: atomic { a < ATTEMPTS && held[a] && stage[a] == PROVEN && UNKNOWN(a) -> stage[a] = OVER_FOR_CLIENT } \
  :: atomic { a < ATTEMPTS && held[a] && stage[a] == PROVEN && !UNKNOWN(a) && expiries < EXPIRIES -> expiries++; \
       stage[a] = OVER_FOR_CLIENT; printf("the deadline of attempt %d passes for its client\n", a) } \
  :: atomic { a < ATTEMPTS && held[a] && stage[a] == OVER_FOR_CLIENT -> stage[a] = OVER }

proctype Clock() {
#ifdef COUNTER_LOST
  bool lost;
#endif
end:
  do
  TICK(0)
#if ATTEMPTS > 1
  TICK(1)
#endif
#if ATTEMPTS > 2
  TICK(2)
#endif
#if ATTEMPTS > 3
  TICK(3)
#endif
#ifdef COUNTER_LOST
  :: atomic { !lost && last_token > 0 && !writer && readers == 0 && taken == 0 -> lost = true; last_token = 0;
       printf("the server forgets its counter\n") }
#endif
  od
}

#if STRAYS > 0
proctype Network() {
  byte a;
end:
  do
  :: atomic { stray?acquire_again, a -> printf("a late acquire of attempt %d arrives\n", a); acquire_script(a); a = 0 }
  :: atomic { stray?release_again, a -> printf("the release of attempt %d arrives again\n", a); release_script(a); a = 0 }
  od
}
#endif

init {
  atomic {
    do
    :: i < N -> state[i] = Idle; run Client(i); i++
    :: else -> break
    od;
    i = 0;
    run Clock();
#if STRAYS > 0
    run Network()
#endif
  }
}

ltl served { [] (state[0] == Waiting -> <> (state[0] != Waiting)) }
