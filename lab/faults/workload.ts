/**
 * What the worker processes do: a few names of every kind and several of them at once, quick sections and slow ones, tries, cancellations,
 * a guarded counter.
 */
import type { Traits } from 'holdfast'
import type { Place } from './store.js'

export interface Subject {
  readonly name: string
  readonly kind: 'mutex' | 'fair' | 'read-write' | 'semaphore' | 'together'
  /** Other subjects' names, taken together by `all()`; then `name` is no lock. */
  readonly of?: readonly string[]
  /** Sections read and write a counter behind a guard that compares tokens. */
  readonly guarded?: boolean
  /** Sometimes held for longer than a ttl, so that renewals matter. */
  readonly slow?: boolean
  /** One process takes it again and again, with `linger`, and then another. Only where locks may stay with their process. */
  readonly kept?: boolean
}

export const permitsOf = 3

/** The longest term to which a lease is extended, in ttls. */
export const longest = 2

const all: readonly Subject[] = [
  { name: 'ledger', kind: 'mutex', guarded: true },
  { name: 'stock', kind: 'mutex' },
  { name: 'mail', kind: 'mutex' },
  { name: 'queue', kind: 'fair' },
  { name: 'page', kind: 'read-write' },
  { name: 'seats', kind: 'semaphore' },
  { name: 'transfer', kind: 'together', of: ['stock', 'mail', 'page', 'seats'] },
  { name: 'report', kind: 'mutex', slow: true, guarded: true },
  { name: 'archive', kind: 'read-write', slow: true },
  { name: 'account 1', kind: 'mutex', guarded: true, kept: true },
  { name: 'account 2', kind: 'mutex', guarded: true, kept: true },
  { name: 'account 3', kind: 'mutex', guarded: true, kept: true },
]

/** The subjects a driver supports. @param lingers see `Store` */
export function subjectsFor(traits: Traits, lingers = false): Subject[] {
  const modes = {
    mutex: 'exclusive',
    fair: 'exclusive',
    'read-write': 'shared',
    semaphore: 'permits',
    together: 'exclusive',
  } as const
  return all
    .filter(({ kept }) => lingers || !kept)
    .filter(({ kind }) => traits.modes.includes(modes[kind]) && (kind !== 'fair' || traits.fair))
}

/** The locks among them: each name once. */
export const locksAmong = (subjects: readonly Subject[]): Subject[] =>
  subjects.filter(({ of }) => of === undefined)

export interface Task {
  /** URL of the module that exports `lab`. */
  readonly module: string
  readonly place: Place
  readonly clients: number
  /** Concurrent loops in every client; the last one takes the slow names. */
  readonly lanes: number
  /** No time is spent under quick locks. */
  readonly brisk: boolean
  readonly ttl: number
  readonly folder: string
  readonly seed: number
  /** The worker reports at the end what is left in the store. */
  readonly tellsStanding: boolean
  /** Of every two takes, one has a `linger`. */
  readonly lingers: boolean
}

export type Order =
  | { readonly do: 'block'; readonly ms: number }
  /** The wall clock of the process jumps: only `Date.now()`, which is what libraries read. */
  | { readonly do: 'wall'; readonly ms: number }
  /** The application takes all connections of the pool that it shares with the driver. */
  | { readonly do: 'strain'; readonly ms: number }
  /** Many waits at once for the fair lock, all given up within `ms`; or none given up. */
  | { readonly do: 'crowd'; readonly size: number; readonly abortWithin?: number }
  /** An operator force-releases one of the locks. */
  | { readonly do: 'force'; readonly choice: number }
  /** Slow locks that are held, or acquired within the next `ms`, stay held until these are over: longer than the store keeps an unrenewed lease. */
  | { readonly do: 'stay'; readonly ms: number }
  | { readonly do: 'stop' }
  | { readonly do: 'answer'; readonly id: number; readonly answer: GuardAnswer }

export type OrderOf<K extends Order['do']> = Extract<Order, { readonly do: K }>

export type WorkerReport =
  | { readonly is: 'ready' }
  /** That many more acquisitions were requested. */
  | { readonly is: 'asked'; readonly more: number }
  | ({ readonly is: 'guard'; readonly id: number } & GuardAsk)

export interface GuardAsk {
  readonly op: 'read' | 'write'
  readonly name: string
  readonly token: number
  readonly value: number
}

export type GuardAnswer =
  | { readonly ok: true; readonly value: number; readonly seq: number }
  | { readonly ok: false }
