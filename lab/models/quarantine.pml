/*
 * Until when a server that may have forgotten locks grants nothing, and who knows that.
 *
 * One lock on one server, CLIENTS clients, time in ticks. A client meets the server before it asks, and again after each
 * restart or when it finds another marker; it may come for the first time at any moment. The server is flushed, restarts
 * without its data, restarts with data of any moment before, or is replaced by a replica with data of any moment before, which has been
 * up for long. Holders renew as they like, and rely on the lock to the last tick, whether the server knows it or not.
 *
 * TRUSTING: client 0 takes a server without a marker for a new one (`quarantine: 'detected'`), at its own risk: what it is granted
 * is not looked at, but it must not make the others grant.
 *
 * Properties
 *   claims_compatible    no two clients rely on the lock at the same time
 *
 * Each of these makes the design wrong in one place and must break the property named:
 *   NEWCOMER_VOUCHES  a newcomer takes the server for new, and its marker vouches for everybody           claims_compatible
 *   NO_LINEAGE        a marker of this life vouches, whoever wrote it; asked with TRUSTING                claims_compatible
 *   BELIEVES_MARKER   a newcomer believes every marker of this life; asked with TRUSTING                  claims_compatible
 *   ONLY_UPTIME       data deleted since the start are ignored                                            claims_compatible
 *   FROM_START        a client counts what it misses from the start of the server, even in the same life  claims_compatible
 *   LONG_TTL          a ttl may exceed the assumed maximum                                                claims_compatible
 *   LONG_EXTEND       ... only when it is extended                                                        claims_compatible
 *   TRUSTS_DATA       a server that restarts with data is assumed to have all of them                     claims_compatible
 *   TRUSTS_UPTIME     a promoted replica is assumed to have lost nothing since its own start              claims_compatible
 */
#ifndef CLIENTS
#define CLIENTS 3
#endif
#ifndef LOSSES
#define LOSSES 2
#endif
#ifndef LAST
#define LAST 7
#endif
#define MAXTTL 2

#ifdef TRUSTING
#define AT_OWN_RISK(c) (c == 0)
#else
#define AT_OWN_RISK(c) false
#endif
#ifdef NEWCOMER_VOUCHES
#define STRICT(c) false
#else
#define STRICT(c) (!AT_OWN_RISK(c))
#endif

byte now, began, life = 1, losses, drawn_last;
bool flushed, promoted;

/* The data: the marker (no lineage, no marker), and the lock. The second of each pair is what is on the disk. */
typedef Data { byte till; byte of_life; byte lineage; byte drawn; byte gone; byte owner; byte ends };
Data here, disk;

/* The clients: what they remember, whether they have met the server over this connection, until when they rely on the lock. */
byte lineage[CLIENTS], of_life[CLIENTS], relies[CLIENTS];
bool met[CLIENTS];
byte lost, i, ttl;
bool claims_compatible = true;

#define NOTHING 255
#define LATER(a, b) ((a) > (b) -> (a) : (b))

inline copy(from, to)
{
	to.till = from.till; to.of_life = from.of_life; to.lineage = from.lineage; to.drawn = from.drawn; to.gone = from.gone;
	to.owner = from.owner; to.ends = from.ends
}

inline clear(data)
{
	data.till = 0; data.of_life = 0; data.lineage = 0; data.drawn = 0; data.gone = 0; data.owner = 0; data.ends = 0
}

inline begins_again()
{
	life++; began = now; flushed = false; promoted = false; losses++;
	i = 0;
	do :: i < CLIENTS -> met[i] = false; i++ :: else -> break od;
	i = 0
}

/* Nobody knows when a promotion was. */
#ifdef TRUSTS_UPTIME
#define SINCE began
#else
#define SINCE (promoted -> now : began)
#endif
#ifdef ONLY_UPTIME
#define WHOLE true
#else
#define WHOLE (!flushed)
#endif
#if defined(NO_LINEAGE) || defined(NEWCOMER_VOUCHES)
#define STRANGER(c) false
#else
#define STRANGER(c) (lineage[c] != 0 && lineage[c] != here.lineage)
#endif
#ifdef FROM_START
#define SINCE_KNOWN(c) SINCE
#else
#define SINCE_KNOWN(c) (of_life[c] != life && WHOLE -> SINCE : now)
#endif

/* A lineage may have been drawn by one that took the server for new without reason. */
inline doubt(c)
{
#ifndef BELIEVES_MARKER
	if :: lineage[c] == 0 && STRICT(c) -> lost = here.gone :: else fi
#else
	skip
#endif
}

inline meet(c)
{
	lost = NOTHING;
	if
	:: here.lineage == 0 && lineage[c] != 0 -> lost = SINCE_KNOWN(c)
	:: here.lineage == 0 && lineage[c] == 0 && STRICT(c) -> lost = (WHOLE -> SINCE : now)
	:: here.lineage == 0 && lineage[c] == 0 && !STRICT(c) -> skip
	:: here.lineage != 0 && STRANGER(c) && of_life[c] == life -> lost = here.drawn
	:: here.lineage != 0 && STRANGER(c) && of_life[c] != life -> lost = LATER(SINCE, here.gone)
#ifndef TRUSTS_DATA
	:: here.lineage != 0 && !STRANGER(c) && here.of_life != life -> lost = SINCE
	:: here.lineage != 0 && !STRANGER(c) && here.of_life == life -> doubt(c)
#else
	:: here.lineage != 0 && !STRANGER(c) -> doubt(c)
#endif
	fi;
	if
	:: here.lineage == 0 -> drawn_last++; here.lineage = drawn_last; here.drawn = now; here.gone = (WHOLE -> SINCE : now)
	:: else
	fi;
	if :: lost != NOTHING -> here.till = LATER(here.till, lost + MAXTTL) :: else fi;
	if :: here.till <= now -> here.till = 0 :: else fi;
	here.of_life = life;
	lineage[c] = here.lineage; of_life[c] = life; met[c] = true;
	lost = 0
}

inline choose_ttl()
{
#ifdef LONG_TTL
	if :: ttl = MAXTTL :: ttl = MAXTTL + 2 fi
#else
	ttl = MAXTTL
#endif
}

proctype client(byte c)
{
	do
	:: atomic { !met[c] -> meet(c); printf("client %d meets life %d at %d: lineage %d, nothing before %d\n", c, life, now, here.lineage, here.till) }
	:: atomic { met[c] && (here.lineage != lineage[c] || here.of_life != life) -> met[c] = false }
	:: atomic {
		met[c] && here.lineage == lineage[c] && here.of_life == life && here.till <= now && here.owner == 0 ->
		choose_ttl();
		here.owner = c + 1; here.ends = now + ttl; relies[c] = here.ends; ttl = 0;
		printf("client %d is granted the lock at %d until %d\n", c, now, here.ends);
		i = 0;
		do
		:: i < CLIENTS ->
			if
			:: i != c && relies[i] > now && !AT_OWN_RISK(i) && !AT_OWN_RISK(c) -> claims_compatible = false
			:: else
			fi;
			i++
		:: else -> break
		od;
		i = 0;
		assert(claims_compatible)
	}
	:: atomic {
		met[c] && here.owner == c + 1 && relies[c] > now ->
		choose_ttl();
#ifdef LONG_EXTEND
		ttl = ttl + 2;
#endif
		here.ends = now + ttl; relies[c] = here.ends; ttl = 0
	}
	:: now == LAST -> break
	od
}

proctype world()
{
	do
	:: atomic {
		now < LAST -> now++;
		if :: here.owner != 0 && here.ends <= now -> here.owner = 0; here.ends = 0 :: else fi;
		i = 0;
		do :: i < CLIENTS -> if :: relies[i] <= now -> relies[i] = 0 :: else fi; i++ :: else -> break od;
		i = 0
	}
	:: atomic { now < LAST -> copy(here, disk) }
	:: atomic { losses < LOSSES && now < LAST -> clear(here); flushed = true; losses++; printf("FLUSHALL at %d\n", now) }
	:: atomic { losses < LOSSES && now < LAST -> clear(here); begins_again(); printf("a restart without data at %d\n", now) }
	:: atomic {
		losses < LOSSES && now < LAST -> copy(disk, here); begins_again(); printf("a restart with older data at %d\n", now);
		if :: here.owner != 0 && here.ends <= now -> here.owner = 0; here.ends = 0 :: else fi
	}
	:: atomic {
		losses < LOSSES && now < LAST -> copy(disk, here); begins_again(); began = 0; promoted = true; printf("a promotion at %d\n", now);
		if :: here.owner != 0 && here.ends <= now -> here.owner = 0; here.ends = 0 :: else fi
	}
	:: now == LAST -> break
	od
}

/* The server has been up for long. */
init
{
	atomic {
		now = MAXTTL; i = 0;
		do :: i < CLIENTS -> run client(i); i++ :: else -> break od;
		i = 0;
		run world()
	}
}
