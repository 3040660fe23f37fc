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
import { type AcquireOptions, type Lease, LeaseLostError, type Lock, type Standing } from 'holdfast'
import { type Mark, noteOf, readNote } from './names.js'

export interface Door {
  readonly mark: Mark
  readonly lineName: string
  readonly line: Lock
  readonly gate: Lock
  /** Without `wait` and `signal`. */
  readonly options: Omit<AcquireOptions, 'wait' | 'signal' | 'note'>
  inspectGate(): Promise<Standing>
  /** Force-releases every hold of the gate. */
  forceGate(): Promise<unknown>
}

/** Held from the first to the last moment of the callback. */
export interface Passed {
  readonly gate: Lease
  /** Absent for a thief, which never queued in the line. */
  readonly line?: Lease
}

/** Milliseconds between two checks of whether the store has seen the thief wait. */
export const betweenLooks = 5
/** A store that keeps no notes cannot report it; after that many checks it has had time enough. */
const looksAtMost = 20

/** Queues until it is granted. @throws `signal.reason`; what the store throws */
export async function queueUp(door: Door, signal: AbortSignal | undefined): Promise<Passed> {
  const terms = {
    ...door.options,
    note: noteOf(door.mark),
    wait: Number.POSITIVE_INFINITY,
    ...(signal && { signal }),
  }
  const line = await door.line.acquire(terms)
  try {
    return { line, gate: (await free(door, signal)) ?? (await behindThieves(door, terms)) }
  } catch (error) {
    await line.release()
    throw error
  }
}

/** Acquires what is free, else `undefined`. */
export async function tryPass(door: Door): Promise<Passed | undefined> {
  const line = await door.line.tryAcquire({ ...door.options, note: noteOf(door.mark) })
  if (line === undefined) return undefined
  try {
    const gate = await free(door, undefined)
    if (gate !== undefined) return { line, gate }
  } catch (error) {
    await line.release()
    throw error
  }
  await line.release()
  return undefined
}

/** Takes the gate from its holders. */
export async function steal(door: Door): Promise<Passed> {
  const giveUp = new AbortController()
  const terms = {
    ...door.options,
    note: noteOf(door.mark),
    wait: Number.POSITIVE_INFINITY,
    signal: giveUp.signal,
  }
  let gate: Lease | undefined
  const granted = door.gate.acquire(terms).then((lease) => (gate = lease))
  // Checked below; until then a rejection must not count as unhandled.
  granted.catch(() => undefined)
  try {
    let forced = false
    for (let looks = 0; gate === undefined; looks++) {
      const { holders, waiters } = await door.inspectGate()
      const seen =
        looks >= looksAtMost || waiters.some(({ note }) => readNote(note)?.request === door.mark.request)
      // An ordinary request that comes to the gate once we are queued there sees us and steps back by itself; only
      // another thief does not.
      const inTheWay = holders.filter(({ note }) => !forced || readNote(note)?.steal)
      const ours = holders.some(({ note }) => readNote(note)?.request === door.mark.request)
      if (gate === undefined && seen && !ours && inTheWay.length > 0) {
        forced = true
        await door.forceGate()
      }
      await Promise.race([granted, pause(betweenLooks)])
    }
    // What we forced may have been our own hold, granted a moment before; then nobody else has stolen it.
    if (forced && !(await stillOurs(gate)) && !(await stolen(door, gate))) return await steal(door)
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

async function stillOurs(gate: Lease): Promise<boolean> {
  try {
    return (await gate.extend()) > 0
  } catch (error) {
    if (error instanceof LeaseLostError) return false
    return gate.isHeld
  }
}

/** Another thief has it by now, as may happen to any holder: a thief that stole it back would be robbed in turn, without end. */
async function stolen(door: Door, gate: Lease): Promise<boolean> {
  const { holders } = await door.inspectGate()
  return holders.some(({ note, token }) => readNote(note)?.steal && token > gate.token)
}

/** The line first: its head then finds the gate already released, and until the very end the lock counts as held. */
export async function giveBack({ line, gate }: Passed): Promise<void> {
  await Promise.all([line?.release(), gate.release()])
}

async function free(door: Door, signal: AbortSignal | undefined): Promise<Lease | undefined> {
  signal?.throwIfAborted()
  return door.gate.tryAcquire({ ...door.options, note: noteOf(door.mark) })
}

async function behindThieves(door: Door, terms: AcquireOptions): Promise<Lease> {
  for (;;) {
    const gate = await door.gate.acquire(terms)
    try {
      const { waiters } = await door.inspectGate()
      const thief = waiters.some(({ note }) => readNote(note)?.steal)
      if (!thief && gate.isHeld) return gate
    } catch (error) {
      await gate.release()
      throw error
    }
    await gate.release()
  }
}
