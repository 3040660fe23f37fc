/**
 * A semaphore whose number of permits can be changed while it is used, and which tells who has them.
 *
 * Limit and line stand in one cell; whoever holds or waits has a shared lease of the name, by which it is seen to live. Every
 * change of the cell strikes out the dead and grants from the head of the line for as long as it fits, so it is first come,
 * first served, and a large request is not overtaken. After it was made smaller, nobody gets in until enough have left.
 * A plain semaphore takes one request where this one takes three or more.
 * Long because every change of the line and who is then served are read together.
 */
import { type Bounds, bounded, glance, Late } from '../core/bounded.js'
import { Box } from '../core/box.js'
import type { Cell } from '../core/cell.js'
import type { Engine } from '../core/engine.js'
import { AcquireTimeoutError } from '../core/errors.js'
import type { HeldLease, Lease } from '../core/lease.js'
import { checkName, describe, quote } from '../core/name.js'
import { type AcquireOptions, checkOptions, duration } from '../core/options.js'
import { lookEvery, type Roll, rollOf } from './roll.js'

export type PoolAcquireOptions = Pick<
  AcquireOptions,
  'wait' | 'signal' | 'ttl' | 'autoRenew' | 'maxHold' | 'note' | 'permits'
>

/** One who has permits. */
export interface PermitHolder {
  readonly permits: number
  readonly token: number
  /** Milliseconds since it came into the line, by the store's clock. */
  readonly since: number
  readonly note?: string
  readonly by?: string
}

export interface Pool {
  readonly name: string
  /**
   * Waits for `permits` (1). Its token grows with the order in which holders came, not in which they were served.
   * @throws AcquireTimeoutError; LeaseLostError when the place was lost; as `Lock.acquire`
   */
  acquire(options?: PoolAcquireOptions): Promise<Lease>
  /** One attempt: `undefined` when they are not free now. */
  tryAcquire(options?: Omit<PoolAcquireOptions, 'wait'>): Promise<Lease | undefined>
  /** Changes the number for everybody, at once. Holders keep what they have. @throws RangeError */
  resize(permits: number): Promise<void>
  /** How many there are. */
  size(): Promise<number>
  /** Who has how many, in the order in which they came. */
  holders(): Promise<readonly PermitHolder[]>
}

interface Place {
  readonly attempt: string
  readonly take: number
  readonly in: boolean
}

/** In the cell, as JSON. */
interface State {
  readonly size: number
  readonly line: readonly Place[]
}

const mostPermits = 1_000_000
const longestFarewell = 1_000

/** @param options.permits where nobody has said otherwise before: the number in the store stands */
export function pool(engine: Engine, name: string, options: { readonly permits: number }): Pool {
  checkName(name)
  const first = whole(`permits of pool ${quote(name)}`, options?.permits)
  const box = new Box(engine, 'pool', name)
  const roll = rollOf(box, name, 'a pool')
  const change = (bounds: Bounds, act: (line: readonly Place[], size: number) => State | undefined) =>
    box.update(async (cell) => {
      const { size, line } = stateIn(cell) ?? { size: first, line: [] }
      const living = new Set(
        await roll.living(
          line.map(({ attempt }) => attempt),
          bounds,
        ),
      )
      const next = act(
        line.filter(({ attempt }) => living.has(attempt)),
        size,
      )
      const value = next && JSON.stringify(served(next))
      return value === undefined || value === cell?.value
        ? undefined
        : { value, keep: Number.POSITIVE_INFINITY }
    }, bounds)

  const without = (attempt: string) => (bounds: Bounds) =>
    change(bounds, (line, size) => ({ size, line: line.filter((one) => one.attempt !== attempt) }))

  /** True once it has been served; a single look does not stand in line. */
  async function serve(lease: HeldLease, take: number, bounds: Bounds): Promise<true | undefined> {
    lease.assertHeld()
    const { attempt } = lease.hold.watchdog.claim
    const mine = (state: State | undefined) => state?.line.find((one) => one.attempt === attempt)
    const cell = await change(bounds, (line, size) => {
      if (line.some((one) => one.attempt === attempt)) return { size, line }
      const next = { size, line: [...line, { attempt, take, in: false }] }
      return bounds.once && mine(served(next))?.in !== true ? undefined : next
    })
    return mine(stateIn(cell))?.in || undefined
  }

  /** What it is seen to live by. Undefined: nobody told of it in time, or a mutex of this name was in the way. */
  async function seat(
    { wait: _, ...terms }: PoolAcquireOptions,
    wait: number,
  ): Promise<HeldLease | undefined> {
    if (wait === 0) return roll.lock.tryAcquire(terms)
    return roll.lock.take({ ...terms, wait }).catch((error: unknown) => {
      if (!(error instanceof AcquireTimeoutError) || error.cause !== undefined) throw error
      return undefined
    })
  }

  async function take(options: PoolAcquireOptions): Promise<Lease | undefined> {
    checkOptions(options)
    const { permits = 1, ...terms } = options
    whole(`permits asked of pool ${quote(name)}`, permits)
    const from = engine.clock.now()
    const wait = duration('wait', terms.wait ?? engine.defaults.wait, 0, true)
    const lease = await seat(terms, wait)
    if (lease === undefined) return undefined
    const { attempt } = lease.hold.watchdog.claim
    try {
      const left = wait === 0 ? 0 : Math.max(1, wait - (engine.clock.now() - from))
      const within = { wait: left, ...(terms.signal !== undefined && { signal: terms.signal }) }
      const done = await bounded(engine, within, (bounds) =>
        box.when(() => serve(lease, permits, bounds), bounds, lookEvery),
      )
      if (done === true) return leaving(lease, without(attempt))
      if (done instanceof Late && done.trouble !== undefined) throw done.trouble
    } catch (error) {
      await bounded(engine, { wait: longestFarewell }, without(attempt)).catch(() => undefined)
      await lease.release()
      throw error
    }
    await bounded(engine, { wait: longestFarewell }, without(attempt)).catch(() => undefined)
    await lease.release()
    return undefined
  }

  /** The lease goes first: from then on nobody counts it. What follows wakes those who wait. */
  function leaving(lease: HeldLease, leave: (bounds: Bounds) => Promise<unknown>): Lease {
    const release = lease.release.bind(lease)
    lease.release = async () => {
      const outcome = await release()
      if (outcome !== 'already-released' && !engine.closed)
        await bounded(engine, { wait: longestFarewell }, leave).catch(() => undefined)
      return outcome
    }
    return lease
  }

  return {
    name,
    async acquire(options = {}) {
      const from = engine.clock.now()
      const lease = await take(options)
      if (lease !== undefined) return lease
      const what = `${options.permits ?? 1} permits of pool ${quote(name)} were not free`
      throw new AcquireTimeoutError(name, engine.clock.now() - from, undefined, what)
    },
    async tryAcquire(options = {}) {
      checkOptions(options, ['ttl'])
      return take({ ...options, wait: 0 })
    },
    async resize(permits) {
      whole(`permits of pool ${quote(name)}`, permits)
      await glance(engine, name, (bounds) => change(bounds, (line) => ({ size: permits, line })))
    },
    size: () => glance(engine, name, async (bounds) => stateIn(await box.read(bounds))?.size ?? first),
    holders: () => glance(engine, name, (bounds) => holdersOf(roll, box, bounds)),
  }
}

/** Whoever fits from the head of the line is in. */
function served({ size, line }: State): State {
  let left = size
  for (const place of line) if (place.in) left -= place.take
  let open = true
  const next = line.map((place) => {
    if (place.in) return place
    open = open && place.take <= left
    if (open) left -= place.take
    return open ? { ...place, in: true } : place
  })
  return { size, line: next }
}

async function holdersOf(roll: Roll, box: Box, bounds: Bounds): Promise<readonly PermitHolder[]> {
  const places = new Map(stateIn(await box.read(bounds))?.line.map((place) => [place.attempt, place]))
  const { holders } = await box.trying(bounds, () => box.engine.driver.inspect(roll.lock.name))
  return holders
    .filter(({ attempt, expiresIn }) => places.get(attempt)?.in === true && expiresIn > 0)
    .sort((a, b) => a.token - b.token)
    .map(({ attempt, token, heldFor, note, by }) => ({
      permits: places.get(attempt)?.take ?? 1,
      token,
      since: heldFor,
      ...(note !== undefined && { note }),
      ...(by !== undefined && { by }),
    }))
}

function stateIn(cell: Cell | undefined): State | undefined {
  return cell === undefined ? undefined : (JSON.parse(cell.value) as State)
}

function whole(what: string, value: unknown): number {
  if (typeof value !== 'number') throw new TypeError(`${what} must be a number, got ${describe(value)}`)
  if (!Number.isInteger(value) || value < 1 || value > mostPermits)
    throw new RangeError(`${what} must be an integer from 1 to ${mostPermits}, got ${value}`)
  return value
}
