/** Which acquisitions of one `Locks` are under way or held, and what is written down about them. */
import type { AcquireOptions, Lease } from 'holdfast'
import type { ModeKind } from './event.js'
import type { Recorder } from './record.js'

/** What one acquisition asks of one name. */
export interface Part {
  readonly name: string
  readonly mode: ModeKind
  readonly of?: number
}

/** An acquisition under way or held. */
export interface Open {
  readonly attempt: string
  readonly name: string
  readonly mode: ModeKind
  /** Once granted. */
  lease: Lease | undefined
  token: number | undefined
  /** Was it heard to be in line? */
  queued: boolean
  /** How often it is entered, by mode. */
  readonly entered: Record<ModeKind, number>
}

/** Counted over all journals, because several may share a recorder. */
let attempts = 0

export class Journal {
  readonly recorder: Recorder
  readonly #pending = new Map<string, Set<Open>>()
  readonly #held = new Map<string, Open>()

  constructor(recorder: Recorder) {
    this.recorder = recorder
  }

  asked({ name, mode, of }: Part, options: AcquireOptions): Open {
    const attempt = `${this.recorder.client}:${++attempts}`
    const open: Open = { attempt, name, mode, ...fresh() }
    const set = this.#pending.get(name) ?? new Set()
    this.#pending.set(name, set.add(open))
    const { fair, wait, permits = 1 } = options
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

  /** The event does not say whose wait it is, so it counts only when there is no doubt. */
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

  /** @returns the acquisition that holds: an earlier one, if this one has entered it again. */
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
    // Read in this order, so that the claim is never told to last longer than it does.
    const now = recorder.now()
    const until = deadline(now, lease.remaining())
    recorder.write({ op: 'acquire', phase: 'ok', name: open.name, attempt: open.attempt, token, ...until })
    return open
  }

  told(name: string, token: number, op: 'renew' | 'lost'): void {
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
    // Lost by the time somebody looks: it promises nothing more than was promised before.
    const until = remaining > 0 ? deadline(now, remaining) : {}
    this.recorder.write({ op, phase: 'ok', name, attempt, token, ...until })
  }

  /** One entry is about to be left. @returns what to call with the outcome. */
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
