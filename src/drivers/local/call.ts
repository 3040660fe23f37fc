/** A call to the broker, from its sending to its last answer. */
import type { Answer, Verb } from './protocol.js'

/** A call on its way. */
export interface Pending {
  verb: Verb
  /** Clock reading before it was sent last. */
  sent: number
  /** How often it was sent: more than once, and an earlier answer may have been lost. */
  times: number
  /** Every answer, `waiting` too. */
  readonly answered: (answer: Answer) => void
  readonly failed: (error: unknown) => void
  /** When to give up. Infinity: never by itself. */
  readonly patience: number
}

export type Asked = Pick<Pending, 'verb' | 'answered' | 'failed' | 'patience'>

export interface Started {
  readonly call: Pending
  /** Forgets the call; nobody is told of its answer. */
  readonly drop: () => void
}

export interface Answered {
  readonly answer: Answer
  readonly call: Pending
}

/** Milliseconds within which a broker that runs gives any answer at all, even on a machine that starts it first. */
export const answerWithin = 5000

/** A call with one answer. @throws what `start` fails with; `signal.reason` when that aborts first */
export function askOnce(
  start: (call: Asked) => Started,
  verb: Verb,
  signal: AbortSignal | undefined,
  patience: number = answerWithin,
): Promise<Answered> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason)
    const aborted = () => {
      drop()
      reject(signal?.reason)
    }
    const done = () => signal?.removeEventListener('abort', aborted)
    const { call, drop } = start({
      verb,
      patience,
      answered(answer) {
        done()
        resolve({ answer, call })
      },
      failed(error) {
        done()
        reject(error)
      },
    })
    signal?.addEventListener('abort', aborted, { once: true })
  })
}
