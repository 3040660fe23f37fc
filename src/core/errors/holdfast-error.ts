/** What all errors of holdfast have in common. */

const brand = Symbol.for('holdfast.error')

export type ErrorCode =
  | 'ACQUIRE_TIMEOUT'
  | 'TOO_MANY_WAITERS'
  | 'LATCH_GONE'
  | 'LEASE_LOST'
  | 'POOL_CLOSED'
  | 'STALE_TOKEN'
  | 'DEADLOCK'
  | 'UNSUPPORTED'
  | 'VERSION_CONFLICT'
  | 'BACKEND'
  | 'UNAVAILABLE'
  | 'CLOSED'

/** The base of every error below; not thrown itself. */
export abstract class HoldfastError extends Error {
  abstract readonly code: ErrorCode
  /** The codes that identify an instance of this class; undefined: any. */
  protected static readonly codes: readonly ErrorCode[] | undefined = undefined

  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    Object.defineProperty(this, brand, { value: true })
  }

  /**
   * The message for outsiders, such as the client of an HTTP service: what failed, without hosts, process ids, notes,
   * addresses and the store's own messages, all of which `message` may contain. It contains the name of the lock.
   */
  get publicMessage(): string {
    return this.message
  }

  /** Matches by code, so that an error from a second copy of holdfast in node_modules is still recognised. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    if (typeof value !== 'object' || value === null || !(brand in value)) return false
    // biome-ignore lint/complexity/noThisInStatic: the subclass that instanceof was asked about, which has codes of its own
    const { codes } = this
    return codes === undefined || codes.includes((value as { code?: unknown }).code as ErrorCode)
  }
}
