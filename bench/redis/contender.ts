/** One way to lock over Redis: ours, a bare floor, or a peer. All offer the same interface, so that they can be compared. */

export interface Contender {
  /** Acquires `key`, however long it takes. If a library gives up, the call is retried at once and the retry counted. */
  take(key: string): Promise<Taken>
  /** Acquires `key` for 10 s and renews it until it is released. Absent: not supported. */
  keep?(key: string): Promise<Taken>
  readonly gaveUp: number
  close(): Promise<void>
}

export interface Taken {
  /** The fencing token, 0 if there is none. */
  readonly token: number
  release(): Promise<unknown>
}

export type ClientKind = 'ioredis' | 'node-redis'

export interface Recipe {
  /** As in the table. */
  readonly name: string
  /** `default`: the library's defaults. `fast`: polls every 5 ms and never gives up, if the library can be configured so. */
  readonly settings: 'default' | 'fast' | 'fair'
  readonly client: ClientKind
  /** Connects to the servers at these ports; most take one. */
  make(ports: readonly number[]): Promise<Contender>
}

/** The ttl of a lock in milliseconds; nothing in the bench is held that long. */
export const ttl = 30_000
