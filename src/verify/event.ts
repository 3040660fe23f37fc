/**
 * What a history is made of. One event is one line of JSON in a file:
 *
 * ```
 * {"t":"81231873","pid":4711,"client":"4711-1f3a","name":"seat:12A","attempt":"4711-1f3a:7","op":"acquire","phase":"invoke","mode":"exclusive"}
 * ```
 * `t` and `until` are nanoseconds of the machine's monotonic clock, which all processes of one machine share, so events of
 * different processes can be compared without any allowance. On disk they are decimal strings; once read they are
 * numbers counted from the first event of the history, exact for 104 days.
 */

export type Op =
  | 'acquire'
  | 'renew'
  /** From exclusive to shared. */
  | 'downgrade'
  | 'release'
  | 'lost'
  | 'cancel'
  | 'read'
  | 'write'
  /** Something was done to a process or a store: see {@link lethal} and `Entry.kind`. */
  | 'fault'
  /** Who holds and who waits in the store, as `inspect` told it: the end of a run is checked with it. */
  | 'standing'
  /** A reading of the store's own counter of commands. */
  | 'commands'

/** `invoke` before the call, `ok` and `fail` after it; `info`: the outcome is unknown, or something was learnt meanwhile. */
export type Phase = 'invoke' | 'ok' | 'fail' | 'info'

export type ModeKind = 'exclusive' | 'shared' | 'permits'

interface Facts {
  readonly op: Op
  readonly phase: Phase
  /** The lock, or the thing it guards. Absent on faults. */
  readonly name?: string
  /** Ties the events of one acquisition together; unique in the whole history. */
  readonly attempt?: string
  readonly token?: number
  readonly mode?: ModeKind
  /** Permits asked for, and the limit they count against. */
  readonly permits?: number
  readonly of?: number
  readonly fair?: boolean
  /** How long the caller was ready to wait, in ms; 0 = a try. Absent = for ever. */
  readonly wait?: number
  /** What was read or written. */
  readonly value?: number
  /** The place of an accepted write in the order in which the resource applied them, when the resource can tell. */
  readonly seq?: number
  /** What a release was answered, what a fault was, why an acquire failed. */
  readonly kind?: string
  /** The process a fault was done to; absent = everybody. */
  readonly target?: number
  /** On `standing`: how many hold and how many wait. */
  readonly holders?: number
  readonly waiters?: number
  /** On `commands`: the counter. */
  readonly count?: number
}

/** What is given to a recorder, which adds time, process and client. */
export interface Entry extends Facts {
  /** Reading of the recorder's clock until which the lease was promised. */
  readonly until?: bigint
}

/** One event of a history that has been read. */
export interface Event extends Facts {
  /** Nanoseconds since the first event. */
  readonly t: number
  readonly pid: number
  /** One `Locks` in one process. Never used by two processes, also when a process id comes again. */
  readonly client: string
  /** Nanoseconds since the first event; Infinity = bound to something else than time. */
  readonly until?: number
}

/** The `kind` of a fault that ends its target at once: what the process held is nobody's claim afterwards. */
export const lethal = 'kill'
