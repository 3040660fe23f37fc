/** Tracks the pending and held acquisitions of one `Locks`, and records their events. */
import { type AcquireOptions, type Lease, toMilliseconds } from 'holdfast'
import type { ModeKind } from './event.js'
import type { Recorder } from './record.js'

/** What one acquisition requests of one name. */
export interface Part {
  readonly name: string
  readonly mode: ModeKind
  readonly of?: number
}

/** A pending or held acquisition. */
export interface Open {
  readonly attempt: string
  readonly name: string
  readonly mode: ModeKind
  /** Set once granted. */
  lease: Lease | undefined
  token: number | undefined
  /** Was it reported as queued? */
  queued: boolean
  /** Number of entries, by mode. */
  readonly entered: Record<ModeKind, number>
}

/** Counts across all journals, because several may share a recorder. */
let attempts = 0

export class Journal {
  readonly recorder: Recorder
  readonly #pending = new Map<string, Set<Open>>()
  readonly #held = new Map<string, Open>()

  constructor(recorder: Recorder) {
    this.recorder = recorder
  }

  requested({ name, mode, of }: Part, options: AcquireOptions): Open {
    const attempt = `${this.recorder.client}:${++attempts}`
    const open: Open = { attempt, name, mode, ...fresh() }
    const set = this.#pending.get(name) ?? new Set()
    this.#pending.set(name, set.add(open))
    const { fair, permits = 1 } = options
    const wait = toMilliseconds(options.wait)
    this.recorder.write({
      op: 'acquire',
      phase: 'invoke',
      name,
      attempt,
      mode,
      ...(of !== undefined && { permits, of }),
      ...(fair === true && { fair }),
      ...(wait !== undefined && wait < Number.POSITIVE_INFINITY && { wait }),
    })
    return open
  }

  /** The event does not name the waiting acquisition, so it counts only if there is no doubt. */
  waiting(name: string): void {
    const [open, other] = this.#pending.get(name) ?? []
    if (open === undefined || other !== undefined || open.queued) return
    open.queued = true
    this.recorder.write({ op: 'acquire', phase: 'info', name, attempt: open.attempt })
  }

  failed(open: Open, kind: string): void {
    this.#settled(open)
    this.recorder.write({ op: 'acquire', phase: 'fail', name: open.name, attempt: open.attempt, kind })
  }

  /** @returns the acquisition that holds: an earlier one, if this call re-entered it. */
  granted(open: Open, lease: Lease, options: AcquireOptions): Open {
    const { token } = lease
    const held = this.#held.get(key(open.name, token))
    const again = options.reentrant !== undefined || (held?.mode === 'exclusive' && open.mode === 'shared')
    if (held !== undefined && again && options.reentrant !== false) {
      this.failed(open, 'entered again')
      held.entered[open.mode]++
      return held
    }
    this.#settled(open)
    open.lease = lease
    open.token = token
    open.entered[open.mode]++
    this.#held.set(key(open.name, token), open)
    const { recorder } = this
    // Read in this order, so that the recorded claim never outlasts the real one.
    const now = recorder.now()
    const until = deadline(now, lease.remaining())
    const term = lease.ttl < Number.POSITIVE_INFINITY ? { ttl: lease.ttl } : {}
    const { name, attempt } = open
    recorder.write({ op: 'acquire', phase: 'ok', name, attempt, token, ...term, ...until })
    return open
  }

  /** The holder requested another term: from now on it relies on what its lease reports, whatever the reply. */
  extended({ name, attempt, token, lease }: Open): void {
    const now = this.recorder.now()
    const remaining = lease?.remaining() ?? 0
    if (token === undefined || remaining <= 0) return
    this.recorder.write({ op: 'renew', phase: 'invoke', name, attempt, token, ...deadline(now, remaining) })
  }

  /** An operator force-releases the lock. @returns a callback for the reply */
  forcing(name: string): (phase: 'ok' | 'info') => void {
    this.recorder.write({ op: 'force', phase: 'invoke', name })
    return (phase) => this.recorder.write({ op: 'force', phase, name })
  }

  reported(name: string, token: number, op: 'renew' | 'lost'): void {
    const open = this.#held.get(key(name, token))
    if (open === undefined) return
    const { attempt } = open
    if (op === 'lost') {
      this.#held.delete(key(name, token))
      this.recorder.write({ op, phase: 'info', name, attempt, token })
      return
    }
    const now = this.recorder.now()
    const remaining = open.lease?.remaining() ?? 0
    // If the lease is lost by now, it promises nothing beyond what it promised before.
    const until = remaining > 0 ? deadline(now, remaining) : {}
    this.recorder.write({ op, phase: 'ok', name, attempt, token, ...until })
  }

  /** One entry is about to end. @returns a callback for the outcome. */
  leaving(open: Open, mode: ModeKind): (outcome: string) => void {
    const { entered, attempt, name } = open
    const token = open.token === undefined ? {} : { token: open.token }
    entered[mode]--
    const left = entered.exclusive + entered.shared + entered.permits
    const op =
      left === 0 ? 'release' : mode === 'exclusive' && entered.shared === left ? 'downgrade' : undefined
    if (op === undefined) return () => undefined
    this.recorder.write({ op, phase: 'invoke', name, attempt, ...token })
    return (kind) => {
      if (op === 'release') this.#held.delete(key(name, open.token))
      this.recorder.write({ op, phase: kind === 'unknown' ? 'info' : 'ok', name, attempt, ...token, kind })
    }
  }

  #settled(open: Open): void {
    const set = this.#pending.get(open.name)
    set?.delete(open)
    if (set?.size === 0) this.#pending.delete(open.name)
  }
}

const fresh = () => ({
  lease: undefined,
  token: undefined,
  queued: false,
  entered: { exclusive: 0, shared: 0, permits: 0 },
})

const key = (name: string, token: number | undefined) => `${token} ${name}`

function deadline(now: bigint, remaining: number): { until?: bigint } {
  return remaining === Number.POSITIVE_INFINITY ? {} : { until: now + BigInt(Math.floor(remaining * 1e6)) }
}
