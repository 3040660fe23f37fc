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
import { errnoOf, troubleOf } from './failure.js'

/** What a connection reports about itself, beginning with its first use. */
export interface LinkEvents {
  /** The connection is new here. @param life the life of the server that it is in */
  met(life: string): void
  /** The connection has ended. */
  ended(): void
}

export interface RollCall extends LinkEvents {
  stop(): void
}

interface Held {
  readonly validUntil: number
  /** @throws when it cannot be known */
  keep(): Promise<void>
}

interface RollCallSettings {
  readonly clock: Clock
  readonly holds: ReadonlyMap<string, Held>
  /** Any statement that the server answers. */
  readonly ask: () => Promise<unknown>
}

/** Pause between two tries while the server is away, in ms: the first, the longest. */
const pauses = { first: 50, longest: 1_000 }
/** The shortest interval between two checks when a pool closes its connections one after another, in ms. */
const seldom = 1_000

export function createRollCall({ clock, holds, ask }: RollCallSettings): RollCall {
  let life: string | undefined
  let stop: (() => void) | undefined
  /** True while a check of every hold is due. */
  let owed = false
  let answeredAt = Number.NEGATIVE_INFINITY
  let stopped = false

  const plan = (at: number, pause: number) => {
    if (stopped || stop !== undefined) return
    const call = () => {
      const again = (error: unknown) => {
        stop = undefined
        if (error !== undefined && isForGood(error)) return
        if (error !== undefined) plan(clock.now() + pause, Math.min(2 * pause, pauses.longest))
        else if (owed) plan(clock.now(), pauses.first)
      }
      round().then(() => again(undefined), again)
    }
    stop = clock.at(at, call, { ref: false })
  }

  const round = async () => {
    const held = [...holds.values()].filter(({ validUntil }) => validUntil > clock.now())
    if (held.length === 0) {
      owed = false
      return
    }
    if (!owed) {
      // Over a new connection this reports another life, if there is one.
      await ask()
      answeredAt = clock.now()
    }
    if (!owed) return
    owed = false
    const asked = await Promise.allSettled([...holds.values()].map((hold) => hold.keep()))
    const failed = asked.find((one) => one.status === 'rejected')
    if (failed === undefined) return
    owed = true
    throw failed.reason
  }

  return {
    met(present) {
      const another = life !== undefined && life !== present
      life = present
      if (!another) return
      owed = true
      plan(clock.now(), pauses.first)
    },
    ended() {
      if (holds.size > 0) plan(Math.max(clock.now() + pauses.first, answeredAt + seldom), pauses.first)
    },
    stop() {
      stopped = true
      stop?.()
    },
  }
}

/** A closed pool stays closed. What the server refuses now, it may grant once it is wholly restored. */
function isForGood(error: unknown): boolean {
  const refused = (errnoOf(error) ?? Number.POSITIVE_INFINITY) < 45_000
  return !refused && !troubleOf(error).passing
}
