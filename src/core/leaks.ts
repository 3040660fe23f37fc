/**
 * Finds leases that were never released: the watchdog renews them for ever, and all other callers wait. An
 * unreachable lease cannot be released any more; only the garbage collector finds it. One that is held far longer
 * than is usual for its name may be forgotten, too. Each is reported once, with the stack of its `acquire`.
 */
import { type Duration, duration } from './duration.js'
import type { Engine } from './engine.js'
import type { Hold } from './hold.js'
import { checkKnown } from './known-options.js'
import type { HeldLease } from './lease.js'
import { describe, quote } from './name.js'
import type { Entry } from './timer-queue.js'

export interface LeakWarningOptions {
  /** A lease is reported when it is held this many times longer than usual for its name. @default 10 */
  readonly times?: number
  /** How long a lease must be held before it can be reported for its length, in ms. @default 10_000 */
  readonly atLeast?: Duration
}

export interface LeakTerms {
  readonly times: number
  readonly atLeast: number
}

/** After fewer holds of a name it is not known what is usual. */
const minHolds = 5
/** Names whose usual length is remembered. */
const maxNames = 1_000
/** Weight of the newest hold in the moving average. */
const newest = 0.2

/** @returns undefined: do not look for leaks. @throws TypeError, RangeError */
export function leakTerms(given: unknown): LeakTerms | undefined {
  if (given === false) return undefined
  if (given === undefined && process.env.NODE_ENV !== 'development') return undefined
  const options: LeakWarningOptions | undefined =
    given === undefined || given === true ? {} : toOptions(given)
  checkKnown('leakWarning', options, ['times', 'atLeast'])
  const { times = 10, atLeast = 10_000 } = options
  if (typeof times !== 'number' || !(times >= 2))
    throw new RangeError(`leakWarning.times must be a number from 2, got ${describe(times)}`)
  return { times, atLeast: duration('leakWarning.atLeast', atLeast, 1, true) }
}

function toOptions(given: unknown): LeakWarningOptions {
  if (typeof given === 'object' && given !== null && !Array.isArray(given)) return given
  throw new TypeError(
    `leakWarning must be true, false or an object such as { atLeast: '1m' }, got ${describe(given)}`,
  )
}

/** Frames of this library above the caller's, at most. */
const ownFrames = 8
/**
 * The folder of this library as stacks name it: of its sources, with source maps or without, or of the installed package, whose files are
 * bundles. Undefined in a bundle of others, which has their code in the same file.
 */
const [, library] =
  /at (?:.*\()?(.+?)core\/leaks\.[jt]s:/.exec(new Error('here').stack ?? '') ??
  /at (?:.*\()?(.+\/node_modules\/holdfast\/)/.exec(new Error('here').stack ?? '') ??
  []

/** The lines of a stack from the caller's own on. */
function callerFrames(stack: string): string {
  const lines = stack.split('\n').slice(1)
  const isOurs = (line: string) =>
    (library !== undefined && line.includes(library)) || line.includes('at new Promise (<anonymous>)')
  while (lines[0] !== undefined && isOurs(lines[0])) lines.shift()
  return lines.join('\n')
}

export class Leaks {
  readonly #engine: Engine
  readonly #terms: LeakTerms
  /** The moving average of the time a name is held, in ms, and the number of holds. */
  readonly #averages = new Map<string, { average: number; holds: number }>()
  readonly #registry = new FinalizationRegistry<Watched>((watched) => watched.unreachable())

  constructor(engine: Engine, terms: LeakTerms) {
    this.#engine = engine
    this.#terms = terms
  }

  /** The stack of the present call, as text: until it is formatted, V8 keeps alive what the frames refer to, the lease included. */
  stack(): string {
    const caught: { readonly stack?: string } = {}
    const { stackTraceLimit } = Error
    Error.stackTraceLimit = stackTraceLimit + ownFrames
    Error.captureStackTrace(caught, this.stack)
    const { stack = '' } = caught
    Error.stackTraceLimit = stackTraceLimit
    return stack
  }

  watch(lease: HeldLease, stack: string): void {
    const { clock, timers } = this.#engine
    const watched = new Watched(this, lease.hold, stack, clock.now())
    lease.watched = watched
    this.#registry.register(lease, watched, watched)
    const usual = this.#usualDuration(lease.name)
    if (usual === undefined) return
    const longest = Math.max(this.#terms.atLeast, this.#terms.times * usual)
    if (longest < Number.POSITIVE_INFINITY) timers.set(watched, clock.now() + longest)
  }

  /** The lease was released. */
  ended(watched: Watched): void {
    this.#registry.unregister(watched)
    this.#engine.timers.remove(watched)
    const { name } = watched.hold
    const { average, holds } = this.#averages.get(name) ?? { average: 0, holds: 0 }
    const held = this.#engine.clock.now() - watched.since
    // Until there are enough, every hold counts the same.
    const share = Math.max(newest, 1 / (holds + 1))
    this.#averages.delete(name)
    this.#averages.set(name, { average: average + share * (held - average), holds: holds + 1 })
    if (this.#averages.size > maxNames)
      for (const oldest of this.#averages.keys()) return void this.#averages.delete(oldest)
  }

  report({ hold, since, stack }: Watched, why: 'unreachable' | 'long'): void {
    const { clock, events, closed } = this.#engine
    // A lease that is lost blocks nobody.
    if (closed || hold.over || hold.state() === 'lost') return
    const held = clock.now() - since
    const usual = this.#usualDuration(hold.name)
    const what =
      why === 'unreachable'
        ? 'was not released, and nobody can reach it any more; it blocks others until this process ends'
        : `has been held for ${Math.round(held)} ms; leases of this name usually last ${Math.round(usual ?? 0)} ms`
    const callers = callerFrames(stack)
    process.emitWarning(`the lease of ${quote(hold.name)} with token ${hold.token} ${what}`, {
      type: 'HoldfastWarning',
      code: 'HOLDFAST_LEAK',
      detail: `acquired:\n${callers}`,
    })
    const told = { ...hold.about(), why, held, stack: callers }
    events.emit('leaked', usual === undefined ? told : { ...told, usual })
  }

  #usualDuration(name: string): number | undefined {
    const known = this.#averages.get(name)
    return known === undefined || known.holds < minHolds ? undefined : known.average
  }
}

/** One lease. It must not refer to the lease itself, which could never be collected then. */
export class Watched implements Entry {
  slot: number | undefined
  readonly hold: Hold
  readonly stack: string
  /** Clock reading of the grant. */
  readonly since: number
  readonly #leaks: Leaks
  #reported = false

  constructor(leaks: Leaks, hold: Hold, stack: string, since: number) {
    this.#leaks = leaks
    this.hold = hold
    this.stack = stack
    this.since = since
  }

  onDue(): void {
    this.#report('long')
  }

  unreachable(): void {
    this.#report('unreachable')
  }

  released(): void {
    this.#leaks.ended(this)
  }

  #report(why: 'unreachable' | 'long'): void {
    if (this.#reported) return
    this.#reported = true
    this.#leaks.report(this, why)
  }
}
