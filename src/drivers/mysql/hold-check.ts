/**
 * Checks every hold when another life of the server answers: it may have been restored from an older copy, or be another server
 * altogether, and know less than the one that answered before. Without this check, a holder would learn of it at its next renewal,
 * perhaps minutes later.
 *
 * A new connection by itself proves nothing, because a pool's connections come and go. So each connection reports once which life of the
 * server it is in, and while anything is held, the end of a connection is a reason to check. The check also writes the proven validity of
 * each hold again: the older copy may know the hold with an end that is long past.
 */
import type { Clock } from '../../core/clock.js'
import { findErrno, toFailure } from './failure.js'

/** What a connection reports about itself, beginning with its first use. */
export interface ConnectionEvents {
  /** The connection is new here. @param life the life of the server that it is in */
  connected(life: string): void
  /** The connection has ended. */
  ended(): void
}

export interface HoldCheck extends ConnectionEvents {
  stop(): void
}

interface CheckedHold {
  readonly validUntil: number
  /** @throws when it cannot be known */
  verify(): Promise<void>
}

interface HoldCheckSettings {
  readonly clock: Clock
  readonly holds: ReadonlyMap<string, CheckedHold>
  /** Any statement that the server answers. */
  readonly probe: () => Promise<unknown>
}

/** Pause between two tries while the server is away, in ms: the first, the longest. */
const pauses = { first: 50, longest: 1_000 }
/** The shortest interval between two checks when a pool closes its connections one after another, in ms. */
const minInterval = 1_000

export function createHoldCheck({ clock, holds, probe }: HoldCheckSettings): HoldCheck {
  let life: string | undefined
  let stop: (() => void) | undefined
  /** True while a check of every hold is due. */
  let due = false
  let answeredAt = Number.NEGATIVE_INFINITY
  let stopped = false

  const plan = (at: number, pause: number) => {
    if (stopped || stop !== undefined) return
    const call = () => {
      const again = (error: unknown) => {
        stop = undefined
        if (error !== undefined && isPermanent(error)) return
        if (error !== undefined) plan(clock.now() + pause, Math.min(2 * pause, pauses.longest))
        else if (due) plan(clock.now(), pauses.first)
      }
      round().then(() => again(undefined), again)
    }
    stop = clock.at(at, call, { ref: false })
  }

  const round = async () => {
    const held = [...holds.values()].filter(({ validUntil }) => validUntil > clock.now())
    if (held.length === 0) {
      due = false
      return
    }
    if (!due) {
      // Over a new connection this reports another life, if there is one.
      await probe()
      answeredAt = clock.now()
    }
    if (!due) return
    due = false
    const asked = await Promise.allSettled([...holds.values()].map((hold) => hold.verify()))
    const failed = asked.find((one) => one.status === 'rejected')
    if (failed === undefined) return
    due = true
    throw failed.reason
  }

  return {
    connected(present) {
      const another = life !== undefined && life !== present
      life = present
      if (!another) return
      due = true
      plan(clock.now(), pauses.first)
    },
    ended() {
      if (holds.size > 0) plan(Math.max(clock.now() + pauses.first, answeredAt + minInterval), pauses.first)
    },
    stop() {
      stopped = true
      stop?.()
    },
  }
}

/** A closed pool stays closed. What the server refuses now, it may grant once it is wholly restored. */
function isPermanent(error: unknown): boolean {
  const refused = (findErrno(error) ?? Number.POSITIVE_INFINITY) < 45_000
  return !refused && !toFailure(error).transient
}
