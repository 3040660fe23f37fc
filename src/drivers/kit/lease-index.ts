/** The part of a lease that a store's own condition needs. Any `Lease` of the same driver fits. */
export interface LeaseKey {
  readonly name: string
  readonly token: number
}

/** Index of held leases by name and token. A token alone is not unique: one step of the store that wrote two names gives both the same. */
export class LeaseIndex<T> {
  readonly #all = new Map<string, T>()

  add({ name, token }: LeaseKey, what: T): void {
    this.#all.set(`${token} ${name}`, what)
  }

  /** Removes the entry only if it still is `what`. */
  drop(lease: LeaseKey, what: T): void {
    if (this.find(lease) === what) this.#all.delete(`${lease.token} ${lease.name}`)
  }

  find({ name, token }: LeaseKey): T | undefined {
    return this.#all.get(`${token} ${name}`)
  }
}
