/** What the scenes need from a lock, written by hand or holdfast's. One `Lock` is one process's access to it. */
import type { Recorder } from 'holdfast/verify'
import type { Redis } from 'ioredis'

export interface Held {
  readonly token?: number
  /** Does it believe that it holds the lock? Locks by hand never check. */
  readonly isHeld: boolean
  /** Resolves with the lock's reply. */
  release(): Promise<unknown>
}

/** Times are in ms. */
export interface Lock {
  /** Waits for at most `wait`; 0: one try. */
  take(name: string, ttl: number, wait: number): Promise<Held | undefined>
  close(): Promise<unknown>
}

export interface OnceLock extends Lock {
  /** Does `work` under the lock, in the way that is meant to do it once. */
  once(name: string, work: () => Promise<number>): Promise<number>
}

/** A lock in Redis, and how a write uses it. */
export interface Way {
  readonly title: string
  open(clients: readonly Redis[], recorder: Recorder): OnceLock
  write(client: Redis, value: string, held: Held): Promise<'written' | 'refused'>
}

/** Where a player finds a store that several scenes share. */
export interface At {
  /** Of its own cable to the server: `127.0.0.1:4711`. With several servers, all of them. */
  readonly address: string
  /** A unique prefix for names of nodes and keys. */
  readonly room: string
  /** Of ZooKeeper, in ms: how long its session lasts. Default the longest ttl of any scene. */
  readonly session?: number
}

/** A lock in a store that several scenes share. */
export interface SharedWay {
  readonly title: string
  open(at: At, recorder: Recorder): Lock
}

/** Longest ttl of any scene: a server that has forgotten grants nothing for that long. */
export const maxTtl = 3_000
export const resource = 'resource'
/** Long enough for any machine, however busy. */
export const sceneTimeout = 20_000
