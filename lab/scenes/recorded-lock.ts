/** Records what a client of a lock by hand believes: only its own release ends its hold. */
import type { ModeKind, Recorder } from 'holdfast/verify'
import type { Held } from './lock.js'

export interface LockRequest {
  readonly name: string
  /** ms */
  readonly wait: number
  /** Default exclusive. */
  readonly mode?: ModeKind
}

/** Releases the lock. */
export type Release = () => Promise<unknown>

let attempts = 0

/** @param take resolves with undefined when it could not be acquired */
export async function recordedLock(
  recorder: Recorder,
  { name, wait, mode = 'exclusive' }: LockRequest,
  take: () => Promise<Release | undefined>,
): Promise<Held | undefined> {
  const about = { name, attempt: `${recorder.client}:${process.pid}:${++attempts}` }
  recorder.write({ ...about, op: 'acquire', phase: 'invoke', mode, wait })
  const failed = (kind: string) => recorder.write({ ...about, op: 'acquire', phase: 'fail', kind })
  const free = await take().catch((error: Error & { code?: string }) => {
    failed(error.code ?? error.message)
    throw error
  })
  if (free === undefined) {
    failed('busy')
    return undefined
  }
  recorder.write({ ...about, op: 'acquire', phase: 'ok' })
  return {
    isHeld: true,
    async release() {
      recorder.write({ ...about, op: 'release', phase: 'invoke' })
      const reply = await free()
      recorder.write({ ...about, op: 'release', phase: 'ok', kind: String(reply) })
      return reply
    },
  }
}

/** The timers of a lock by hand: ends of waits, and heartbeats. All of them end when the lock is closed. */
export class Limits {
  readonly #open = new Set<AbortController>()
  readonly #beats = new Set<NodeJS.Timeout>()

  /** @param ms 0: at once */
  after(ms: number): AbortSignal {
    const limit = new AbortController()
    if (ms === 0) limit.abort()
    else {
      this.#open.add(limit)
      setTimeout(() => limit.abort(), ms).unref()
    }
    return limit.signal
  }

  /** Sends keepalives in the background, as libraries do, without checking the replies. Returns a function that stops it. */
  beat(every: number, beat: () => Promise<unknown>): () => void {
    const timer = setInterval(() => void beat().catch(() => undefined), every)
    this.#beats.add(timer)
    return () => clearInterval(timer)
  }

  end(): void {
    for (const limit of this.#open) limit.abort()
    for (const timer of this.#beats) clearInterval(timer)
  }
}
