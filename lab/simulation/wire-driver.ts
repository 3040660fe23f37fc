/**
 * The plainest driver that keeps the contract over a network that loses, delays and breaks: everything is asked again under the
 * same attempt id until it is answered, what was given up is undone, a push only says that asking is worth it now.
 * With a mistake it is what drivers in the wild are, and the simulation has to find it.
 */
import {
  BackendError,
  type Claim,
  type Driver,
  deadline,
  type Env,
  type Grant,
  permitLimitError,
  type Wait,
} from 'holdfast/driver'
import type { table } from '../../test/support/inside.js'
import type { Connection } from './network.js'
import type { Request } from './twin.js'

export type WireMistake = 'deadline from the answer' | 'waits for the push alone'

/** Milliseconds of silence before a request is sent again, and between two looks of a waiter. */
const patience = 40
const lookAgain = 150

export function wireDriver(connection: Connection, env: Env, mistake?: WireMistake): Driver {
  const { clock, by } = env
  const pushed = new Map<string, () => void>()
  let closed = false
  const timers = new Set<() => void>()
  connection.onPush = (attempt) => pushed.get(attempt)?.()

  const after = (ms: number, fn: () => void): (() => void) => {
    const cancel = clock.at(
      clock.now() + ms,
      () => {
        timers.delete(stop)
        fn()
      },
      { ref: false },
    )
    const stop = () => {
      timers.delete(stop)
      cancel()
    }
    timers.add(stop)
    return stop
  }

  const sleep = (ms: number, until?: (wake: () => void) => () => void): Promise<void> =>
    new Promise((resolve) => {
      const wake = () => {
        stop()
        off?.()
        resolve()
      }
      const stop = after(ms, wake)
      const off = until?.(wake)
    })

  /** @throws BackendError when no answer came in time. */
  const call = async <T>(request: Request): Promise<{ answer: T; sent: number }> => {
    const sent = clock.now()
    let stop = () => {}
    const late = new Promise<never>((_, reject) => {
      stop = after(patience, () => reject(new BackendError('wire', 'no answer in time')))
    })
    try {
      return { answer: (await Promise.race([connection.ask(request), late])) as T, sent }
    } finally {
      stop()
    }
  }

  const undo = async ({ name, attempt }: Claim): Promise<void> => {
    for (let tries = 0; tries < 30 && !closed; tries++) {
      try {
        await call({ verb: 'cancel', name, attempt })
        return
      } catch {
        await sleep(patience)
      }
    }
  }

  const grantOf = (claim: Claim, hold: table.Hold, sent: number): Grant => {
    const { name, attempt } = claim
    let last = hold.token
    let validUntil = deadline(sent, claim.ttl)
    return {
      token: hold.token,
      get validUntil() {
        return validUntil
      },
      pass: () => (last < hold.upTo ? ++last : undefined),
      async renew(ttl) {
        const { answer, sent } = await call<table.Hold | undefined>({ verb: 'renew', name, attempt, ttl })
        if (answer === undefined) return undefined
        const from = mistake === 'deadline from the answer' ? clock.now() : sent
        validUntil = Math.max(validUntil, deadline(from, ttl))
        return validUntil
      },
      async release() {
        return (
          await call<'released' | 'already-released' | 'lost'>({ verb: 'release', name, attempt, last })
        ).answer
      },
      async downgrade() {
        await call({ verb: 'downgrade', name, attempt, last })
      },
    }
  }

  const waitForTurn = (claim: Claim, wait: Wait) =>
    sleep(mistake === 'waits for the push alone' ? 1e9 : lookAgain, (wake) => {
      pushed.set(claim.attempt, wake)
      wait.signal.addEventListener('abort', wake)
      return () => {
        pushed.delete(claim.attempt)
        wait.signal.removeEventListener('abort', wake)
      }
    })

  async function acquire(claim: Claim, wait: Wait): Promise<Grant | undefined> {
    const { name, attempt, mode, ttl, note } = claim
    const once = wait.remaining() === 0
    for (let tries = 0; ; tries++) {
      try {
        const ask = { attempt, mode, ttl, wait: !once, note, by }
        const { answer, sent } = await call<table.Acquired>({ verb: 'acquire', name, ask })
        if (answer.is === 'granted') {
          const from = mistake === 'deadline from the answer' ? clock.now() : sent
          const grant = grantOf(claim, answer.hold, from)
          if (!wait.over) return grant
          void undo(claim)
          return undefined
        }
        if (answer.is === 'limit')
          throw permitLimitError(name, answer.limit, mode.kind === 'permits' ? mode.of : 0)
        if (answer.is === 'busy' || answer.is === 'over') return undefined
        wait.blocked?.({ position: answer.position })
      } catch (error) {
        if (error instanceof RangeError) throw error
        if (once && (tries > 2 || wait.over)) {
          void undo(claim)
          throw new BackendError('wire', 'no answer', { cause: error })
        }
      }
      if (!wait.over && !once) await waitForTurn(claim, wait)
      if (wait.over) {
        void undo(claim)
        return undefined
      }
    }
  }

  return {
    name: 'wire',
    traits: { modes: ['exclusive', 'shared', 'permits'], fair: true, minTtl: 10, shared: true },
    acquire,
    inspect: async (name) => ({ name, holders: [], waiters: [], lastToken: 0 }),
    close: async () => {
      closed = true
      for (const stop of timers) stop()
    },
  }
}
