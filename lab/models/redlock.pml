/*
 * One lock on a majority of independent servers, with the ballot as the token.
 *
 * CLIENTS clients make one attempt each on NODES servers. A client proposes a ballot, whatever its clock says, and sends
 * it to all; each request arrives at any later time, once or never, and its answer may be lost. A node accepts when its key
 * is free or overdue and the ballot is greater than any it accepted before. With answers from a majority, before its
 * deadline, the client holds and its ballot is the token. It releases everywhere; a release may be lost on any node.
 * With REJOIN a holder sends its request once more to every node, as a renewal does; a node that has forgotten it takes
 * it in again if nobody else is there.
 * With RETRY a node that refuses a request names its ballot, and client 0 asks all of them once more, with a greater
 * one than it was told. It gives the first round back; that, too, arrives at any later time or never, as do requests of the
 * first round. Only votes for the ballot of the present round count.
 *
 * A node lets a key go only after the deadline of its client, which counts from before the first request was sent. With
 * AMNESIA a node restarts up to RESTARTS times and has forgotten key and ballot. QUARANTINE: it then refuses everybody
 * until every attempt that ran at that time is over. CLOCK_FLOOR: its ballot then starts from its clock, which is not
 * behind the ballots given before. FORGETS: a free node forgets its ballot when its clock has passed it, and takes the clock
 * for it when it is asked next.
 *
 * Properties
 *   claims_compatible  at most one client holds before its deadline
 *   token_grows        a holder's token is greater than every earlier holder's (not asked with EXCLUSION_ONLY)
 *
 * Each of these makes the design wrong in one place and must break the property named:
 *   LATE_CLOCK           the deadline counts from the last reply, so a key may expire earlier  claims_compatible
 *   COUNTS_ANSWERS       two replies of one node count as two votes                            claims_compatible
 *   AMNESIA              a restarted node votes at once                                        claims_compatible, token_grows
 *   AMNESIA, QUARANTINE  ... after the quarantine, but its ballots restart                     token_grows
 *   COUNTS_OLD_BALLOTS   a vote for the first round counts for the second                      claims_compatible
 *   FORGETS_SOON         a free node forgets a ballot that its clock has not passed            token_grows
 *   COUNTER              each node has a counter; the token is the greatest in the majority    token_grows (3 clients)
 *
 * Long because it is one state machine: whoever changes a step should see them all.
 */
#ifndef NODES
#define NODES 3
#endif
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef RESTARTS
#define RESTARTS 1
#endif
#ifndef BALLOTS
#define BALLOTS 3
#endif
#define MAJORITY (NODES / 2 + 1)

/* The nodes. */
byte owner[NODES];              /* client + 1; 0: free */
byte ballot[NODES];             /* the greatest it accepted */
byte quarantine[NODES];         /* the attempts it waits for, a bit for each client */

/* The clients. */
mtype = { Idle, Asking, Holding, Finished };
mtype state[CLIENTS];
bool late[CLIENTS];             /* its deadline has passed */
byte token[CLIENTS];
byte votes[CLIENTS];            /* nodes that said yes, a bit for each */
byte answers[CLIENTS];
byte on_the_way[CLIENTS];       /* nodes its request has not reached, a bit for each */
bool rejoined[CLIENTS];
#ifdef RETRY
byte told[CLIENTS];             /* the greatest ballot a refusal named */
byte first[CLIENTS];            /* ballot of its first round; 0: this is the first */
byte before[CLIENTS];           /* nodes that a request of the first round has not reached */
byte returning[CLIENTS];        /* nodes that have not heard that the first round is given back */
#endif

byte highest;                   /* ballot proposed so far: what a node's clock is not behind */
byte newest;                    /* token of the newest holder */
byte restarts;
byte i;                         /* scratch, zero between steps */
bool claims_compatible = true, token_grows = true;

#define OVER(c) (late[c] || state[c] == Finished)
#define HAS(mask, bit) (((mask) >> (bit)) & 1)
#define NODES_IN(m) (HAS(m, 0) + HAS(m, 1) + HAS(m, 2) + HAS(m, 3) + HAS(m, 4))
#ifdef LATE_CLOCK
#define MAY_EXPIRE(n) true
#else
#define MAY_EXPIRE(n) OVER(owner[n] - 1)
#endif
#ifdef COUNTS_ANSWERS
#define WON(c) (answers[c] >= MAJORITY)
#else
#define WON(c) (NODES_IN(votes[c]) >= MAJORITY)
#endif
#ifdef COUNTER
#define ACCEPTS(n, c) true
#else
#define ACCEPTS(n, c) (token[c] > ballot[n])
#endif
/* Does the vote that node n gave to client c count in the present round? */
#if defined(RETRY) && !defined(COUNTS_OLD_BALLOTS)
#define COUNTS(n, c) (ballot[n] == token[c])
#else
#define COUNTS(n, c) true
#endif
#define AWAITS(n, c) (HAS(quarantine[n], c) && !OVER(c))
#define RUNS(c) (state[c] != Idle && !OVER(c) -> 1 : 0)
#if CLIENTS > 2
#define QUARANTINED(n) (AWAITS(n, 0) || AWAITS(n, 1) || AWAITS(n, 2))
#define RUNNING (RUNS(0) + 2 * RUNS(1) + 4 * RUNS(2))
#else
#define QUARANTINED(n) (AWAITS(n, 0) || AWAITS(n, 1))
#define RUNNING (RUNS(0) + 2 * RUNS(1))
#endif

inline vote(c, n) {
  if
  :: state[c] == Asking -> votes[c] = votes[c] | (1 << n)
#ifdef COUNTS_ANSWERS
     ; answers[c]++
#endif
  :: state[c] != Asking
  :: true -> printf("the answer of node %d to client %d is lost\n", n, c)
  fi
}

/* A request of client c arrives at node n. */
inline arrive(c, n) {
  on_the_way[c] = on_the_way[c] & ~(1 << n);
  if
  :: owner[n] != 0 && owner[n] != c + 1 && MAY_EXPIRE(n) ->
     printf("node %d lets the key of client %d go\n", n, owner[n] - 1); owner[n] = 0
  :: true
  fi;
  if
  :: quarantine[n] != 0 && !QUARANTINED(n) -> quarantine[n] = 0
  :: else
  fi;
  if
  :: owner[n] == c + 1 -> if :: COUNTS(n, c) -> vote(c, n) :: else fi
  :: owner[n] == 0 && quarantine[n] == 0 && (ACCEPTS(n, c) || (state[c] == Holding && token[c] >= ballot[n])) ->
     owner[n] = c + 1;
#ifdef COUNTER
     ballot[n]++;
     if :: ballot[n] > token[c] && state[c] == Asking -> token[c] = ballot[n] :: else -> skip fi;
#else
     ballot[n] = token[c];
#endif
     printf("node %d accepts client %d, ballot %d\n", n, c, ballot[n]);
     vote(c, n)
#ifdef COUNTS_ANSWERS
     ; vote(c, n)
#endif
#ifdef RETRY
  :: c == 0 && state[c] == Asking && first[c] == 0 && quarantine[n] == 0 && owner[n] != c + 1 && (owner[n] != 0 || token[c] <= ballot[n]) ->
     if :: ballot[n] > told[c] -> told[c] = ballot[n] :: true fi
#endif
  :: else
  fi
}

#ifdef RETRY
/* What is left of the first round of client c arrives at node n. */
inline arrive_late(c, n) {
  if
  :: HAS(before[c], n) -> before[c] = before[c] & ~(1 << n);
     if
     :: owner[n] == 0 && quarantine[n] == 0 && first[c] > ballot[n] -> owner[n] = c + 1; ballot[n] = first[c];
        printf("node %d accepts the first round of client %d\n", n, c)
     :: else
     fi
  :: HAS(returning[c], n) -> returning[c] = returning[c] & ~(1 << n);
     if
     :: owner[n] == c + 1 && ballot[n] == first[c] -> owner[n] = 0; printf("node %d takes back the vote of client %d\n", n, c)
     :: else
     fi
  fi
}
#define ARRIVE_LATE(n) :: atomic { n < NODES && HAS(before[c] | returning[c], n) -> arrive_late(c, n) }
#else
#define ARRIVE_LATE(n)
#endif

#define ARRIVE(n) :: atomic { n < NODES && HAS(on_the_way[c], n) -> arrive(c, n) }

proctype Requests(byte c) {
end:
  do
  ARRIVE(0) ARRIVE_LATE(0)
  ARRIVE(1) ARRIVE_LATE(1)
  ARRIVE(2) ARRIVE_LATE(2)
#if NODES > 3
  ARRIVE(3) ARRIVE_LATE(3)
  ARRIVE(4) ARRIVE_LATE(4)
#endif
  od
}

inline hold(c) {
  d_step {
    state[c] = Holding; votes[c] = 0; answers[c] = 0;
    printf("client %d holds, token %d\n", c, token[c]);
    do
    :: i < CLIENTS -> claims_compatible = claims_compatible && (i == c || state[i] != Holding || late[i]); i++
    :: else -> break
    od;
    i = 0;
    assert(claims_compatible);
#ifndef EXCLUSION_ONLY
    token_grows = token[c] > newest; assert(token_grows);
#endif
    newest = token[c]
  }
}

inline release_everywhere(c) {
  printf("client %d releases\n", c);
  do
  :: i == NODES -> break
  :: i < NODES && owner[i] == c + 1 -> owner[i] = 0; i++
  :: i < NODES -> i++                                       /* free, somebody else's, or the release is lost */
  od;
  i = 0
}

proctype Client(byte c) {
  atomic {
#ifndef COUNTER
    select(i : 1 .. BALLOTS);
    token[c] = i; i = 0;
    if :: token[c] > highest -> highest = token[c] :: else -> skip fi;
#endif
    on_the_way[c] = (1 << NODES) - 1; state[c] = Asking;
    printf("client %d asks, ballot %d\n", c, token[c])
  }
end:
  do
  :: atomic { state[c] == Asking && WON(c) && !late[c] -> hold(c) }
#ifdef RETRY
  :: atomic { c == 0 && state[c] == Asking && !late[c] && first[c] == 0 && told[c] >= token[c] ->
       first[c] = token[c]; before[c] = on_the_way[c]; returning[c] = (1 << NODES) - 1;
       token[c] = told[c] + 1; told[c] = 0; votes[c] = 0; on_the_way[c] = (1 << NODES) - 1;
       if :: token[c] > highest -> highest = token[c] :: else -> skip fi;
       printf("client %d asks again, ballot %d\n", c, token[c]) }
#endif
#ifdef REJOIN
  :: atomic { state[c] == Holding && !late[c] && !rejoined[c] -> rejoined[c] = true; on_the_way[c] = (1 << NODES) - 1 }
#endif
  :: atomic { state[c] == Holding -> state[c] = Finished; release_everywhere(c) }
  :: atomic { state[c] != Finished && !late[c] -> late[c] = true; votes[c] = 0; answers[c] = 0;
       printf("the deadline of client %d passes\n", c) }
  od
}

#ifdef AMNESIA
#define RESTART(n) \
  :: atomic { n < NODES && restarts < RESTARTS -> restarts++; owner[n] = 0; ballot[n] = FLOOR; quarantine[n] = QUARANTINE_MASK; \
       printf("node %d restarts and has forgotten\n", n) }
#ifdef CLOCK_FLOOR
#define FLOOR highest
#else
#define FLOOR 0
#endif
#ifdef QUARANTINE
#define QUARANTINE_MASK RUNNING
#else
#define QUARANTINE_MASK 0
#endif

proctype Restarts() {
end:
  do
  RESTART(0)
  RESTART(1)
  RESTART(2)
#if NODES > 3
  RESTART(3)
  RESTART(4)
#endif
  od
}
#endif

#if defined(FORGETS) || defined(FORGETS_SOON)
#ifdef FORGETS_SOON
#define CLOCK(n) 0
#else
#define CLOCK(n) highest
#endif
#define FORGET(n) :: atomic { n < NODES && owner[n] == 0 && ballot[n] != CLOCK(n) -> ballot[n] = CLOCK(n); printf("node %d forgets\n", n) }
proctype Forgetting() {
end:
  do
  FORGET(0)
  FORGET(1)
  FORGET(2)
#if NODES > 3
  FORGET(3)
  FORGET(4)
#endif
  od
}
#endif

init {
  atomic {
    do :: i < CLIENTS -> state[i] = Idle; i++ :: else -> break od;
    i = 0;
    run Client(0); run Requests(0); run Client(1); run Requests(1);
#if CLIENTS > 2
    run Client(2); run Requests(2);
#endif
#ifdef AMNESIA
    run Restarts();
#endif
#if defined(FORGETS) || defined(FORGETS_SOON)
    run Forgetting();
#endif
    skip
  }
}
