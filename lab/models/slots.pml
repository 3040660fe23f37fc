/*
 * Until when a node of a Cluster that may have forgotten locks grants nothing, and how it knows without a client that remembers.
 *
 * Two nodes, two slots with one lock each, CLIENTS clients, time in ticks. Clients know nothing: whoever asks, the node compares the marker
 * of the slot with itself. Node 0 has both slots, and keeps in the marker of slot 0, its witness, when it first noticed what it may have lost. It
 * is flushed, restarts without its data, restarts with data of any moment before, or is replaced by a replica with data of any moment before,
 * which has been up for long. Slot 1 moves to node 1, which loses nothing, at any moment; with one exception: not before a loss was noticed in it,
 * unless all that was lost has expired. Holders renew as they like, and rely on the lock to the last tick, whether the node knows it or not.
 *
 * Properties
 *   claims_compatible    no two clients rely on the same lock at the same time
 *
 * Each of these makes the design wrong in one place and must break the property named:
 *   ONLY_UPTIME        only a restart of the node counts as a loss                          claims_compatible
 *   TRUSTS_MARKER      a marker of another life of the node vouches for the data            claims_compatible
 *   WITNESS_STAYS      a loss noticed in another life counts as noticed in this one         claims_compatible
 *   LEAVES_QUARANTINE  a slot leaves its quarantine behind when it moves                    claims_compatible
 *   MOVES_UNNOTICED    a slot moves before anybody has noticed a loss: a gap of the design  claims_compatible
 */
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef LOSSES
#define LOSSES 2
#endif
#ifndef LAST
#define LAST 6
#endif
#define MAXTTL 2

typedef Slot { byte till; byte of_life; byte since; byte owner; byte ends };
typedef Slots { Slot s[2] };
/* What the slots hold, and what of it is on the disk of node 0. */
Slots here, disk;

byte now, began, life = 1, losses, lost_at;
/* Was it promoted, or something deleted in this life? */
bool unsure, lost_any, moved;
byte relies[4];
byte i, since;
bool claims_compatible = true;

#define LATER(a, b) ((a) > (b) -> (a) : (b))
/* Life 100 is that of node 1, which has been up for long. */
#define LIFE(n) (n == 1 && moved -> 100 : life)
#ifdef ONLY_UPTIME
#define UNSURE(n) false
#else
#define UNSURE(n) (!(n == 1 && moved) && unsure)
#endif
#ifdef WITNESS_STAYS
#define WITNESSED (here.s[0].of_life != 0)
#else
#define WITNESSED (here.s[0].of_life == life)
#endif
#ifdef TRUSTS_MARKER
#define VOUCHED(n) (here.s[n].of_life != 0)
#else
#define VOUCHED(n) (here.s[n].of_life == LIFE(n))
#endif
#ifdef MOVES_UNNOTICED
#define MAY_MOVE true
#else
#define MAY_MOVE (!lost_any || here.s[1].of_life == life || now >= lost_at + MAXTTL)
#endif

inline copy(from, to, n)
{
	to.s[n].till = from.s[n].till; to.s[n].of_life = from.s[n].of_life; to.s[n].since = from.s[n].since;
	to.s[n].owner = from.s[n].owner; to.s[n].ends = from.s[n].ends
}

inline clear(n)
{
	here.s[n].till = 0; here.s[n].of_life = 0; here.s[n].since = 0; here.s[n].owner = 0; here.s[n].ends = 0
}

inline clear_disk()
{
	disk.s[1].till = 0; disk.s[1].of_life = 0; disk.s[1].since = 0; disk.s[1].owner = 0; disk.s[1].ends = 0
}

inline expire(n)
{
	if :: here.s[n].owner != 0 && here.s[n].ends <= now -> here.s[n].owner = 0; here.s[n].ends = 0 :: else fi
}

inline lose() { losses++; lost_at = now; lost_any = true }

inline all_gone()
{
	clear(0);
	if :: !moved -> clear(1) :: else fi
}

inline older()
{
	copy(disk, here, 0); expire(0);
	if :: !moved -> copy(disk, here, 1); expire(1) :: else fi
}

inline mark(n)
{
	here.s[n].till = LATER(here.s[n].till, since + MAXTTL);
	here.s[n].of_life = LIFE(n); here.s[n].since = since
}

inline decide(n)
{
	if
	:: VOUCHED(n)
	:: else ->
		since = (n == 1 && moved -> 0 : (UNSURE(n) -> (WITNESSED -> here.s[0].since : now) : began));
		if :: n == 1 && UNSURE(n) && !WITNESSED -> mark(0) :: else fi;
		mark(n); since = 0
	fi;
	if :: here.s[n].till <= now -> here.s[n].till = 0 :: else fi
}

proctype client(byte c)
{
	byte n;
	do
	:: atomic {
		now < LAST ->
		if :: n = 0 :: n = 1 fi;
		decide(n);
		if
		:: here.s[n].till == 0 && here.s[n].owner == 0 ->
			here.s[n].owner = c + 1; here.s[n].ends = now + MAXTTL; relies[2 * c + n] = here.s[n].ends;
			printf("client %d is granted the lock of slot %d at %d\n", c, n, now);
			i = 0;
			do
			:: i < CLIENTS -> if :: i != c && relies[2 * i + n] > now -> claims_compatible = false :: else fi; i++
			:: else -> break
			od;
			i = 0;
			assert(claims_compatible)
		:: else -> printf("client %d asks for slot %d at %d: nothing before %d\n", c, n, now, here.s[n].till)
		fi;
		n = 0
	}
	:: atomic {
		now < LAST ->
		if :: n = 0 :: n = 1 fi;
		if
		:: here.s[n].owner == c + 1 && relies[2 * c + n] > now -> here.s[n].ends = now + MAXTTL; relies[2 * c + n] = here.s[n].ends
		:: else
		fi;
		n = 0
	}
	:: now == LAST -> break
	od
}

proctype world()
{
	do
	:: atomic {
		now < LAST -> now++; expire(0); expire(1);
		i = 0;
		do :: i < 2 * CLIENTS -> if :: relies[i] <= now -> relies[i] = 0 :: else fi; i++ :: else -> break od;
		i = 0
	}
	:: atomic { now < LAST -> copy(here, disk, 0); if :: !moved -> copy(here, disk, 1) :: else fi }
	:: atomic { losses < LOSSES && now < LAST -> all_gone(); unsure = true; lose(); printf("FLUSHALL at %d\n", now) }
	:: atomic { losses < LOSSES && now < LAST -> all_gone(); life++; began = now; unsure = false; lose(); printf("a restart without data at %d\n", now) }
	:: atomic { losses < LOSSES && now < LAST -> older(); life++; began = now; unsure = false; lose(); printf("a restart with older data at %d\n", now) }
	:: atomic { losses < LOSSES && now < LAST -> older(); life++; began = 0; unsure = true; lose(); printf("a promotion at %d\n", now) }
	:: atomic {
		!moved && now < LAST && MAY_MOVE ->
		moved = true; printf("slot 1 moves at %d\n", now);
#ifdef LEAVES_QUARANTINE
		here.s[1].till = 0;
#endif
		clear_disk()
	}
	:: now == LAST -> break
	od
}

/* The nodes have been up for long. */
init
{
	atomic {
		now = MAXTTL; i = 0;
		do :: i < CLIENTS -> run client(i); i++ :: else -> break od;
		i = 0;
		run world()
	}
}
