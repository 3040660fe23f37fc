/** What of a lease a store's own condition needs: any `Lease` of the same driver. */
export interface Guarded {
  readonly name: string
  readonly token: number
}
