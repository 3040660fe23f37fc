/**
 * The events of a history. One event is one line of JSON in a file:
 *
 * ```
 * {"t":"81231873","pid":4711,"client":"4711-1f3a","name":"seat:12A","attempt":"4711-1f3a:7","op":"acquire","phase":"invoke","mode":"exclusive"}
 * ```
 * `t` and `until` are nanoseconds of the machine's monotonic clock. All processes of a machine share that clock, so events of different
 * processes can be compared without any allowance. On disk they are decimal strings; once read they are numbers counted from the first
 * event of the history, exact for 104 days.
 */

export type Op =
  | 'acquire'
  | 'renew'
  /** From exclusive to shared. */
  | 'downgrade'
  | 'release'
  | 'lost'
  /** An operator's forced release. `info`: no reply. */
  | 'force'
  | 'cancel'
  | 'read'
  | 'write'
  /** A fault in a process or a store: see {@link fatalFault} and `Entry.kind`. */
  | 'fault'
  /** Holders and waiters in the store, as `inspect` reported them; used to check the end of a run. */
  | 'standing'
  /** A reading of the store's own command counter. */
  | 'commands'

/** `invoke` before the call, `ok` and `fail` after it; `info`: the outcome is unknown, or something was learnt meanwhile. */
export type Phase = 'invoke' | 'ok' | 'fail' | 'info'

export type ModeKind = 'exclusive' | 'shared' | 'permits'

interface EventFields {
  readonly op: Op
  readonly phase: Phase
  /** The lock, or the resource it guards. Absent on faults. */
  readonly name?: string
  /** Groups the events of one acquisition; unique in the whole history. */
  readonly attempt?: string
  readonly token?: number
  readonly mode?: ModeKind
  /** Requested permits, and the limit they count against. */
  readonly permits?: number
  readonly of?: number
  readonly fair?: boolean
  /** The caller's maximum wait, in ms; 0 = a try. Absent = for ever. */
  readonly wait?: number
  /** On `acquire` `ok`: the term of the lease, in ms; absent = not limited by time. */
  readonly ttl?: number
  /** The value read or written. */
  readonly value?: number
  /** Position of an accepted write in the order in which the resource applied them, if the resource can report it. */
  readonly seq?: number
  /** Result of a release, kind of a fault, reason of a failed acquire. */
  readonly kind?: string
  /** The process affected by a fault; absent = all. */
  readonly target?: number
  /** On `standing`: number of holders and of waiters. */
  readonly holders?: number
  readonly waiters?: number
  /** On `commands`: the counter. */
  readonly count?: number
}

/** Input of a recorder, which adds time, process and client. */
export interface Entry extends EventFields {
  /** Deadline of the lease, on the recorder's clock. */
  readonly until?: bigint
}

/** One event of a loaded history. */
export interface Event extends EventFields {
  /** Nanoseconds since the first event. */
  readonly t: number
  readonly pid: number
  /** One `Locks` in one process. Never shared by two processes, even if a process id is reused. */
  readonly client: string
  /** Nanoseconds since the first event; Infinity = not limited by time. */
  readonly until?: number
}

/** The `kind` of a fault that ends its target at once: nobody claims what the process held. */
export const fatalFault = 'kill'
