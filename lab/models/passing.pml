/*
 * Passing a lock on inside a process, and when it must go back to the store.
 *
 * Two processes share one exclusive lock: HERE requests are made in process 0, THERE in process 1, each once. A process
 * keeps one line for its requests and has at most one turn in the store's line (src/core/local-queue.ts). An exclusive grant
 * comes with RESERVE more tokens; whoever leaves may pass the lock to the next local request with the next of them, and
 * a release tells the store the last token used. While others wait in the store, at most PASSES passes follow each other.
 *
 * Requests to the store and its answers travel in order and take any time. What may go wrong, as often as bounds allow:
 *   FAULTS    a release is lost
 *   CRASHES   process 1 dies
 *   EXPIRIES  the deadline of a live process passes; that of a dead process or of a lost release passes without limit
 *   CANCELS   a request is cancelled, wherever it is
 * Deadlines have stages as in handoff.pml. The holder learns of waiters in the store at any time after they came.
 *
 * Properties
 *   claims_compatible  at most one valid claim in both processes together
 *   token_grows        each holder's token is greater than that of every earlier holder, passed on or not
 *   bypass_bounded     once it is known that others wait, a grant is passed on at most PASSES times
 *   no deadlock        every request ends: it had the lock, was cancelled, or died with its process
 *   served             the last request of process 0, which is not cancelled, does not wait for ever (weak fairness)
 *
 * Each of these makes the design wrong in one place and must break the property named:
 *   PASS_AND_RELEASE       the lock is passed on and released as well                            claims_compatible
 *   PASS_UNPROVEN          the lock is passed on without checking its deadline                   token_grows
 *   FORGETS_PASSES         a release reports the token of the grant, not the last one passed on  token_grows
 *   LATE_RELEASE_COUNTS    the store takes the last token from a release that arrives too late   token_grows
 *   PASS_BEYOND_RESERVE    the process keeps counting when its reserve is used up                token_grows
 *   COUNT_STARTS_AGAIN     each new holder restarts the count of passes                          bypass_bounded
 *   NO_TURN_AFTER_LOSS     after a loss the next request does not ask the store                  no deadlock, served
 *   NO_TURN_AFTER_CANCEL   after a cancelled turn the next request does not ask the store        no deadlock
 *   KEEPS_ABANDONED_GRANT  a grant for an abandoned turn is not released                         no deadlock (without expiry)
 *
 * Long because it is one state machine: whoever changes a step should see them all.
 */
#ifndef HERE
#define HERE 3
#endif
#ifndef THERE
#define THERE 1
#endif
#ifndef PASSES
#define PASSES 1
#endif
#ifndef RESERVE
#define RESERVE 2
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef EXPIRIES
#define EXPIRIES 1
#endif
#ifndef CANCELS
#define CANCELS 1
#endif
#define REQUESTS (HERE + THERE)
#define HOME(r) ((r) < HERE -> 0 : 1)
#define GRANTS 12
#define PATIENT (HERE - 1)

mtype = { acquire, release, cancel };
mtype = { Idle, Queued, Holding, Done };

/* The wires. A request is kind, attempt, last token used; an answer is attempt, number of the grant, token. */
chan to_store[2] = [6] of { mtype, byte, byte };
chan answer[2] = [6] of { byte, byte, byte };

/* The store: one row. An attempt is known by its process and number. */
chan line = [6] of { byte, byte };
byte owner;                     /* process + 1; 0: free */
byte owner_attempt, owner_token;
byte top;                       /* the greatest token minted or reserved */
byte grants;
bool server_over;               /* the owner's deadline has passed for the store too */

bool over[GRANTS];              /* the deadline of this grant has passed for its process */
bool orphaned;                  /* nobody proves the owner's grant any more */

/* The processes. */
chan queue[2] = [REQUESTS] of { byte };
byte attempts[2];
byte turn[2];                   /* attempt that stands in the store's line for this process; 0: none */
byte turn_owner[2];             /* the request it is for, plus 1 */
byte holder[2];                 /* the request that holds, plus 1 */
byte held_attempt[2], held_grant[2], held_token[2], held_last[2];
byte passes[2];
bool contended[2];              /* as last heard */
bool dead;                      /* process 1 */
mtype state[REQUESTS];

byte faults, crashes, expiries, cancels;
byte newest;                    /* the greatest token a holder was given so far */
byte bypassed;                  /* passes of the present grant while it was known that others wait */

byte next_, n_, a_, heir_;      /* scratch, zero between steps */
bool claims_compatible = true, token_grows = true, bypass_bounded = true;

#define VALID(p) (holder[p] != 0 && !over[held_grant[p]])

/* ---- the store ---- */

inline grant(p, a) {
  d_step {
    owner = p + 1; owner_attempt = a; owner_token = top + 1; top = owner_token + RESERVE;
    server_over = false; orphaned = (p == 1 && dead);
    grants++; assert(grants < GRANTS);
    bypassed = 0;
    printf("the store grants process %d attempt %d, token %d to %d\n", p, a, owner_token, top)
  }
  answer[p]!a, grants, owner_token
}

inline admit() {
  if
  :: owner == 0 && len(line) > 0 -> line?next_, a_; grant(next_, a_); next_ = 0; a_ = 0
  :: else
  fi
}

inline let_go() {
  owner = 0; owner_attempt = 0; owner_token = 0; server_over = false; orphaned = false
}

inline look() {
  if
  :: owner != 0 && server_over -> printf("the hold of process %d has expired\n", owner - 1); let_go(); admit()
  :: else
  fi
}

inline serve(p, kind, a, last) {
  look();
  if
  :: kind == acquire ->
     if
     :: owner == 0 && len(line) == 0 -> grant(p, a)
     :: else -> line!p, a; printf("process %d stands in the store's line, attempt %d\n", p, a)
     fi
  :: kind != acquire && owner == p + 1 && owner_attempt == a ->
     top = (kind == cancel -> owner_token : last);              /* the rest of the reserve is free again */
     let_go(); printf("process %d gives attempt %d back, last token %d\n", p, a, last); admit()
  :: kind != acquire && !(owner == p + 1 && owner_attempt == a) ->
#ifdef LATE_RELEASE_COUNTS
     if :: kind == release -> top = last :: else -> skip fi;
#endif
     if :: line??[eval(p), eval(a)] -> line??eval(p), eval(a) :: else -> skip fi
  fi
}

proctype Store() {
  mtype kind;
  byte a, last;
end:
  do
  :: atomic { to_store[0]?kind, a, last -> serve(0, kind, a, last); kind = 0; a = 0; last = 0 }
  :: atomic { to_store[1]?kind, a, last -> serve(1, kind, a, last); kind = 0; a = 0; last = 0 }
  :: atomic { server_over && len(line) > 0 -> look() }                       /* the head of the line asks again */
  :: atomic { owner != 0 && contended[owner - 1] != (len(line) > 0) -> contended[owner - 1] = (len(line) > 0);
       if
       :: contended[owner - 1] -> printf("process %d hears that others wait\n", owner - 1)
       :: else -> printf("process %d hears that nobody waits any more\n", owner - 1)
       fi }
  :: atomic { owner != 0 && !over[grants] && orphaned -> over[grants] = true }
  :: atomic { owner != 0 && !over[grants] && !orphaned && expiries < EXPIRIES -> expiries++; over[grants] = true;
       printf("the deadline of attempt %d passes for process %d\n", owner_attempt, owner - 1) }
  :: atomic { owner != 0 && over[grants] && !server_over -> server_over = true }
  od
}

/* ---- a process: each step is one event of its loop ---- */

inline begin(p, r) {
  attempts[p]++; turn[p] = attempts[p]; turn_owner[p] = r + 1;
  to_store[p]!acquire, turn[p], 0
}

inline pump(p) {
  if
  :: turn[p] == 0 && len(queue[p]) > 0 && !VALID(p) -> queue[p]?heir_; begin(p, heir_); heir_ = 0
  :: else
  fi
}

inline deliver(p, r) {
  d_step {
    holder[p] = r + 1; state[r] = Holding;
    printf("request %d holds in process %d, token %d\n", r, p, held_token[p]);
    claims_compatible = !(VALID(0) && VALID(1)); assert(claims_compatible);
    token_grows = held_token[p] > newest; assert(token_grows);
    newest = held_token[p]
  }
}

inline forget_hold(p) {
  holder[p] = 0; held_attempt[p] = 0; held_grant[p] = 0; held_token[p] = 0; held_last[p] = 0; passes[p] = 0
}

inline send_release(p, a, last) {
  if
  :: to_store[p]!release, a, last
  :: faults < FAULTS -> faults++; printf("the release of attempt %d is lost\n", a);
     if :: owner == p + 1 && owner_attempt == a -> orphaned = true :: else -> skip fi
  fi
}

inline arrived(p, a, g, t) {
  if
  :: a == turn[p] && !over[g] ->
     n_ = turn_owner[p] - 1; turn[p] = 0; turn_owner[p] = 0;
     held_attempt[p] = a; held_grant[p] = g; held_token[p] = t; held_last[p] = t + RESERVE; passes[p] = 0;
     deliver(p, n_); n_ = 0
  :: a == turn[p] && over[g] ->                              /* nothing is left of it: ask again */
     send_release(p, a, t); n_ = turn_owner[p] - 1; begin(p, n_); n_ = 0
  :: a != turn[p] ->
     printf("process %d is given attempt %d, which it had given up\n", p, a);
#ifndef KEEPS_ABANDONED_GRANT
     send_release(p, a, t)
#else
     skip
#endif
  fi;
  pump(p)
}

#ifdef PASS_UNPROVEN
#define PROVEN(p) true
#else
#define PROVEN(p) (!over[held_grant[p]])
#endif
#ifdef PASS_BEYOND_RESERVE
#define HAS_TOKEN(p) true
#else
#define HAS_TOKEN(p) (held_token[p] < held_last[p])
#endif

inline give_away(p) {
  state[holder[p] - 1] = Done;
  if
  :: len(queue[p]) > 0 && PROVEN(p) && HAS_TOKEN(p) && (!contended[p] || passes[p] < PASSES) ->
     if :: contended[p] -> passes[p]++ :: else -> passes[p] = 0 fi;
#ifdef COUNT_STARTS_AGAIN
     passes[p] = 0;
#endif
     if :: contended[p] && len(line) > 0 -> bypassed++ :: else -> bypassed = 0 fi;
     held_token[p]++; queue[p]?heir_; printf("process %d passes the lock on\n", p);
     bypass_bounded = bypassed <= PASSES; assert(bypass_bounded);
#ifdef PASS_AND_RELEASE
     to_store[p]!release, held_attempt[p], held_token[p];
#endif
     deliver(p, heir_); heir_ = 0
  :: else ->
     n_ = held_attempt[p];
#ifdef FORGETS_PASSES
     heir_ = held_last[p] - RESERVE;
#else
     heir_ = held_token[p];
#endif
     forget_hold(p);
     send_release(p, n_, heir_);
     n_ = 0; heir_ = 0;
     pump(p)
  fi
}

inline lose(p) {
  printf("request %d learns that it lost the lock\n", holder[p] - 1);
  state[holder[p] - 1] = Done;
  n_ = held_attempt[p]; heir_ = held_token[p];
  forget_hold(p);
  send_release(p, n_, heir_); n_ = 0; heir_ = 0;
#ifndef NO_TURN_AFTER_LOSS
  pump(p)
#endif
}

/* The caller has gone. Its turn goes to the next request if that one asks for the same, else it is given up. */
inline call_off(p, r) {
  cancels++; state[r] = Done; printf("request %d is cancelled\n", r);
  if
  :: queue[p]??[eval(r)] -> queue[p]??eval(r)
  :: else ->
     if
     :: len(queue[p]) > 0 -> queue[p]?heir_; turn_owner[p] = heir_ + 1; heir_ = 0
     :: n_ = turn[p]; turn[p] = 0; turn_owner[p] = 0;
        if                                                   /* once the answer is here, nothing is left to cancel */
        :: len(answer[p]) == 0 -> to_store[p]!cancel, n_, 0
        :: len(answer[p]) > 0
        fi;
        n_ = 0
     fi
  fi;
#ifndef NO_TURN_AFTER_CANCEL
  pump(p)
#endif
}

#define CANCEL(r) \
  :: atomic { r < REQUESTS && r != PATIENT && HOME(r) == p && state[r] == Queued && cancels < CANCELS -> call_off(p, r) }

proctype Process(byte p; byte first; byte last) {
  byte a, g, t, asked = first;
  do
  :: atomic { asked <= last -> state[asked] = Queued; queue[p]!asked; printf("request %d asks in process %d\n", asked, p);
       asked++; pump(p) }
  :: atomic { answer[p]?a, g, t -> arrived(p, a, g, t); a = 0; g = 0; t = 0 }
  :: atomic { holder[p] != 0 -> give_away(p) }
  :: atomic { holder[p] != 0 && over[held_grant[p]] -> lose(p) }
  CANCEL(0)
  CANCEL(1)
  CANCEL(2)
#if REQUESTS > 3
  CANCEL(3)
#endif
#if REQUESTS > 4
  CANCEL(4)
#endif
#if CRASHES > 0
  :: atomic { p == 1 && crashes < CRASHES -> crashes++; dead = true; printf("process 1 dies\n");
       if :: owner == 2 -> orphaned = true :: else -> skip fi;
       a = first; do :: a <= last -> state[a] = Done; a++ :: else -> break od; a = 0;
       forget_hold(1); turn[1] = 0; turn_owner[1] = 0;
       do :: answer[1]?_, _, _ :: empty(answer[1]) -> break od;
       do :: queue[1]?_ :: empty(queue[1]) -> break od;
       goto gone }
#endif
  :: atomic { asked > last && holder[p] == 0 && turn[p] == 0 && len(queue[p]) == 0 -> goto rest }
  od;
rest:
end_rest:
  atomic { answer[p]?a, g, t -> arrived(p, a, g, t); a = 0; g = 0; t = 0; goto rest };
gone:
  if
  :: dead && p == 1 ->
end_dead:
     atomic { answer[p]?_, _, _ -> goto gone }
  :: else
  fi
}

init {
  atomic {
    a_ = 0;
    do :: a_ < REQUESTS -> state[a_] = Idle; a_++ :: else -> break od;
    a_ = 0;
    run Store();
    run Process(0, 0, HERE - 1);
    run Process(1, HERE, REQUESTS - 1)
  }
}

ltl served { [] (state[PATIENT] == Queued -> <> (state[PATIENT] != Queued)) }
