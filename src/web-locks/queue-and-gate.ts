/**
 * How a request becomes a held lock, in exactly the specification's order, also when the lock is stolen.
 *
 * Two locks stand behind each name. The *line* keeps the order: its holder is at the head of the queue. The *gate* is
 * the lock itself: its holders are the held set. An ordinary request acquires the line, then the gate, then calls
 * back. A thief queues at the gate at once, makes sure that the store has seen it wait there, and then force-releases
 * the gate: the store grants it to the thief in the same step. Nobody in the line has moved: its head now waits at
 * the gate, behind the thief. With one lock alone, a force-release would give it to the next in the queue.
 *
 * Only heads of the line come to the gate, so it is free for them unless there is a thief. A request that had to wait
 * there checks again before it calls back: a second thief may have come behind it, and thieves go first.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { type AcquireOptions, type Lease, LeaseLostError, type Lock, type LockStatus } from 'holdfast'
import { parseNote, type RequestNote, toNote } from './names.js'

export interface LockPair {
  readonly requestNote: RequestNote
  readonly queueName: string
  readonly queue: Lock
  readonly gate: Lock
  /** Without `wait` and `signal`. */
  readonly options: Omit<AcquireOptions, 'wait' | 'signal' | 'note'>
  inspectGate(): Promise<LockStatus>
  /** Force-releases every hold of the gate. */
  forceGate(): Promise<unknown>
}

/** Held from the first to the last moment of the callback. */
export interface HeldPair {
  readonly gate: Lease
  /** Absent for a thief, which never queued in the line. */
  readonly queue?: Lease
}

/** Milliseconds between two checks of whether the store has seen the thief wait. */
export const checkInterval = 5
/** A store that keeps no notes cannot report it; after that many checks it has had time enough. */
const maxChecks = 20

/** Queues until it is granted. @throws `signal.reason`; what the store throws */
export async function acquire(pair: LockPair, signal: AbortSignal | undefined): Promise<HeldPair> {
  const terms = {
    ...pair.options,
    note: toNote(pair.requestNote),
    wait: Number.POSITIVE_INFINITY,
    ...(signal && { signal }),
  }
  const queue = await pair.queue.acquire(terms)
  try {
    return { queue, gate: (await tryGate(pair, signal)) ?? (await acquireAfterSteals(pair, terms)) }
  } catch (error) {
    await queue.release()
    throw error
  }
}

/** Acquires what is free, else `undefined`. */
export async function tryAcquire(pair: LockPair): Promise<HeldPair | undefined> {
  const queue = await pair.queue.tryAcquire({ ...pair.options, note: toNote(pair.requestNote) })
  if (queue === undefined) return undefined
  try {
    const gate = await tryGate(pair, undefined)
    if (gate !== undefined) return { queue, gate }
  } catch (error) {
    await queue.release()
    throw error
  }
  await queue.release()
  return undefined
}

/** Takes the gate from its holders. */
export async function steal(pair: LockPair): Promise<HeldPair> {
  const giveUp = new AbortController()
  const terms = {
    ...pair.options,
    note: toNote(pair.requestNote),
    wait: Number.POSITIVE_INFINITY,
    signal: giveUp.signal,
  }
  let gate: Lease | undefined
  const granted = pair.gate.acquire(terms).then((lease) => (gate = lease))
  // Checked below; until then a rejection must not count as unhandled.
  granted.catch(() => undefined)
  try {
    let forced = false
    for (let checks = 0; gate === undefined; checks++) {
      const { holders, waiters } = await pair.inspectGate()
      const seen =
        checks >= maxChecks ||
        waiters.some(({ note }) => parseNote(note)?.request === pair.requestNote.request)
      // An ordinary request that comes to the gate once we are queued there sees us and steps back by itself; only
      // another thief does not.
      const inTheWay = holders.filter(({ note }) => !forced || parseNote(note)?.steal)
      const ours = holders.some(({ note }) => parseNote(note)?.request === pair.requestNote.request)
      if (gate === undefined && seen && !ours && inTheWay.length > 0) {
        forced = true
        await pair.forceGate()
      }
      await Promise.race([granted, pause(checkInterval)])
    }
    // What we forced may have been our own hold, granted a moment before; then nobody else has stolen it.
    if (forced && !(await isStillOurs(gate)) && !(await stolenError(pair, gate))) return await steal(pair)
  } catch (error) {
    giveUp.abort(error)
    await granted.then(
      (lease) => lease.release(),
      () => undefined,
    )
    throw error
  }
  return { gate: await granted }
}

async function isStillOurs(gate: Lease): Promise<boolean> {
  try {
    return (await gate.extend()) > 0
  } catch (error) {
    if (error instanceof LeaseLostError) return false
    return gate.isHeld
  }
}

/** Another thief has it by now, as may happen to any holder: a thief that stole it back would be robbed in turn, without end. */
async function stolenError(pair: LockPair, gate: Lease): Promise<boolean> {
  const { holders } = await pair.inspectGate()
  return holders.some(({ note, token }) => parseNote(note)?.steal && token > gate.token)
}

/** The line first: its head then finds the gate already released, and until the very end the lock counts as held. */
export async function release({ queue, gate }: HeldPair): Promise<void> {
  await Promise.all([queue?.release(), gate.release()])
}

async function tryGate(pair: LockPair, signal: AbortSignal | undefined): Promise<Lease | undefined> {
  signal?.throwIfAborted()
  return pair.gate.tryAcquire({ ...pair.options, note: toNote(pair.requestNote) })
}

async function acquireAfterSteals(pair: LockPair, terms: AcquireOptions): Promise<Lease> {
  for (;;) {
    const gate = await pair.gate.acquire(terms)
    try {
      const { waiters } = await pair.inspectGate()
      const thief = waiters.some(({ note }) => parseNote(note)?.steal)
      if (!thief && gate.isHeld) return gate
    } catch (error) {
      await gate.release()
      throw error
    }
    await gate.release()
  }
}
