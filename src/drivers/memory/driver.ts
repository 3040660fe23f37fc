/** Locks inside one process: the table of `table.ts` with promises parked on it. Also the model that other stores are compared with. */
import type { Clock } from '../../core/clock.js'
import { deadline } from '../../core/clock.js'
import type { Claim, Driver, DriverFactory, Grant, Traits, Wait } from '../../core/driver.js'
import { BackendError, permitLimitError } from '../../core/errors.js'
import { createCells } from './cells.js'
import { createGrant } from './grant.js'
import { createStore, type Store } from './store.js'
import { type Hold, toHolder } from './table.js'

export interface MemoryTraits extends Traits {
  readonly modes: readonly ('exclusive' | 'shared' | 'permits')[]
  readonly fair: true
  readonly shared: false
  readonly cells: true
  readonly portable: true
  readonly caching: true
  readonly acquireMany: true
}

const traits: MemoryTraits = Object.freeze({
  modes: Object.freeze(['exclusive', 'shared', 'permits'] as const),
  fair: true,
  minTtl: 10,
  shared: false,
  maxLockDelay: Number.POSITIVE_INFINITY,
  cells: true,
  portable: true,
  caching: true,
  acquireMany: true,
})

/**
 * Locks for the tasks of one process. Every `createLocks` over the same factory value shares its locks:
 *
 * ```ts
 * const store = memory()
 * const one = createLocks(store)
 * const two = createLocks(store) // competes with `one`
 * ```
 * Time is that of the first client's clock. Throws BackendError only after `close()`.
 */
export function memory(): DriverFactory<MemoryTraits> {
  let store: Store | undefined
  return (env) => {
    store ??= createStore(env.clock, performance.timeOrigin + performance.now())
    return memoryDriver(store, env.clock, env.client)
  }
}

function memoryDriver(store: Store, clock: Clock, client: string): Driver<MemoryTraits> {
  /** Functions that end the waits of this client. */
  const waits = new Set<() => void>()
  let closed: BackendError | undefined

  function acquire(claim: Claim, wait: Wait): Promise<Grant | undefined> {
    if (closed) return Promise.reject(closed)
    if (wait.ended) return Promise.resolve(undefined)
    const { name, attempt, mode, ttl, note } = claim
    const answer = store.acquire(name, { attempt, mode, ttl, wait: wait.remaining() > 0, note, client })
    switch (answer.is) {
      case 'granted':
        return Promise.resolve(createGrant(store, clock, claim, answer.hold, ends(answer.hold)))
      case 'waiting':
        return park(claim, wait, answer.position)
      case 'limit':
        return Promise.reject(permitLimitError(name, answer.limit, mode.kind === 'permits' ? mode.of : 0))
      case 'busy':
        report(name, wait)
        return Promise.resolve(undefined)
      case 'over':
        return Promise.resolve(undefined)
    }
  }

  function acquireMany(claims: readonly Claim[], wait: Wait): Promise<readonly Grant[] | undefined> {
    if (closed) return Promise.reject(closed)
    if (wait.ended) return Promise.resolve(undefined)
    const answer = store.acquireMany(
      claims.map(({ name, attempt, mode, ttl, note }) => [
        name,
        { attempt, mode, ttl, wait: false, note, client },
      ]),
    )
    if (answer.is === 'refused') {
      const { name, mode } = claims[answer.at] as Claim
      if (answer.why.is !== 'limit') {
        report(name, wait)
        return Promise.resolve(undefined)
      }
      return Promise.reject(permitLimitError(name, answer.why.limit, mode.kind === 'permits' ? mode.of : 0))
    }
    return Promise.resolve(
      answer.holds.map((hold, i) => createGrant(store, clock, claims[i] as Claim, hold, ends(hold))),
    )
  }

  /** By the store's clock the hold was proven at `expires - ttl`. Our clock is read first, so the result can only be too early. */
  function ends({ expires, ttl }: Hold): number {
    const proven = expires - ttl
    return deadline(clock === store.clock ? proven : clock.now() - (store.clock.now() - proven), ttl)
  }

  function park(claim: Claim, wait: Wait, position: number): Promise<Grant | undefined> {
    return new Promise((resolve) => {
      const { signal } = wait
      const end = () => {
        unpark()
        store.cancel(claim.name, claim.attempt)
        resolve(undefined)
      }
      const unpark = () => {
        waits.delete(end)
        signal.removeEventListener('abort', end)
      }
      store.park(claim.attempt, (hold) => {
        unpark()
        resolve(createGrant(store, clock, claim, hold, ends(hold)))
      })
      waits.add(end)
      signal.addEventListener('abort', end)
      if (signal.aborted) return end()
      report(claim.name, wait, position)
      store.tellContended(claim.name)
    })
  }

  function report(name: string, wait: Wait, position?: number): void {
    const hold = store.holder(name)
    wait.report?.({
      ...(hold && { holder: toHolder(hold, store.clock.now()) }),
      ...(position !== undefined && { position }),
    })
  }

  return {
    name: 'memory',
    traits,
    acquire,
    acquireMany,
    inspect: async (name) => store.status(name),
    list: async (prefix) => store.statuses(prefix),
    forceRelease: async (name) => store.forceRelease(name).length,
    cells: createCells(store.cells, waits, () => closed),
    async close() {
      closed = new BackendError('memory', 'this driver was closed', { closed: true })
      for (const end of [...waits]) end()
    },
  }
}
