/** What the scenes need of a lock, written by hand or holdfast's. One `Lock` is one process's way to it. */
import type { Recorder } from 'holdfast/verify'
import type { Redis } from 'ioredis'

export interface Held {
  readonly token?: number
  /** Does it believe to hold it? Locks by hand never ask themselves. */
  readonly isHeld: boolean
  /** Resolves with what the lock says to it. */
  release(): Promise<unknown>
}

/** Times are in ms. */
export interface Lock {
  /** Waits for at most `wait`; 0: one try. */
  take(name: string, ttl: number, wait: number): Promise<Held | undefined>
  /** Does `work` under the lock, the way one would see to it that it is done once. */
  once(name: string, work: () => Promise<number>): Promise<number>
  close(): Promise<unknown>
}

/** A lock, and what is done with it when something is written. */
export interface Way {
  readonly title: string
  open(clients: readonly Redis[], recorder: Recorder): Lock
  write(client: Redis, value: string, held: Held): Promise<'written' | 'refused'>
}

/** Longest ttl of any scene: a server that has forgotten grants nothing for so long. */
export const longestTtl = 3_000
export const resource = 'resource'
/** Long enough for any machine, however busy: nothing that should happen takes so long. */
export const patience = 20_000
