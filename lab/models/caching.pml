/*
 * Lock caching (`linger`): a released lock stays with its process, and the next request there asks no store.
 *
 * Two processes share one exclusive lock (src/core/caching.ts). Each makes one request after the other: HERE in process 0, THERE in process 1. A
 * grant comes with RESERVE more tokens. When a process releases and has not learned that others wait, it caches the grant, and its next request
 * takes that with the next token. It releases the grant when it learns that others wait, and when it learns that its connection has broken or that
 * the grant is gone. A single attempt that the store refuses asks once more as a waiter, for as long as it likes.
 *
 * Requests and answers of a process travel in order and take any time, and so does each step of a process. Notifications come by another way.
 * What may go wrong:
 *   FAULTS   all of these together: a notification that others wait is lost · a connection breaks: the notifications on their way are lost, and
 *            others until its process has noticed · a release arrives twice · an operator takes the lock from whoever has it · a process is
 *            frozen past its deadline · the store forgets everything but the tokens · `linger` is over
 *   CRASHES  process 0 dies; the deadline of what it has passes without limit
 * Deadlines have stages as in handoff.pml: a grant is over for its process before it is for the store. A store that has forgotten a grant grants
 * nothing until that grant is over (quarantine.pml). That `linger` ends is a fault, so that no waiter is served only because of it. Left out:
 * the queue inside a process and hand-overs to it (passing.pml), renewals, answers that are lost, waiters that the store drops from its
 * queue, `fair` requests, times in numbers.
 *
 * Properties
 *   claims_compatible   at most one valid claim. A claim taken by force is none; one made after its process could know of that is
 *   token_grows         each holder's token is greater than that of every earlier one
 *   reused_in_time      what is cached is not used once its deadline has passed and the store has ended it
 *   nobody_passed_over  what is cached is not used by a process that has learned that others wait
 *   refused_for_real    no attempt is refused at once by a grant that is only cached
 *   no_place_left       a process that asks for nothing is not in the queue
 *   served              the last request of process 1, which waits, does not wait for ever (weak fairness)
 *
 * Each of these makes the design wrong in one place and must break the property named:
 *   REUSES_RETURNED        a grant is reused after it was returned                              claims_compatible
 *   KEEPS_OVER_RECONNECT   a grant cached over a broken connection is reused over the next one  claims_compatible
 *   NO_QUARANTINE          a store that lost a grant grants the lock again at once              claims_compatible
 *   SAME_TOKEN             a reuse repeats the token of the grant                               token_grows
 *   OLD_RESERVE            a new grant is used with tokens left over from the one before        token_grows
 *   FORGETS_REUSES         a release reports the token of the grant, not the last one used      token_grows
 *   TRUSTS_RELEASE         a release of an earlier grant of the same attempt lowers the token   token_grows
 *   REUSES_BEYOND_RESERVE  the process keeps counting when its reserve is used up               token_grows
 *   REUSES_UNPROVEN        a grant is reused without checking its deadline                      reused_in_time
 *   NEVER_GIVES_WAY        a process keeps its cached grant when it learns that others wait     nobody_passed_over, served
 *   BELIEVES_CACHE         an attempt takes the first refusal of the store as final             refused_for_real
 *   LEAVES_PLACE           an attempt that stops waiting does not cancel its queue entry        no_place_left
 *   TOLD_ONCE              the store notifies the holder of a waiter only once                  served
 *   NO_EXPIRY              the store never expires the cached grant of a dead process           served
 *
 * Long because it is one state machine: whoever changes a step should see them all.
 */
#ifndef HERE
#define HERE 2
#endif
#ifndef THERE
#define THERE 2
#endif
#ifndef RESERVE
#define RESERVE 1
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#define GRANTS 14
#define BIT(g) (1 << (g))

mtype = { acquire, attempt, release, cancel };
mtype = { granted, refused };
mtype = { contended, taken };
mtype = { Idle, Trying, Waiting, Patient, Holding };

/* A request is kind, attempt, last token used; an answer is kind, attempt, number of the grant, token, whether others wait. */
chan to_store[2] = [6] of { mtype, byte, byte };
chan answer[2] = [4] of { mtype, byte, byte, byte, bool };
chan push[2] = [2] of { mtype, byte };

/* The store. */
chan queue = [4] of { byte, byte };
byte owner;                     /* process + 1; 0: free */
byte owner_attempt, owner_token;
byte top;                       /* the greatest token minted or reserved */
byte grants;                    /* also the number of the newest grant */
bool server_over;
bool shut;                      /* it has forgotten the newest grant */
bool down[2];                   /* the connection of the process has broken, and it has not noticed */

/* By number of the grant: over for its process; taken by force; and its process has not been told. */
short over, forced, untold;

/* The processes. */
mtype state[2];
byte left[2];
byte attempts[2];
byte turn[2];                   /* the attempt it has sent; 0: none */
bool cached[2];
byte held_attempt[2], held_grant[2], held_token[2], held_last[2];
byte heard[2];                  /* the attempt of which it has heard that others wait */
bool excused[2];                /* what it holds was taken by force, and it could not know */
bool by_cache[2];               /* the first answer to its single attempt was due to what was only cached */
bool dead;                      /* process 0 */

byte faults, crashes;
byte newest;                    /* the greatest token a holder was given so far */
byte a_, n_, m_;                /* scratch, zero between steps */
bool claims_compatible = true, token_grows = true, reused_in_time = true;
bool nobody_passed_over = true, refused_for_real = true, no_place_left = true;

#define OVER(p) ((over & BIT(held_grant[p])) != 0)
#define NEWEST_OVER ((over & BIT(grants)) != 0)
#define FORCED(p) ((forced & BIT(held_grant[p])) != 0)
#define VALID(p) (state[p] == Holding && !OVER(p) && !excused[p])
#ifdef NO_QUARANTINE
#define FREE (owner == 0)
#else
#define FREE (owner == 0 && (!shut || NEWEST_OVER))
#endif

/* ---- the store ---- */

/* What is on its way already, or has been heard, is not told once more. */
inline tell(p, what, a) {
  if
  :: down[p] || len(push[p]) == 2 || (what == contended && heard[p] == a) || push[p]??[eval(what), eval(a)] -> skip
  :: else ->
     if
     :: push[p]!what, a
     :: what == contended && faults < FAULTS -> faults++; printf("a notification to process %d is lost\n", p)
     fi
  fi
}

inline grant(p, a) {
  owner = p + 1; owner_attempt = a; owner_token = top + 1; top = owner_token + RESERVE; server_over = false; shut = false;
  grants++; assert(grants < GRANTS);
  printf("the store grants process %d attempt %d, token %d to %d\n", p, a, owner_token, top);
  if
  :: dead && p == 0
  :: else -> answer[p]!granted, a, grants, owner_token, (len(queue) > 0)
  fi
}

inline admit() {
  if
  :: FREE && len(queue) > 0 -> queue?n_, m_; grant(n_, m_); n_ = 0; m_ = 0
  :: else
  fi
}

inline let_go() {
  owner = 0; owner_attempt = 0; owner_token = 0; server_over = false
}

inline look() {
  if
  :: owner != 0 && server_over -> printf("the hold of process %d has expired\n", owner - 1); let_go()
  :: else
  fi;
  admit()
}

inline serve(p, kind, a, last) {
  look();
  if
  :: kind == acquire || kind == attempt ->
     if
     :: owner == p + 1 && owner_attempt == a                                      /* it asks again */
     :: FREE -> grant(p, a)
     :: !FREE && !(owner == p + 1 && owner_attempt == a) && kind == attempt ->
        if :: owner != 0 -> by_cache[p] = cached[owner - 1] :: else fi;
        answer[p]!refused, a, 0, 0, true
     :: !FREE && !(owner == p + 1 && owner_attempt == a) && kind == acquire ->
        if
        :: queue??[eval(p), eval(a)] -> m_ = 1
        :: else -> queue!p, a; printf("process %d waits, attempt %d\n", p, a)
        fi;
#ifdef TOLD_ONCE
        if :: owner != 0 && m_ == 0 -> tell(owner - 1, contended, owner_attempt) :: else fi;
#else
        if :: owner != 0 -> tell(owner - 1, contended, owner_attempt) :: else fi;
#endif
        m_ = 0
     fi
  :: (kind == release || kind == cancel) && owner == p + 1 && owner_attempt == a ->
#ifdef TRUSTS_RELEASE
     top = (kind == cancel -> owner_token : last);
#else
     top = (kind == cancel || last < owner_token -> owner_token : last);          /* the rest of the reserve is free again */
#endif
     printf("process %d gives attempt %d back, last token %d\n", p, a, top); let_go(); admit()
  :: (kind == release || kind == cancel) && !(owner == p + 1 && owner_attempt == a) ->
     if :: queue??[eval(p), eval(a)] -> queue??eval(p), eval(a) :: else fi
  fi
}

inline cut(p) {
  down[p] = true; printf("the connection of process %d breaks\n", p);
  do :: push[p]?_, _ :: empty(push[p]) -> break od
}

inline take_by_force() {
  a_ = owner - 1; m_ = owner_attempt;
  printf("an operator takes attempt %d from process %d\n", m_, a_);
  forced = forced | BIT(grants); untold = untold | BIT(grants);
  if :: state[a_] == Holding && held_grant[a_] == grants -> excused[a_] = true :: else fi;
  tell(a_, taken, m_);
  m_ = 0; a_ = 0;
  let_go(); admit()
}

inline forget() {
  printf("the store forgets everything\n");
  shut = true; let_go();
  do :: queue?_, _ :: empty(queue) -> break od
}

proctype Store() {
  mtype kind;
  byte a, last;
end:
  do
  :: atomic { to_store[0]?kind, a, last -> serve(0, kind, a, last); kind = 0; a = 0; last = 0 }
  :: atomic { to_store[1]?kind, a, last -> serve(1, kind, a, last); kind = 0; a = 0; last = 0 }
  :: atomic { owner != 0 && faults < FAULTS -> faults++; take_by_force() }
  :: atomic { owner != 0 && faults < FAULTS -> faults++; forget() }
  :: atomic { !down[0] && faults < FAULTS -> faults++; cut(0) }
  :: atomic { !down[1] && faults < FAULTS -> faults++; cut(1) }
  od
}

/* Apart from the store, so that it does not wait for the store's choice. */
proctype Clock() {
end:
  do
  :: atomic { owner != 0 && !NEWEST_OVER && faults < FAULTS -> faults++; over = over | BIT(grants);
       printf("the deadline of attempt %d passes for process %d\n", owner_attempt, owner - 1) }
  :: atomic { ((dead && owner == 1) || shut) && !NEWEST_OVER -> over = over | BIT(grants);
       printf("nobody can renew it: its deadline passes\n") }
#ifndef NO_EXPIRY
  :: atomic { owner != 0 && NEWEST_OVER && !server_over -> server_over = true }
#endif
  od
}

/* ---- a process: each step is one event of its loop ---- */

inline send(p, kind) {
  attempts[p]++; turn[p] = attempts[p]; to_store[p]!kind, turn[p], 0
}

inline deliver(p) {
  state[p] = Holding; turn[p] = 0;
  excused[p] = FORCED(p) && (untold & BIT(held_grant[p])) != 0;
  printf("process %d holds, token %d\n", p, held_token[p]);
  claims_compatible = !(VALID(0) && VALID(1)); assert(claims_compatible);
  if
  :: !excused[p] -> token_grows = held_token[p] > newest; assert(token_grows); newest = held_token[p]
  :: else
  fi
}

/* The grant goes back to the store. */
inline give_back(p) {
  n_ = held_attempt[p];
#ifdef FORGETS_REUSES
  m_ = held_last[p] - RESERVE;
#else
  m_ = held_token[p];
#endif
#ifndef REUSES_RETURNED
  cached[p] = false; held_attempt[p] = 0; held_grant[p] = 0;
#ifndef OLD_RESERVE
  held_token[p] = 0; held_last[p] = 0;
#endif
#endif
  heard[p] = 0; excused[p] = false;
  to_store[p]!release, n_, m_;
  if
  :: faults < FAULTS -> faults++; printf("a release arrives twice\n"); to_store[p]!release, n_, m_
  :: true
  fi;
  n_ = 0; m_ = 0
}

#ifdef REUSES_UNPROVEN
#define PROVEN(p) true
#else
#define PROVEN(p) (!OVER(p))
#endif
#ifdef REUSES_BEYOND_RESERVE
#define HAS_TOKEN(p) true
#else
#define HAS_TOKEN(p) (held_token[p] < held_last[p])
#endif

/* All that it has sent is done, so nothing of it is in the queue but a late copy of what it has, which ends with that. */
inline look_behind(p) {
  if
  :: len(to_store[p]) == 0 && queue??[eval(p), _] && !queue??[eval(p), eval(held_attempt[p])] -> no_place_left = false
  :: else
  fi;
  assert(no_place_left)
}

/* The last request waits; whoever asks before may make a single attempt. */
inline begin(p) {
  look_behind(p);
  left[p]--;
  if
  :: cached[p] && PROVEN(p) && HAS_TOKEN(p) ->
     nobody_passed_over = heard[p] != held_attempt[p]; assert(nobody_passed_over);
     reused_in_time = !(OVER(p) && !(owner == p + 1 && owner_attempt == held_attempt[p])); assert(reused_in_time);
     cached[p] = false;
#ifndef SAME_TOKEN
     held_token[p]++;
#endif
     deliver(p)
  :: else ->
     if :: cached[p] -> give_back(p) :: else fi;
     if
     :: state[p] = Waiting; send(p, acquire)
     :: left[p] > 0 -> state[p] = Trying; send(p, attempt)
     fi
  fi
}

inline hold(p, a, g, t, others) {
  held_attempt[p] = a; held_grant[p] = g;
#ifdef OLD_RESERVE
  if
  :: held_token[p] < held_last[p] -> held_token[p]++
  :: else -> held_token[p] = t; held_last[p] = t + RESERVE
  fi;
#else
  held_token[p] = t; held_last[p] = t + RESERVE;
#endif
  if :: others -> heard[p] = a :: else fi;
  deliver(p)
}

inline arrived(p, kind, a, g, t, others) {
  if
  :: kind == granted && a == turn[p] && (over & BIT(g)) == 0 -> hold(p, a, g, t, others)
  :: kind == granted && a == turn[p] && (over & BIT(g)) != 0 ->                   /* nothing is left of it: ask again */
     to_store[p]!release, a, t; state[p] = Waiting; send(p, acquire)
  :: kind == granted && a != turn[p] -> to_store[p]!release, a, t
  :: kind == refused ->
#ifdef BELIEVES_CACHE
     printf("the attempt of process %d is refused\n", p);
     refused_for_real = !by_cache[p]; assert(refused_for_real);
     state[p] = Idle; turn[p] = 0
#else
     state[p] = Patient; send(p, acquire)
#endif
  fi;
  by_cache[p] = false
}

inline leave(p) {
  state[p] = Idle;
  if
  :: heard[p] != held_attempt[p] && !OVER(p) -> cached[p] = true; excused[p] = false; printf("process %d caches the lock\n", p)
  :: else -> give_back(p)
  fi
}

inline go(p) {
  n_ = turn[p]; turn[p] = 0; state[p] = Idle; printf("process %d waits no longer\n", p);
#ifndef LEAVES_PLACE
  to_store[p]!cancel, n_, 0;
#endif
  n_ = 0
}

/* Nothing is cached of a grant that is gone; who holds it goes. */
inline lose(p) {
  printf("process %d learns that it has lost the lock\n", p);
  untold = untold & ~BIT(held_grant[p]);
  if :: state[p] == Holding -> state[p] = Idle :: else fi;
  give_back(p)
}

inline notified(p, what, a) {
  if
  :: what == contended && (a == held_attempt[p] || a == turn[p]) ->
     heard[p] = a; printf("process %d hears that others wait\n", p);
#ifndef NEVER_GIVES_WAY
     if :: cached[p] -> give_back(p) :: else fi
#endif
  :: what == taken && a == held_attempt[p] && (cached[p] || state[p] == Holding) -> lose(p)
  :: else
  fi
}

inline reconnect(p) {
  down[p] = false; printf("process %d has connected again\n", p);
  if
  :: held_attempt[p] != 0 && cached[p] ->
     untold = untold & ~BIT(held_grant[p]);
#ifndef KEEPS_OVER_RECONNECT
     give_back(p)
#endif
  :: held_attempt[p] != 0 && !cached[p] -> heard[p] = held_attempt[p]               /* it may have missed something */
  :: held_attempt[p] == 0
  fi
}

inline die() {
  crashes++; dead = true; down[0] = true; state[0] = Idle; left[0] = 0; turn[0] = 0; printf("process 0 dies\n");
  cached[0] = false; held_attempt[0] = 0; held_grant[0] = 0; held_token[0] = 0; held_last[0] = 0; heard[0] = 0;
  excused[0] = false; by_cache[0] = false;
  do :: answer[0]?_, _, _, _, _ :: empty(answer[0]) -> break od;
  do :: push[0]?_, _ :: empty(push[0]) -> break od
}

proctype Process(byte p) {
  mtype kind;
  byte a, g, t;
  bool others;
end:
  do
  :: atomic { state[p] == Idle && left[p] > 0 -> begin(p) }
  :: atomic { answer[p]?kind, a, g, t, others -> arrived(p, kind, a, g, t, others); kind = 0; a = 0; g = 0; t = 0; others = false }
  :: atomic { push[p]?kind, a -> notified(p, kind, a); kind = 0; a = 0 }
  :: atomic { state[p] == Holding -> leave(p) }
  :: atomic { (state[p] == Holding || cached[p]) && (OVER(p) || FORCED(p)) -> lose(p) }
  :: atomic { cached[p] && faults < FAULTS -> faults++; printf("`linger` is over in process %d\n", p); give_back(p) }
  :: atomic { (state[p] == Waiting || state[p] == Patient) && len(to_store[0]) == 0 && len(to_store[1]) == 0 && len(answer[p]) == 0 ->
       to_store[p]!acquire, turn[p], 0 }
  :: atomic { state[p] == Patient -> go(p) }
  :: atomic { down[p] -> reconnect(p) }
#if CRASHES > 0
  :: atomic { p == 0 && crashes < CRASHES -> die(); goto gone }
#endif
  :: atomic { state[p] == Idle && left[p] == 0 && !cached[p] && !down[p] && len(to_store[p]) == 0 && len(answer[p]) == 0 ->
       look_behind(p); goto rest }
  od;
rest:
end_rest:
  if
  :: atomic { answer[p]?kind, a, g, t, others -> to_store[p]!release, a, t; kind = 0; a = 0; g = 0; t = 0; others = false; goto rest }
  :: atomic { push[p]?_, _ -> goto rest }
  fi;
gone:
  skip
}

init {
  atomic {
    state[0] = Idle; state[1] = Idle; left[0] = HERE; left[1] = THERE;
    run Store();
    run Clock();
    run Process(0);
    run Process(1)
  }
}

#define PATIENT (state[1] == Waiting && left[1] == 0)
ltl served { [] (PATIENT -> <> !PATIENT) }
