/**
 * The second holders that `quarantine: 'detected'` admits: a process that has never met the server takes one without a marker for new, though
 * its data may just have been lost. Nothing else is excused: neither a process that knows the server nor one that a marker bars.
 */
import type { Acquisition, Violation } from 'holdfast/verify'
import { permitsOfAll } from '../../plan.js'

/** When it first met the server, in ms of the world; the last loss was that of `lost`, and nothing barred it. */
interface Newcomer {
  readonly process: number
  readonly lost: number
  readonly met: number
}

export interface Newcomers {
  /** All data, or the newest, were lost. */
  lost(at: number): void
  /** A process that knows no server meets this one, whose marker bars nobody at that moment. */
  met(process: number, at: number): void
  excuses(found: Violation): boolean
}

/** @param mintedAt when the store minted such a token, or up to a reserve of tokens earlier, in ms of the world */
export function watchNewcomers(mintedAt: (token: number) => number): Newcomers {
  const losses: number[] = []
  const newcomers: Newcomer[] = []

  /** It was granted before that loss, or handed on inside its process from such a grant. */
  const isOlder = ({ token = 0, granted = 0 }: Acquisition, lost: number) =>
    mintedAt(token) < lost || granted < lost * 1e6

  /** The store granted it to a newcomer, and nothing was lost between its first request and the grant. */
  const isNewcomer = ({ pid, token = 0 }: Acquisition, { process, lost, met }: Newcomer) => {
    const minted = mintedAt(token)
    return pid === process && minted >= met && !losses.some((at) => at > lost && at <= minted)
  }

  return {
    lost: (at) => void losses.push(at),
    met(process, at) {
      const lost = losses.at(-1)
      if (lost !== undefined) newcomers.push({ process, lost, met: at })
    },
    excuses({ rule, parties }) {
      if (!['exclusion', 'read-write', 'permits'].includes(rule)) return false
      return newcomers.some((newcomer) => {
        const others = parties.filter((one) => !isOlder(one, newcomer.lost))
        // Grants after the loss must be compatible with each other.
        const fit = others.reduce((sum, { permits }) => sum + permits, 0) <= permitsOfAll
        return others.length < parties.length && fit && others.some((one) => isNewcomer(one, newcomer))
      })
    },
  }
}
