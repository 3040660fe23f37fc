/**
 * A simulated connection for stores that have none: a client's requests go through a gate that can be shut. A request made while it is shut
 * never arrives; a reply that comes while it is shut is lost, although the store has executed the request.
 */
import { BackendError, type DriverFactory } from 'holdfast'
import type { Cells, Claim, Driver, Grant, ReleaseResult, Wait } from 'holdfast/driver'
import type { Faults, Fixture } from './fixture.js'

/** `make` and `faults` for a store inside this process: each call of `open` creates another client of it. */
export function inProcess(open: () => DriverFactory): Pick<Fixture, 'make'> & { readonly faults: Faults } {
  const gates = new Map<DriverFactory, Gate>()
  const make = () => {
    const gate = new Gate()
    const factory = gated(open(), gate)
    gates.set(factory, gate)
    return factory
  }
  const faults: Faults = {
    cut: (client) => gates.get(client)?.shut(),
    heal: () => {
      for (const gate of gates.values()) gate.open()
    },
  }
  return { make, faults }
}

class Gate {
  #shut = false
  #stuck = new Set<(error: Error) => void>()

  shut(): void {
    this.#shut = true
  }

  /** Requests in transit fail, as on a re-established connection. */
  open(): void {
    this.#shut = false
    for (const fail of this.#stuck)
      fail(new BackendError('the gate', 'the connection was lost', { transient: true }))
    this.#stuck.clear()
  }

  /** A round trip. While the gate is shut, it hangs until the gate opens again or `signal` aborts it. */
  async cross<T>(request: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    if (this.#shut) return this.#hang(signal)
    const answer = await request()
    return this.#shut ? this.#hang(signal) : answer
  }

  #hang(signal: AbortSignal | undefined): Promise<never> {
    return new Promise((_, reject) => {
      const end = () => fail(signal?.reason)
      const fail = (error: unknown) => {
        this.#stuck.delete(fail)
        signal?.removeEventListener('abort', end)
        reject(error)
      }
      this.#stuck.add(fail)
      signal?.addEventListener('abort', end)
      if (signal?.aborted === true) end()
    })
  }
}

function gated(factory: DriverFactory, gate: Gate): DriverFactory {
  return (env) => {
    const driver = factory(env)
    const { list, forceRelease, cells, acquireMany } = driver
    const wrapped: Driver = {
      name: driver.name,
      traits: driver.traits,
      acquire: (claim, wait) =>
        through(gate, wait, async () => {
          const grant = await driver.acquire(claim, wait)
          return grant && throughGate(grant, gate)
        }),
      ...(acquireMany !== undefined && {
        acquireMany: (claims: readonly Claim[], wait: Wait) =>
          through(gate, wait, async () =>
            (await acquireMany(claims, wait))?.map((grant) => throughGate(grant, gate)),
          ),
      }),
      inspect: (name) => gate.cross(() => driver.inspect(name)),
      ...(list !== undefined && { list: (prefix: string) => gate.cross(() => list(prefix)) }),
      ...(forceRelease !== undefined && {
        forceRelease: (name: string) => gate.cross(() => forceRelease(name)),
      }),
      ...(cells !== undefined && { cells: gatedCells(cells, gate) }),
      close: () => driver.close(),
    }
    return wrapped
  }
}

function gatedCells(cells: Cells, gate: Gate): Cells {
  return {
    read: (key, signal) => gate.cross(() => cells.read(key, signal), signal),
    write: (key, change, signal) => gate.cross(() => cells.write(key, change, signal), signal),
    changed: (key, version, signal) => gate.cross(() => cells.changed(key, version, signal), signal),
  }
}

async function through<T>(gate: Gate, wait: Wait, ask: () => Promise<T>): Promise<T | undefined> {
  try {
    return await gate.cross(ask, wait.signal)
  } catch (error) {
    if (wait.ended) return undefined
    throw error
  }
}

function throughGate(grant: Grant, gate: Gate): Grant {
  const { lost, nextReservedToken, nextToken, contended, downgrade } = grant
  return {
    token: grant.token,
    get validUntil() {
      return grant.validUntil
    },
    renew: (ttl, signal) => gate.cross(() => grant.renew(ttl, signal), signal),
    release: (): Promise<ReleaseResult> => gate.cross(() => grant.release()),
    ...(lost !== undefined && { lost }),
    ...(nextReservedToken !== undefined && { nextReservedToken: () => nextReservedToken.call(grant) }),
    ...(nextToken !== undefined && { nextToken: () => gate.cross(() => nextToken.call(grant)) }),
    ...(contended !== undefined && { contended: () => contended.call(grant) }),
    get onContended() {
      return grant.onContended
    },
    set onContended(listener) {
      grant.onContended = listener
    },
    ...(downgrade !== undefined && { downgrade: () => gate.cross(() => downgrade.call(grant)) }),
  }
}
