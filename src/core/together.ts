/**
 * Several claims as one request to the store: each stands in the line of its own name in this process, and together they are asked for
 * in one step, if the driver can. Nobody waits in the store with a part of them, so nobody can wait for a part of them in a ring.
 *
 * ```
 *   join, join, join ──► send ──► the driver: a grant for each, or none
 *        └─ one could not join (busy here, held here, refused) ──► callOff: none, and nothing is sent
 * ```
 */
import type { Claim, Driver, Grant, Wait } from './driver.js'

export class Party {
  /** It is the beginning of a wait, not a single attempt of its user's. */
  readonly waits: boolean
  /** How long the store has for its answer, in ms. */
  readonly longest: number
  /** Did the store answer? False when it was called off, or when asking failed. */
  answered = false
  readonly #claims: Claim[] = []
  readonly #waits: Wait[] = []
  readonly #start: Promise<readonly Grant[] | undefined>
  #settle: (grants: Promise<readonly Grant[] | undefined> | undefined) => void = () => {}

  /** @param wait how long its user is willing to wait, in ms; 0: a single attempt */
  constructor(wait: number) {
    this.waits = wait > 0
    // A store that hangs leaves the other half for the ordinary way, which says why.
    this.longest = this.waits ? wait / 2 : Number.POSITIVE_INFINITY
    this.#start = new Promise((resolve) => {
      this.#settle = resolve
    })
  }

  get size(): number {
    return this.#claims.length
  }

  /** From the line of a name, whose grant it resolves with. */
  async join(claim: Claim, wait: Wait): Promise<Grant | undefined> {
    const place = this.#claims.push(claim) - 1
    this.#waits.push(wait)
    return (await this.#start)?.[place]
  }

  send(driver: Driver): void {
    const asked = driver.together?.(this.#claims, together(this.#waits))
    this.#settle(
      asked?.then((grants) => {
        this.answered = true
        return grants
      }),
    )
  }

  callOff(): void {
    this.#settle(undefined)
  }
}

/** A single attempt that is over as soon as one of its parts is. */
function together(waits: readonly Wait[]): Wait {
  let signal: AbortSignal | undefined
  return {
    get signal() {
      signal ??= AbortSignal.any(waits.map((wait) => wait.signal))
      return signal
    },
    get over() {
      return waits.some((wait) => wait.over)
    },
    remaining: () => 0,
  }
}
