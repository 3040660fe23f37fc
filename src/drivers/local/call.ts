/** A call to the broker, from sending to its last answer. */
import type { Answer, Verb } from './protocol.js'

/** A call in flight. */
export interface Pending {
  verb: Verb
  /** The clock reading from before it was last sent. */
  sent: number
  /** How often it was sent. If more than once, an earlier answer may have been lost. */
  times: number
  /** Called with every answer, including `waiting`. */
  readonly answered: (answer: Answer) => void
  readonly failed: (error: unknown) => void
  /** How long to wait for an answer, in ms. Infinity: it never gives up by itself. */
  readonly patience: number
}

export type Asked = Pick<Pending, 'verb' | 'answered' | 'failed' | 'patience'> & {
  /** False: it does not keep the process alive. */
  readonly ref?: boolean
}

export interface Started {
  readonly call: Pending
  /** Drops the call: its answer is not reported. */
  readonly drop: () => void
}

export interface Answered {
  readonly answer: Answer
  readonly call: Pending
}

/** The time within which a running broker gives any answer, in ms, even on a machine that must start it first. */
export const answerWithin = 5000

/** Sends a call with one answer. @throws the error of `start`; `signal.reason` when that aborts first */
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
