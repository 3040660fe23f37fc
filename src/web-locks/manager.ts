/** `lockManager(locks)`: the specification's LockManager over locks of any driver. */
import { randomUUID } from 'node:crypto'
import { type Lease, type Lock, type Locks, UnsupportedError } from 'holdfast'
import { type Asked, abortError, notSupported, readArguments } from './arguments.js'
import { type Door, giveBack, type Passed, queueUp, steal, tryPass } from './gate.js'
import { HeldLock } from './held-lock.js'
import { decode, encode, lockName, noteOf, prefix } from './names.js'
import { Order, type Place } from './order.js'
import { snapshot } from './snapshot.js'
import type {
  LockManager,
  LockManagerOptions,
  LockManagerSnapshot,
  LockMode,
  LocksOfAnyDriver,
} from './types.js'

/** Names too long for the store that this manager remembers, so that it can tell them in `query`. */
const longNamesKept = 1000

/**
 * @param locks from `createLocks(driver)`; stay yours to close.
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
  readonly #options: Door['options']
  readonly #held = new Map<string, Set<Lease>>()
  readonly #order = new Order()
  readonly #longNames = new Map<string, string>()
  #requests = 0

  constructor(locks: LocksOfAnyDriver, { clientId = randomUUID(), ttl }: LockManagerOptions) {
    if (typeof clientId !== 'string' || !/^[\w.-]{1,64}$/.test(clientId))
      throw new RangeError(
        `clientId must be 1 to 64 letters, digits, '-', '_' or '.', got ${JSON.stringify(clientId)}`,
      )
    this.#locks = locks
    this.#clientId = clientId
    this.#options = { fair: locks.driver.traits.fair, autoRenew: true, ...(ttl !== undefined && { ttl }) }
  }

  get [Symbol.toStringTag](): string {
    return 'LockManager'
  }

  async request(...args: unknown[]): Promise<unknown> {
    const asked = readArguments(args)
    const passed = await this.#ask(asked)
    if (passed === undefined) return asked.callback(null)
    return this.#hold(asked, passed)
  }

  async query(): Promise<LockManagerSnapshot> {
    const standings = await supported(() => this.#locks.list(prefix))
    return snapshot(standings, (encoded) => decode(encoded) ?? this.#longNames.get(encoded) ?? encoded)
  }

  /** `undefined`: not free, and not to be waited for. */
  async #ask(asked: Asked): Promise<Passed | undefined> {
    const door = await supported(() => this.#door(asked))
    const place = this.#order.stand(asked.name)
    const unwatch = this.#watch(noteOf(door.mark), place)
    try {
      await place.turn(asked.signal)
      if (asked.steal) return await supported(() => this.#steal(door, asked.name))
      return await (asked.ifAvailable ? tryPass(door) : queueUp(door, asked.signal))
    } finally {
      unwatch()
      place.taken()
    }
  }

  /** Once its place in the store's line is known, be it the first one, the next request may go there too. */
  #watch(note: string, place: Place): () => void {
    const unwatch = () => {
      for (const off of watching) off()
    }
    const taken = () => {
      unwatch()
      place.taken()
    }
    const watching = [
      this.#locks.on('granted', (event) => void (event.note === note && taken())),
      this.#locks.on('waiting', ({ note: whose, blocked }) => {
        // A driver that keeps an order tells a position once it has one; it may tell of the holder before.
        const inLine = this.#options.fair ? blocked.position !== undefined : blocked.trouble === undefined
        if (whose === note && inLine) taken()
      }),
    ]
    return unwatch
  }

  async #steal(door: Door, name: string): Promise<Passed> {
    const passed = await steal(door)
    // Who held it in this very process need not wait for its next renewal to hear of it.
    for (const lease of this.#held.get(name) ?? []) lease.extend().catch(() => undefined)
    return passed
  }

  /** The callback runs; whatever comes first, its end or the loss of the lock, settles the request. */
  #hold({ name, mode, callback }: Asked, passed: Passed): Promise<unknown> {
    const { gate } = passed
    const mine = this.#held.get(name) ?? new Set()
    this.#held.set(name, mine.add(gate))
    return new Promise((resolve, reject) => {
      const lost = () => {
        // Its slot in the line must not keep the next one waiting until the old code ends.
        passed.line?.release().catch(() => undefined)
        reject(abortError(`the lock ${JSON.stringify(name)} was stolen or lost`, gate.signal.reason))
      }
      gate.signal.addEventListener('abort', lost)
      const over = async () => {
        gate.signal.removeEventListener('abort', lost)
        mine.delete(gate)
        if (mine.size === 0 && this.#held.get(name) === mine) this.#held.delete(name)
        // The synchronous check: the loss may be known to the clock before any event.
        if (!gate.isHeld) lost()
        await giveBack(passed)
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

  #door({ name, mode, steal }: Asked): Door {
    const encoded = encode(name)
    if (decode(encoded) === undefined) this.#remember(encoded, name)
    const gateName = lockName('gate', encoded)
    const request = `${process.pid}.${++this.#requests}`
    return {
      mark: { clientId: this.#clientId, request: `${this.#clientId.slice(0, 8)}.${request}`, steal },
      line: this.#lock(lockName('line', encoded), mode),
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
    if (this.#longNames.size > longNamesKept && oldest !== undefined) this.#longNames.delete(oldest)
  }
}

/** What the driver cannot do is the specification's NotSupportedError. */
async function supported<T>(ask: () => T | Promise<T>): Promise<T> {
  try {
    return await ask()
  } catch (error) {
    if (error instanceof UnsupportedError) throw notSupported(error.message, error)
    throw error
  }
}
