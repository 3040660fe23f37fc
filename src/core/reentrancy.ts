/**
 * Which locks the current async context holds. That is known inside `run`, and only there, because only `run` knows
 * where a hold begins and ends. A promise started inside `run` that outlives it no longer counts: the lease of its
 * frame has ended.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Engine } from './engine.js'
import { DeadlockError } from './errors.js'
import type { Hold } from './hold.js'
import { HeldLease } from './lease.js'
import type { Mode } from './mode.js'
import { describe } from './name.js'
import type { Terms } from './options.js'

interface Frame {
  readonly lease: HeldLease
  readonly outer: Frame | undefined
}

const frames = new AsyncLocalStorage<Frame>()

/** Runs `fn` inside `lease`. */
export function runInside<R>(lease: HeldLease, fn: () => R): R {
  return frames.run({ lease, outer: frames.getStore() }, fn)
}

/**
 * Enters what this context (or the lease given as `reentrant`) already holds; `undefined`: it holds nothing of that
 * name. A reader inside its own writer always enters: the writer's grant covers it, and it may outlive the writer.
 * @throws DeadlockError when the wait could never end: the same lock again without `reentrant`, a writer inside its
 * own reader.
 */
export function reenter(
  engine: Engine,
  name: string,
  mode: Mode,
  { reentrant, holding }: Pick<Terms, 'reentrant' | 'holding'>,
  once: boolean,
): HeldLease | undefined {
  const explicit = typeof reentrant !== 'boolean'
  if (explicit && !(reentrant instanceof HeldLease)) {
    throw new TypeError(
      `reentrant must be true, false or a lease of this library, got ${describe(reentrant)}`,
    )
  }
  const holds = explicit ? [reentrant.hold] : heldBy(engine, holding, name)
  const hold = holds[0]
  if (hold === undefined) return undefined
  if (explicit && (hold.engine !== engine || hold.name !== name)) {
    throw new TypeError(
      `reentrant was given a lease of ${describe(hold.name)}, which cannot be entered as ${describe(name)}`,
    )
  }
  if (hold.mode.kind === 'permits' || mode.kind === 'permits') return permitsAgain(name, holds, mode, once)
  const covers = hold.mode.kind === 'exclusive' || mode.kind === 'shared'
  if (covers && (reentrant !== false || (hold.mode.kind === 'exclusive' && mode.kind === 'shared'))) {
    hold.assertEnterable()
    return new HeldLease(hold, mode.kind)
  }
  if (once) return undefined
  throw new DeadlockError(
    name,
    covers
      ? 'this async context holds it already; pass reentrant: true to enter it again'
      : 'this async context holds it for reading; release that first, a reader cannot become a writer while others may read',
  )
}

/** More permits of the same semaphore are an ordinary claim, unless it could not be met even if all others released theirs. */
function permitsAgain(name: string, holds: readonly Hold[], mode: Mode, once: boolean): undefined {
  if (once) return undefined
  let taken = 0
  for (const hold of holds) if (hold.mode.kind === 'permits') taken += hold.mode.take
  if (mode.kind === 'permits' && taken + mode.take <= mode.of) return undefined
  throw new DeadlockError(
    name,
    mode.kind === 'permits'
      ? `this async context holds ${taken} of ${mode.of} permits already and asks for ${mode.take} more`
      : 'this async context holds permits of the same name',
  )
}

/** The holds that a wait of this context keeps: those given in `holding`, and those that enclose it. @throws TypeError */
export function heldBy(engine: Engine, holding: Terms['holding'], name?: string): Hold[] {
  const inside = holdsOfContext(engine, name)
  if (holding === undefined) return inside
  const leases: unknown[] = Array.isArray(holding) ? holding : [holding]
  const holds = leases.flatMap(findHolds).filter((hold) => {
    return hold.engine === engine && !hold.over && (name === undefined || hold.name === name)
  })
  return [...new Set([...holds.toReversed(), ...inside])]
}

/** The holds of one lease, or of several as one. */
function findHolds(lease: unknown): Hold[] {
  if (lease instanceof HeldLease) return [lease.hold]
  const { leases } = (lease ?? {}) as { readonly leases?: unknown }
  if (!Array.isArray(leases))
    throw new TypeError(`holding must be leases of this library, got ${describe(lease)}`)
  return leases.flatMap(findHolds)
}

/** The holds that enclose this context, the innermost first; only those of `name`, if it is given. */
export function holdsOfContext(engine: Engine, name?: string): Hold[] {
  const holds: Hold[] = []
  for (let frame = frames.getStore(); frame !== undefined; frame = frame.outer) {
    const { hold } = frame.lease
    const other = hold.engine !== engine || (name !== undefined && hold.name !== name)
    if (other || hold.over || holds.includes(hold)) continue
    holds.push(hold)
  }
  return holds
}
