/**
 * The basis of every test of the suite: clients, unique names, timeouts, and a check for left-overs.
 * Long because every test finds these in one object.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { BackendError } from 'holdfast'
import { busyFactor } from './busy.js'
import { type Client, openClient } from './client.js'
import type { Fixture } from './fixture.js'

export class TestContext {
  readonly fixture: Fixture
  /** Short: for leases meant to expire. Everything else uses the default, so that a slow machine loses nothing. */
  readonly ttl: number
  /** For a hold that must last until the test acts on it, and expire then. */
  readonly lasting: number
  /** The same if the test acts a moment later: the machine may stall for a second meanwhile. */
  readonly momentary: number
  readonly timeout: number
  readonly #clients: Client[] = []
  readonly #names: string[] = []
  readonly #others: ((name: string) => number)[] = []
  readonly #cleanups: (() => Promise<void> | void)[] = []
  /** The test has cut a client off, or stopped the store. */
  #isDisturbed = false

  constructor(fixture: Fixture) {
    this.fixture = fixture
    this.ttl = Math.max(fixture.ttl ?? 1_000, fixture.traits.minTtl)
    this.lasting = Math.max(this.ttl, 3_000)
    this.momentary = Math.max(this.ttl, 2_000)
    this.timeout = fixture.timeout ?? 10_000
  }

  client(): Client {
    const client = openClient(this.fixture.make())
    this.#clients.push(client)
    return client
  }

  /**
   * Opens whatever the clients open on first use: on a busy machine that takes longer than a short lease lasts, or than a single attempt
   * may take.
   */
  async connected(...clients: readonly Client[]): Promise<void> {
    const name = this.name('connected')
    const answers = ({ locks }: Client) =>
      locks.inspect(name).then(
        () => true,
        () => false,
      )
    await Promise.all(clients.map((client) => this.until('a client to connect', () => answers(client))))
  }

  /** A unique name; the end of the test checks that it has neither holders nor waiters. */
  name(label = 'x'): string {
    const name = `${label} ${randomBytes(6).toString('hex')}`
    this.#names.push(name)
    return name
  }

  /** Runs after the test, before the clients are closed. */
  cleanup(fn: () => Promise<void> | void): void {
    this.#cleanups.push(fn)
  }

  async cut(client: Client): Promise<void> {
    this.#isDisturbed = true
    await this.fixture.faults.cut(client.factory)
  }

  /** Only where the fixture can. */
  async stop(): Promise<void> {
    this.#isDisturbed = true
    await this.fixture.faults.stop?.()
  }

  async heal(): Promise<void> {
    await this.fixture.faults.heal()
  }

  /**
   * Polls until the condition holds, less and less often: a poll costs time in client and server.
   * @throws Error naming `what` after `within` ms, or more on a busy machine
   */
  async until(
    what: string,
    condition: () => boolean | Promise<boolean>,
    within: number = this.timeout,
  ): Promise<void> {
    const began = performance.now()
    while (!(await condition())) {
      const waited = performance.now() - began
      if (waited > within * busyFactor()) throw new Error(`timed out after ${within} ms waiting for ${what}`)
      await pause(Math.min(5 + waited / 10, 50))
    }
  }

  /** Resolves once `count` waiters are queued for `name`. */
  async queued(client: Client, name: string, count: number, within?: number): Promise<void> {
    const waiting = async () => (await this.waiters(client, name)) >= count
    await this.until(`${count} in the queue for ${name}`, waiting, within)
  }

  /** Number of waiters for `name`: as the store reports it to `client`, or, if the store keeps no queue, as the waiters themselves were notified. */
  async waiters(client: Client, name: string): Promise<number> {
    const seen = (await client.locks.inspect(name)).waiters.length
    if (this.fixture.traits.queue !== false) return seen
    assert.equal(seen, 0, 'a store without a queue reported a waiter')
    const counts = [...this.#clients.map(({ waiting }) => waiting), ...this.#others]
    return counts.reduce((sum, count) => sum + count(name), 0)
  }

  /** Adds another possible waiter: a child process. */
  addWaiterCount(count: (name: string) => number): void {
    this.#others.push(count)
  }

  /** Rejects unless `promise` settles within so many ms, or more on a busy machine. */
  async settlesInTime<T>(what: string, promise: Promise<T>, within: number = this.timeout): Promise<T> {
    const began = performance.now()
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      const check = () => {
        const left = began + within * busyFactor() - performance.now()
        if (left > 0) timer = setTimeout(check, left)
        else reject(new Error(`timed out after ${within} ms waiting for ${what}`))
      }
      check()
    })
    return Promise.race([promise, late]).finally(() => clearTimeout(timer))
  }

  /** Nobody holds `name`: another client gets it at once. Leaves it free. */
  async assertFree(client: Client, name: string): Promise<void> {
    await this.until(`${name} to be free`, async () => (await this.#isFree(client, name)) === true)
  }

  /** `name` is held: another client does not get it. */
  async assertHeld(client: Client, name: string): Promise<void> {
    let free: boolean | undefined
    await this.until('the store to tell', async () => {
      free = await this.#isFree(client, name)
      return free !== undefined
    })
    assert.equal(free, false, `${name} is free, it should be held`)
  }

  /** Undefined: the store did not answer in time, so it is not known. */
  async #isFree({ locks }: Client, name: string): Promise<boolean | undefined> {
    try {
      const lease = await locks.mutex(name).tryAcquire()
      await lease?.release()
      return lease !== undefined
    } catch (error) {
      if (this.#mayPass(error)) return undefined
      throw error
    }
  }

  /**
   * The store did not answer in time, or this is after an outage: then the servers of a cluster need a moment to find each other. Any other error
   * is a mistake of the driver.
   */
  #mayPass(error: unknown): boolean {
    return error instanceof BackendError && (this.#isDisturbed || error.code === 'UNAVAILABLE')
  }

  /** @throws Error if the test leaves anything in the store beyond its time */
  async close(): Promise<void> {
    await this.heal()
    for (const cleanup of this.#cleanups.reverse()) await cleanup()
    await Promise.all(this.#clients.map((client) => client.locks.close()))
    if (this.#names.length === 0) return
    const after = openClient(this.fixture.make())
    try {
      for (const name of this.#names) await this.#assertNothingLeft(after, name)
    } finally {
      await after.locks.close()
    }
  }

  async #assertNothingLeft(client: Client, name: string): Promise<void> {
    let left = ''
    let overdue = false
    const isFree = async () => {
      const status = await client.locks.inspect(name).catch((error: unknown) => {
        if (!this.#mayPass(error)) throw error
        left = String(error)
      })
      if (status === undefined) return false
      const { holders, waiters } = status
      const held = holders.filter((holder) => holder.expiresIn > 0)
      left = JSON.stringify({ held, waiters })
      overdue = holders.length > held.length
      return held.length + waiters.length === 0
    }
    await this.until(`nothing of ${name} to be left in the store`, isFree, 2 * this.ttl + this.timeout).catch(
      (error) => {
        throw new Error(`${error.message}; there still is ${left}`)
      },
    )
    // A store may list the hold of a dead process until another client takes the lock. Leave nothing behind to puzzle an operator.
    if (overdue) await this.assertFree(client, name)
  }
}

/** How a wait of a few milliseconds ends: the lock is held, or a slow store had not answered by then. */
export const expiredWait: { readonly code: RegExp } = { code: /^(ACQUIRE_TIMEOUT|UNAVAILABLE)$/ }

/** False when a wait of a few milliseconds is over, or a slow store had not answered by then. */
export const notYet = (short: Promise<boolean>): Promise<boolean> =>
  short.catch((error: { readonly code?: unknown }) => {
    if (!expiredWait.code.test(String(error.code))) throw error
    return false
  })

export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** Blocks the event loop: no timer, no I/O. */
export function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}
