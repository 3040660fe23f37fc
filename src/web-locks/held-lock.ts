/** §3.3: the lock that a callback receives. */
import type { Lease } from 'holdfast'
import type { GrantedLock, LockMode } from './types.js'

/** Attributes are in the prototype and visible to `for … in`, as Web IDL requires; except the lease, which no browser's lock has. */
export class HeldLock implements GrantedLock {
  readonly #name: string
  readonly #mode: LockMode
  readonly #lease: Lease

  constructor(name: string, mode: LockMode, lease: Lease) {
    this.#name = name
    this.#mode = mode
    this.#lease = lease
  }

  get name(): string {
    return this.#name
  }

  get mode(): LockMode {
    return this.#mode
  }

  get lease(): Lease {
    return this.#lease
  }

  get [Symbol.toStringTag](): string {
    return 'Lock'
  }
}

for (const attribute of ['name', 'mode'])
  Object.defineProperty(HeldLock.prototype, attribute, { enumerable: true })
