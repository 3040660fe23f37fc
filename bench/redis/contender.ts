/** One way to lock over Redis: ours, a bare floor, or a peer. All are asked the same, so that they can be compared. */

export interface Contender {
  /** Takes `key`, however long it takes. A library that gives up is asked again at once, which is counted. */
  take(key: string): Promise<Taken>
  /** Takes `key` for 10 s at a time and renews it until it is released. Missing: it cannot. */
  keep?(key: string): Promise<Taken>
  readonly gaveUp: number
  close(): Promise<void>
}

export interface Taken {
  /** The fence, 0 where there is none. */
  readonly token: number
  release(): Promise<unknown>
}

export type ClientKind = 'ioredis' | 'node-redis'

export interface Recipe {
  /** As in the table. */
  readonly name: string
  /** `default`: as the library comes. `fast`: looks again every 5 ms and never gives up, where it can be told to. */
  readonly settings: 'default' | 'fast' | 'fair'
  readonly client: ClientKind
  /** Connects to the servers at these ports; most take one. */
  make(ports: readonly number[]): Promise<Contender>
}

/** Milliseconds a lock is taken for; nothing in the bench is held that long. */
export const ttl = 30_000
