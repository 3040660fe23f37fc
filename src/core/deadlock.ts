/**
 * Detects rings of waiters across processes, in one store: a waits for what b holds, b for what c holds, c for what a
 * holds.
 *
 * A request that waits long inside `run` of another lock publishes that in one cell for each hold it has:
 * `waits:<attempt>`. Then it follows the ring: who holds the lock that I wait for, and what does that holder wait
 * for? If the path leads back to one of its own holds, it checks a second time: when no cell has another version and
 * no lock another holder, all of it was true at one moment between the two checks. Of a ring, the waiter that began
 * last (the greatest token) gets the DeadlockError; the others go on.
 *
 * Permits are not followed: any holder may free them. The search knows the holds inside `run`, as for reentrancy, those
 * given to the wait (`holding`), and those that `all()` has acquired so far.
 */

import { CellRef } from './cell-ref.js'
import type { Engine } from './engine.js'
import { DeadlockError } from './errors.js'
import type { Hold } from './hold.js'
import { printable, quote } from './name.js'
import { type Deadline, withDeadline } from './with-deadline.js'

/** How long a wait goes unchecked, and how often it is checked afterwards, in ms. */
const checkInterval = 500
/** How long others trust the entry of a process that has died, in ms. */
const recordTtl = 5_000
const confirmDelay = 50
const maxCycle = 16

/** The value of the cell, as JSON. */
interface Wait {
  readonly name: string
  /** The greatest token among the waiter's holds, and the attempt it belongs to. */
  readonly token: number
  readonly youngest: string
  readonly by: string
  /** Identifies this very wait. */
  readonly id: string
}

interface Step extends Wait {
  /** The holder of what the previous step waits for. */
  readonly attempt: string
  readonly version: number
}

/** Watches one wait until the returned function is called. `broken` is called at most once. */
export function watchForDeadlock(
  engine: Engine,
  name: string,
  holds: readonly Hold[],
  broken: (error: DeadlockError) => void,
): () => void {
  const { clock } = engine
  const controller = new AbortController()
  const published: PublishedWaits = { id: engine.env.id(), at: new Map() }
  let stop = () => {}
  let over = false
  const next = () => {
    if (over || engine.closed) return
    stop = clock.at(
      clock.now() + checkInterval,
      () =>
        void look()
          .catch(() => undefined)
          .then(next),
      { ref: false },
    )
  }
  const look = () =>
    withDeadline(engine, { wait: recordTtl, signal: controller.signal }, async (bounds) => {
      const ownAttempts = await publishWaits(engine, name, holds, published, bounds)
      const cycle = await findCycle(engine, name, ownAttempts, bounds)
      if (cycle === undefined) return
      await pause(engine, confirmDelay, bounds.signal)
      const again = await findCycle(engine, name, ownAttempts, bounds)
      if (over || again === undefined || !isSameCycle(cycle, again)) return
      const ours = findYoungest(holds)
      if (ours !== undefined && cycle.every((step) => isYounger(ours, step)))
        broken(toDeadlockError(name, cycle))
    })
  next()
  return () => {
    over = true
    stop()
    controller.abort(new Error('no longer waiting'))
    for (const attempt of published.at.keys()) void removeWait(engine, attempt, published.id)
  }
}

/** When this wait last published its entry, for each hold. */
interface PublishedWaits {
  readonly id: string
  readonly at: Map<string, number>
}

/** Publishes for every hold what it waits for; returns the attempts. */
async function publishWaits(
  engine: Engine,
  name: string,
  holds: readonly Hold[],
  published: PublishedWaits,
  bounds: Deadline,
): Promise<ReadonlySet<string>> {
  const held = holds.filter((hold) => !hold.over).map((hold) => hold.watchdog.claim.attempt)
  const youngest = findYoungest(holds)
  if (youngest === undefined) return new Set()
  const value = JSON.stringify({ name, ...youngest, by: engine.env.client, id: published.id } satisfies Wait)
  const now = engine.clock.now()
  for (const attempt of held) {
    // Not rewritten while others trust it: another version would look like another wait.
    if (now - (published.at.get(attempt) ?? Number.NEGATIVE_INFINITY) < recordTtl / 2) continue
    published.at.set(attempt, now)
    await new CellRef(engine, 'waits', attempt).update(() => ({ value, keep: recordTtl }), bounds)
  }
  return new Set(held)
}

function findYoungest(holds: readonly Hold[]): Pick<Wait, 'token' | 'youngest'> | undefined {
  let found: Pick<Wait, 'token' | 'youngest'> | undefined
  for (const { over, token, watchdog } of holds)
    if (!over && token > (found?.token ?? 0)) found = { token, youngest: watchdog.claim.attempt }
  return found
}

function isYounger(one: Pick<Wait, 'token' | 'youngest'>, other: Pick<Wait, 'token' | 'youngest'>): boolean {
  return one.token === other.token ? one.youngest > other.youngest : one.token > other.token
}

/** The ring from the awaited lock back to one of `mine`, if there is one. */
async function findCycle(
  engine: Engine,
  name: string,
  ownAttempts: ReadonlySet<string>,
  bounds: Deadline,
): Promise<readonly Step[] | undefined> {
  let paths: { readonly at: string; readonly steps: readonly Step[] }[] = [{ at: name, steps: [] }]
  const seen = new Set([name])
  for (let length = 0; length < maxCycle && paths.length > 0; length++) {
    const longer: typeof paths = []
    for (const { at, steps } of paths) {
      const { holders } = await engine.driver.inspect(at)
      for (const { attempt, mode, expiresIn } of holders) {
        if (mode.kind === 'permits' || expiresIn <= 0) continue
        if (ownAttempts.has(attempt)) return steps.length > 0 ? steps : undefined
        const cell = await new CellRef(engine, 'waits', attempt).read(bounds)
        if (cell === undefined) continue
        const wait = JSON.parse(cell.value) as Wait
        if (seen.has(wait.name) && wait.name !== name) continue
        seen.add(wait.name)
        longer.push({ at: wait.name, steps: [...steps, { ...wait, attempt, version: cell.version }] })
      }
    }
    paths = longer
  }
  return undefined
}

function isSameCycle(one: readonly Step[], two: readonly Step[]): boolean {
  const key = (steps: readonly Step[]) => steps.map(({ attempt, version }) => [attempt, version])
  return JSON.stringify(key(one)) === JSON.stringify(key(two))
}

function toDeadlockError(name: string, cycle: readonly Step[]): DeadlockError {
  const names = [name, ...cycle.map((step) => step.name)]
  const steps = cycle.map(
    (step, i) =>
      `${quote(names[i] ?? '')} is held by ${printable(step.by)}, who waits for ${quote(step.name)}`,
  )
  const detail = `${steps.join('; ')}, which this context holds. Take them in one order everywhere, or with all()`
  return new DeadlockError(name, detail, names)
}

async function removeWait(engine: Engine, attempt: string, id: string): Promise<void> {
  if (engine.closed) return
  const gone = { value: undefined, keep: 0 }
  await withDeadline(engine, { wait: recordTtl }, (bounds) =>
    new CellRef(engine, 'waits', attempt).update(
      (cell) => (cell !== undefined && (JSON.parse(cell.value) as Wait).id === id ? gone : undefined),
      bounds,
    ),
  ).catch(() => undefined)
}

function pause({ clock }: Engine, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = clock.at(clock.now() + ms, () => {
      signal.removeEventListener('abort', ended)
      resolve()
    })
    const ended = () => {
      stop()
      reject(signal.reason)
    }
    signal.addEventListener('abort', ended, { once: true })
  })
}
