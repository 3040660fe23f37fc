/*
 * The session of a client of ZooKeeper, and what an answer of the leader proves of it.
 *
 * A client sends one message after the other over one connection to a follower, each at its own time, and each may be on its way for
 * any time, in their order. The follower notes that it has heard from the session when a message arrives, and passes it to the leader
 * behind whatever report it sent before. The leader asks for a report at least once in LAG steps of time and counts the session's time-out
 * from when the report comes. It answers messages as they come; that is no report. At any moment the client is cut off together with its
 * follower: what is between follower and leader is lost, and client and follower continue talking. The leader ends the session TIMEOUT after
 * the last report. The client relies on it until TIMEOUT after the sending of a message that it takes for reported.
 *
 * Time is a count of steps. In one step the follower and the leader do all that they have to do at once, a report included, unless
 * the network keeps it.
 *
 * Properties
 *   ends_first   when the leader ends the session, the client has ceased to rely on it
 *
 * Each of these makes the design wrong in one place and must break the property named:
 *   TRUSTS_ANSWER   a message counts as reported as soon as the leader answers it                ends_first
 *   TAKES_TICK_OFF  ... minus a fixed part of the time-out, shorter than the lag                 ends_first
 *   COUNTS_SENDING  a message counts as reported one lag after it was sent, not after its reply  ends_first
 *   KEEPS_OLD_LAG   the client waits for only half a lag                                         ends_first
 */
#ifndef LAG
#define LAG 2
#endif
#ifndef TIMEOUT
#define TIMEOUT 4
#endif
#ifndef MESSAGES
#define MESSAGES 3
#endif
#define NEVER 255
#define LAST (2 * TIMEOUT + LAG)

byte now;
/* Of each message: when it was sent, and when its answer came back. */
byte sent[MESSAGES];
byte answered[MESSAGES];
byte next;                      /* the next to be sent */
byte arrived;                   /* so many have come to the follower */
byte replied;                   /* so many have been answered by the leader, their answers with the client or on the way */
byte read;                      /* so many answers have been read by the client */
bool heard;                     /* the follower has heard of the session since its last report */
byte due = LAG;                 /* steps until the leader must have had another report */
byte counted;                   /* when the last report came that named the session */
bool cut;
byte proven;                    /* the client relies on it until proven + TIMEOUT */
byte i;                         /* scratch */
bool ends_first = true;

/* The leader has answered message m: what does the client take for reported? */
inline prove(m)
{
#ifdef TRUSTS_ANSWER
	proven = sent[m];
#else
#ifdef TAKES_TICK_OFF
	if :: sent[m] > 1 && sent[m] - 1 > proven -> proven = sent[m] - 1 :: else fi;
#else
	i = 0;
	do
	:: i < m ->
#ifdef COUNTS_SENDING
		if :: sent[i] + LAG <= sent[m] && sent[i] > proven -> proven = sent[i] :: else fi;
#else
#ifdef KEEPS_OLD_LAG
		if :: answered[i] != NEVER && answered[i] + LAG / 2 <= sent[m] && sent[i] > proven -> proven = sent[i] :: else fi;
#else
		if :: answered[i] != NEVER && answered[i] + LAG <= sent[m] && sent[i] > proven -> proven = sent[i] :: else fi;
#endif
#endif
		i++
	:: else -> break
	od;
	i = 0
#endif
#endif
}

active proctype world()
{
	d_step { for (i : 0 .. MESSAGES - 1) { answered[i] = NEVER }; i = 0 };
	do
	:: now < LAST ->
		atomic {
			if
			:: next < MESSAGES -> sent[next] = now; next++; printf("message %d is sent at %d\n", next, now)
			:: true -> skip
			fi;
			/* A report, when it is time or before: what the follower has heard until then is in it. */
			if
			:: !cut ->
				due = LAG;
				if :: heard -> counted = now; heard = false; printf("a report comes at %d\n", now) :: else fi
			:: cut || due > 0 -> skip
			fi;
			/* As much arrives as the network likes. */
			do
			:: arrived < next -> arrived++; heard = true; printf("message %d reaches the follower at %d\n", arrived, now)
			:: break
			od;
			if :: !cut -> replied = arrived :: else fi;
			do
			:: read < replied ->
				answered[read] = now;
				prove(read);
				read++;
				printf("the answer to message %d is read at %d, the session is proven from %d\n", read, now, proven)
			:: break
			od;
			if
			:: !cut -> cut = true; printf("client and follower are cut off at %d\n", now)
			:: true -> skip
			fi;
			now++;
			if :: !cut -> due-- :: else fi;
			if
			:: now >= counted + TIMEOUT -> ends_first = (proven + TIMEOUT <= now); assert(ends_first); break
			:: else
			fi
		}
	:: else -> break
	od
}
