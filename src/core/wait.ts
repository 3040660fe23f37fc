/**
 * How long a caller is willing to wait: deadline and abort, folded into one.
 *
 * Most acquisitions end within the microtasks that follow, so a `Patience` arms its timer and its abort listener only
 * when those have run, or when a driver asks for the signal because it is about to park.
 */
import type { Clock } from './clock.js'
import type { Blocked, Wait } from './driver.js'

export type WaitEnd = 'deadline' | 'aborted' | 'closed'

/** Shared by all waits of one `createLocks`: those whose timers are not armed yet. */
export class Unarmed {
  readonly #clock: Clock
  readonly #waits = new Set<Patience>()
  #scheduled = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  add(wait: Patience): void {
    this.#waits.add(wait)
    if (this.#scheduled) return
    this.#scheduled = true
    this.#clock.soon(() => {
      this.#scheduled = false
      for (const wait of this.#waits) wait.arm()
      this.#waits.clear()
    })
  }

  delete(wait: Patience): void {
    this.#waits.delete(wait)
  }
}

export class Patience {
  /** Clock reading after which the caller has no use for a grant. */
  readonly deadline: number
  /** How the wait ended, if it did before a grant came. */
  ended: WaitEnd | undefined
  /** The newest the driver said about who stands in the way. */
  blocked: Blocked | undefined
  readonly #clock: Clock
  readonly #unarmed: Unarmed
  readonly #signal: AbortSignal | undefined
  #onEnd: ((how: WaitEnd) => void) | undefined
  #disarm: (() => void) | undefined
  #armed = false
  readonly #aborted = () => this.end('aborted')

  constructor(
    clock: Clock,
    unarmed: Unarmed,
    deadline: number,
    signal: AbortSignal | undefined,
    onEnd: (how: WaitEnd) => void,
  ) {
    this.#clock = clock
    this.#unarmed = unarmed
    this.deadline = deadline
    this.#signal = signal
    this.#onEnd = onEnd
    unarmed.add(this)
  }

  get remaining(): number {
    return Math.max(0, this.deadline - this.#clock.now())
  }

  /** Idempotent. The timer keeps the process alive: somebody waits for the answer. */
  arm(): void {
    if (this.#armed || this.#onEnd === undefined) return
    this.#armed = true
    if (this.#signal?.aborted === true) {
      this.end('aborted')
      return
    }
    this.#signal?.addEventListener('abort', this.#aborted)
    if (this.deadline < Number.POSITIVE_INFINITY) {
      this.#disarm = this.#clock.at(this.deadline, () => this.end('deadline'))
    }
  }

  end(how: WaitEnd): void {
    const onEnd = this.#onEnd
    if (onEnd === undefined) return
    this.ended = how
    this.done()
    onEnd(how)
  }

  /**
   * The grant is here: is the caller still there? Checks what a timer or an abort event not yet delivered would say,
   * so that a late grant never reaches a caller who has gone.
   */
  stillThere(): boolean {
    if (this.#onEnd === undefined) return false
    if (this.#signal?.aborted === true) this.end('aborted')
    else if (this.#clock.now() > this.deadline) this.end('deadline')
    return this.ended === undefined
  }

  /** Takes timer and listener off; the wait is over without having ended by itself. */
  done(): void {
    this.#onEnd = undefined
    this.#unarmed.delete(this)
    if (!this.#armed) return
    this.#disarm?.()
    this.#signal?.removeEventListener('abort', this.#aborted)
  }
}

/**
 * The wait a driver sees. It outlives the caller it was begun for when another caller of the same process takes its
 * place in line over.
 */
export class DriverWait implements Wait {
  over = false
  #owner: Patience | undefined
  #controller: AbortController | undefined
  readonly #once: boolean
  readonly #onBlocked: (by: Blocked) => void

  constructor(owner: Patience, once: boolean, onBlocked: (by: Blocked) => void) {
    this.#owner = owner
    this.#once = once
    this.#onBlocked = onBlocked
  }

  get owner(): Patience | undefined {
    return this.#owner
  }

  set owner(owner: Patience) {
    this.#owner = owner
    owner.arm()
  }

  get signal(): AbortSignal {
    this.#owner?.arm()
    this.#controller ??= new AbortController()
    if (this.over) this.#controller.abort()
    return this.#controller.signal
  }

  remaining(): number {
    return this.over || this.#once ? 0 : (this.#owner?.remaining ?? 0)
  }

  blocked(by: Blocked): void {
    if (this.#owner === undefined) return
    this.#owner.blocked = by
    this.#onBlocked(by)
  }

  end(): void {
    if (this.over) return
    this.over = true
    this.#owner = undefined
    this.#controller?.abort()
  }
}
