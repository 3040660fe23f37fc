/** A call to the broker, from sending to its last answer. */
import type { Answer, Verb } from './protocol.js'

/** A call in flight. */
export interface PendingCall {
  verb: Verb
  /** The clock reading from before it was last sent. */
  sent: number
  /** How often it was sent. If more than once, an earlier answer may have been lost. */
  times: number
  /** Called with every answer, including `waiting`. */
  readonly answered: (answer: Answer) => void
  readonly failed: (error: unknown) => void
  /** How long to wait for an answer, in ms. Infinity: it never gives up by itself. */
  readonly timeout: number
}

export type CallRequest = Pick<PendingCall, 'verb' | 'answered' | 'failed' | 'timeout'> & {
  /** False: it does not keep the process alive. */
  readonly ref?: boolean
}

export interface CallHandle {
  readonly call: PendingCall
  /** Drops the call: its answer is not reported. */
  readonly drop: () => void
}

export interface CallResult {
  readonly answer: Answer
  readonly call: PendingCall
}

/** The time within which a running broker gives any answer, in ms, even on a machine that must start it first. */
export const answerTimeout = 5000

/** Sends a call with one answer. @throws the error of `start`; `signal.reason` when that aborts first */
export function askOnce(
  start: (call: CallRequest) => CallHandle,
  verb: Verb,
  signal: AbortSignal | undefined,
  timeout: number = answerTimeout,
): Promise<CallResult> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason)
    const aborted = () => {
      drop()
      reject(signal?.reason)
    }
    const done = () => signal?.removeEventListener('abort', aborted)
    const { call, drop } = start({
      verb,
      timeout,
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
