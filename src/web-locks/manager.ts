/** `lockManager(locks)`: the specification's LockManager over locks of any driver. */
import { randomUUID } from 'node:crypto'
import { type Lease, type Lock, type Locks, toMilliseconds, UnsupportedError } from 'holdfast'
import { abortError, type LockRequest, notSupported, readArguments } from './arguments.js'
import { CallOrder, type QueuedCall } from './call-order.js'
import { HeldLock } from './held-lock.js'
import { decode, encode, lockName, prefix } from './names.js'
import { acquire, type HeldPair, type LockPair, release, steal, tryAcquire } from './queue-and-gate.js'
import { snapshot } from './snapshot.js'
import type {
  LockManager,
  LockManagerOptions,
  LockManagerSnapshot,
  LockMode,
  LocksOfAnyDriver,
} from './types.js'
import { watch } from './watch.js'

/** How many names too long for the store this manager remembers, so that `query` can report them. */
const maxLongNames = 1000

const minTtl = 10
const maxTtl = 366 * 86_400_000

/**
 * @param locks from `createLocks(driver)`; you still close them.
 * @throws TypeError, RangeError for bad options
 */
export function lockManager(locks: LocksOfAnyDriver, options: LockManagerOptions = {}): LockManager {
  if (typeof locks?.mutex !== 'function')
    throw new TypeError('lockManager takes what createLocks(driver) returns')
  return new Manager(locks, options) as LockManager
}

class Manager {
  readonly #locks: LocksOfAnyDriver
  readonly #clientId: string
  readonly #options: LockPair['options']
  readonly #held = new Map<string, Set<Lease>>()
  readonly #order = new CallOrder()
  readonly #requestIds = new WeakMap<HeldPair, string>()
  /** The requests whose callbacks run, and the order in which they began. */
  readonly #begun = new Map<string, number>()
  readonly #longNames = new Map<string, string>()
  #requests = 0
  #callbacks = 0

  constructor(locks: LocksOfAnyDriver, { clientId = randomUUID(), ttl }: LockManagerOptions) {
    if (typeof clientId !== 'string' || !/^[\w.-]{1,64}$/.test(clientId))
      throw new RangeError(
        `clientId must be 1 to 64 letters, digits, '-', '_' or '.', got ${JSON.stringify(clientId)}`,
      )
    const ms = ttl === undefined ? minTtl : (toMilliseconds(ttl) ?? Number.NaN)
    if (!(ms >= minTtl && ms <= maxTtl))
      throw new RangeError(`ttl must be from ${minTtl} to ${maxTtl} ms, got ${JSON.stringify(ttl)}`)
    this.#locks = locks
    this.#clientId = clientId
    this.#options = { fair: locks.driver.traits.fair, autoRenew: true, ...(ttl !== undefined && { ttl }) }
  }

  get [Symbol.toStringTag](): string {
    return 'LockManager'
  }

  async request(...args: unknown[]): Promise<unknown> {
    const asked = readArguments(args)
    // In the order of the calls: nothing is awaited before this.
    const place = this.#order.enqueue(asked.name)
    try {
      const passed = await this.#ask(asked, place)
      await place.earlier
      // Not awaited: once the callback has been called, the next one may be.
      return passed === undefined ? asked.callback(null) : this.#hold(asked, passed)
    } finally {
      place.decided()
    }
  }

  /** Sees every request made before it. */
  async query(): Promise<LockManagerSnapshot> {
    await this.#order.settled()
    const standings = await supported(() => this.#locks.list(prefix))
    const nameOf = (encoded: string) => decode(encoded) ?? this.#longNames.get(encoded) ?? encoded
    return snapshot(standings, nameOf, (request) => this.#begun.get(request))
  }

  /** `undefined`: not free, and the request does not wait. */
  async #ask(asked: LockRequest, place: QueuedCall): Promise<HeldPair | undefined> {
    let unwatch = () => {}
    try {
      const pair = await supported(() => this.#pair(asked))
      unwatch = watch(this.#locks, pair, place)
      // Nothing reports when a request outside the store's own queue has begun to wait.
      if (!this.#options.fair) place.decided()
      await place.turn(asked.signal)
      const passed = asked.steal
        ? await supported(() => this.#steal(pair, asked.name))
        : await (asked.ifAvailable ? tryAcquire(pair) : acquire(pair, asked.signal))
      if (passed !== undefined) this.#requestIds.set(passed, pair.requestNote.request)
      return passed
    } finally {
      unwatch()
      place.queued()
    }
  }

  async #steal(pair: LockPair, name: string): Promise<HeldPair> {
    const passed = await steal(pair)
    // A former holder in this very process need not wait for its next renewal to learn of it.
    for (const lease of this.#held.get(name) ?? []) lease.extend().catch(() => undefined)
    return passed
  }

  /** The callback runs; the first of its end and the loss of the lock settles the request. */
  #hold({ name, mode, callback }: LockRequest, passed: HeldPair): Promise<unknown> {
    const { gate } = passed
    const request = this.#requestIds.get(passed) ?? ''
    this.#begun.set(request, ++this.#callbacks)
    const mine = this.#held.get(name) ?? new Set()
    this.#held.set(name, mine.add(gate))
    return new Promise((resolve, reject) => {
      const lost = () => {
        // Its hold of the line must not keep the next request waiting until the old code ends.
        passed.queue?.release().catch(() => undefined)
        reject(abortError(`the lock ${JSON.stringify(name)} was stolen or lost`, gate.signal.reason))
      }
      gate.signal.addEventListener('abort', lost)
      const over = async () => {
        gate.signal.removeEventListener('abort', lost)
        this.#begun.delete(request)
        mine.delete(gate)
        if (mine.size === 0 && this.#held.get(name) === mine) this.#held.delete(name)
        // The synchronous check: the loss may be known to the clock before any event.
        if (!gate.isHeld) lost()
        await release(passed)
        if (gate.state === 'lost') lost()
      }
      const settled = Promise.resolve(new HeldLock(name, mode, gate)).then(callback)
      settled.then(
        (result) => over().then(() => resolve(result)),
        (error: unknown) => over().then(() => reject(error)),
      )
      if (!gate.isHeld) lost()
    })
  }

  #pair({ name, mode, steal }: LockRequest): LockPair {
    const encoded = encode(name)
    if (decode(encoded) === undefined) this.#remember(encoded, name)
    const gateName = lockName('gate', encoded)
    const queueName = lockName('line', encoded)
    const request = `${process.pid}.${++this.#requests}`
    return {
      requestNote: { clientId: this.#clientId, request: `${this.#clientId.slice(0, 8)}.${request}`, steal },
      queueName,
      queue: this.#lock(queueName, mode),
      gate: this.#lock(gateName, mode),
      options: this.#options,
      inspectGate: () => this.#locks.inspect(gateName),
      forceGate: () => this.#locks.forceRelease(gateName),
    }
  }

  #lock(name: string, mode: LockMode): Lock {
    // A driver without shared mode throws UnsupportedError here.
    return mode === 'exclusive'
      ? this.#locks.mutex(name)
      : (this.#locks as unknown as Locks).readWrite(name).read
  }

  #remember(encoded: string, name: string): void {
    this.#longNames.set(encoded, name)
    const [oldest] = this.#longNames.keys()
    if (this.#longNames.size > maxLongNames && oldest !== undefined) this.#longNames.delete(oldest)
  }
}

/** Turns what the driver does not support into the specification's NotSupportedError. */
async function supported<T>(ask: () => T | Promise<T>): Promise<T> {
  try {
    return await ask()
  } catch (error) {
    if (error instanceof UnsupportedError) throw notSupported(error.message, error)
    throw error
  }
}
