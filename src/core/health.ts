/** Can the store grant now? The only proof is a grant, so `health()` acquires a lock of its own and releases it. */

import { createClaim } from './create-claim.js'
import type { Grant, Wait } from './driver.js'
import { type Duration, duration } from './duration.js'
import type { Engine } from './engine.js'
import { BackendError, unavailable } from './errors.js'
import { checkKnown } from './known-options.js'
import { countLocal } from './local-status.js'
import { exclusive, shared } from './mode.js'
import { checkOptions } from './options.js'
import { TimeLimit } from './time-limit.js'
import { Watchdog } from './watchdog.js'

export interface HealthOptions {
  /** Longest time to wait for the store's reply, in ms. @default 2_000 */
  readonly timeout?: Duration
}

/**
 * `ok`: the store granted a lock just now. `quarantine`: it answers, but may have forgotten locks and grants none yet.
 * `unavailable`: it did not answer, or refused. `closed`: these locks were closed.
 */
export type HealthStatus = 'ok' | 'quarantine' | 'unavailable' | 'closed'

export interface Health {
  readonly status: HealthStatus
  /** `status` is `ok`. */
  readonly ok: boolean
  readonly driver: string
  /** Time from the request to the store's reply, or until the wait for it ended, in ms. */
  readonly took: number
  /** Leases held through this `createLocks`, including doubtful ones. */
  readonly held: number
  /** Leases whose renewal is overdue. */
  readonly doubtful: number
  /** Acquisitions that wait. */
  readonly waiting: number
  /** Why `status` is not `ok`. `publicMessage` is fit for outsiders. */
  readonly error?: BackendError
}

/** The lock that `health()` acquires, in shared mode where the driver has one, so that probes do not block each other. */
export const probeName = 'holdfast:health'
const defaultTimeout = 2_000
/** A process that crashes within a probe leaves the lock taken for this long, in ms. */
const probeTtl = 5_000

/** Sends one request at a time: probes that come meanwhile share its result. */
export class Prober {
  readonly #engine: Engine
  #probing: Promise<Probed> | undefined

  constructor(engine: Engine) {
    this.#engine = engine
  }

  async health(options?: HealthOptions): Promise<Health> {
    const timeout = parseTimeout('health()', options)
    const engine = this.#engine
    if (engine.closed) return this.#result({ status: 'closed', took: 0, error: engine.closedError() })
    const begin = engine.clock.now()
    this.#probing ??= probe(engine, timeout).finally(() => {
      this.#probing = undefined
    })
    const probed =
      (await withinTime(engine, timeout, this.#probing)) ?? this.#timedOut(engine.clock.now() - begin)
    return this.#result(engine.closed ? { ...probed, status: 'closed', error: engine.closedError() } : probed)
  }

  /** @throws BackendError */
  async ping(options?: HealthOptions): Promise<number> {
    const timeout = parseTimeout('ping()', options)
    const engine = this.#engine
    engine.assertOpen()
    const begin = engine.clock.now()
    const answer = engine.driver.inspect(probeName)
    const held = await withinTime(engine, timeout, answer).catch((error: unknown) => {
      engine.events.storeFailed(engine.driver.name, undefined, 'inspect', error)
      throw error
    })
    const took = engine.clock.now() - begin
    if (held !== undefined) return took
    const silent = unavailable(engine.driver.name, probeName, took, undefined)
    engine.events.storeFailed(engine.driver.name, undefined, 'inspect', silent)
    throw silent
  }

  /** Another caller's probe, which may take longer than this caller waits. */
  #timedOut(took: number): Probed {
    const { driver } = this.#engine
    return { status: 'unavailable', took, error: unavailable(driver.name, probeName, took, undefined) }
  }

  #result(probed: Probed): Health {
    const sums = { held: 0, doubtful: 0, waiting: 0 }
    for (const queue of this.#engine.queues.values()) {
      const { held, doubtful, waiting } = countLocal(queue)
      sums.held += held
      sums.doubtful += doubtful
      sums.waiting += waiting
    }
    return { ...probed, ok: probed.status === 'ok', driver: this.#engine.driver.name, ...sums }
  }
}

type Probed = Pick<Health, 'status' | 'took' | 'error'>

async function probe(engine: Engine, timeout: number): Promise<Probed> {
  const { clock, driver } = engine
  const begin = clock.now()
  const { acquired, errors } = attempt(engine, timeout)
  const outcome = await acquired.then(
    () => errors.error,
    (error: unknown) => error,
  )
  const took = clock.now() - begin
  if (outcome === undefined) return { status: 'ok', took }
  const error =
    outcome instanceof BackendError
      ? outcome
      : new BackendError(driver.name, String(outcome), { cause: outcome })
  engine.events.storeFailed(driver.name, undefined, 'acquire', error)
  return { status: error.quarantined ? 'quarantine' : 'unavailable', took, error }
}

/** A single attempt. Rejects after `timeout`; a grant that comes later is released. */
function attempt(engine: Engine, timeout: number): { acquired: Promise<void>; errors: ProbeErrors } {
  const { driver, env, defaults } = engine
  const controller = new AbortController()
  const errors: ProbeErrors = {}
  const wait: Wait = {
    signal: controller.signal,
    get ended() {
      return controller.signal.aborted
    },
    remaining: () => 0,
    report: (by) => {
      errors.error = by.error
    },
  }
  const mode = driver.traits.modes.includes('shared') ? shared : exclusive
  // A store that keeps only shorter leases has a shorter default.
  const ttl = Math.max(Math.min(probeTtl, defaults.ttl), driver.traits.minTtl)
  const terms = { ...defaults, ttl, lockDelay: 0, fair: false, note: undefined }
  const claim = createClaim(probeName, env.id(), mode, terms)
  const release = (grant: Grant | undefined) => {
    if (grant === undefined) return
    const given = { ttl, lockDelay: 0, autoRenew: false }
    void new Watchdog(engine, claim, grant, given).release().catch(() => undefined)
  }
  const asked = driver.acquire(claim, wait).then(release)
  const acquired = withinTime(
    engine,
    timeout,
    asked.then(() => true),
  ).then((answered) => {
    controller.abort()
    if (answered === undefined) throw unavailable(driver.name, probeName, timeout, errors.error)
  })
  return { acquired, errors }
}

interface ProbeErrors {
  error?: BackendError | undefined
}

/** Undefined: no reply in time. */
function withinTime<R>({ clock }: Engine, ms: number, work: Promise<R>): Promise<R | undefined> {
  return new Promise((resolve, reject) => {
    const limit = new TimeLimit(clock, ms, () => resolve(undefined)).armSoon()
    work.then(resolve, reject).finally(() => limit.stop())
  })
}

function parseTimeout(whose: string, options: HealthOptions | undefined): number {
  checkOptions(options, ['timeout'])
  if (options !== undefined) checkKnown(whose, options, ['timeout'])
  return duration('timeout', options?.timeout ?? defaultTimeout, 1, false)
}
