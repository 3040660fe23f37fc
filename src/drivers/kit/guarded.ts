/** What of a lease a store's own condition needs: any `Lease` of the same driver. */
export interface Guarded {
  readonly name: string
  readonly token: number
}

/** What is kept of holds that such a lease can be found by: two names may have the same token, if one step of the store wrote both. */
export class Held<T> {
  readonly #all = new Map<string, T>()

  add({ name, token }: Guarded, what: T): void {
    this.#all.set(`${token} ${name}`, what)
  }

  /** If it still is `what`. */
  drop(lease: Guarded, what: T): void {
    if (this.find(lease) === what) this.#all.delete(`${lease.token} ${lease.name}`)
  }

  find({ name, token }: Guarded): T | undefined {
    return this.#all.get(`${token} ${name}`)
  }
}
