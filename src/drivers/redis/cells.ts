/**
 * Cells in Redis: one script per verb. A process that waits for a change registers its channel with the cell; the next write
 * notifies it. Without a channel, it polls a few times a second.
 */
import type { Cells } from '../../core/cell.js'
import type { BackendError } from '../../core/errors.js'
import { orAborted } from '../../core/or-aborted.js'
import { Hints } from '../kit/hints.js'
import type { Reply } from './client.js'
import { toFailure } from './failure.js'
import { cellKeys } from './keys.js'
import { scriptHash } from './pipeline.js'
import { checkReply } from './reply-shapes.js'
import type { Runtime } from './runtime.js'
import type { Script } from './scripts/batch-script.js'
import { readCell, watchCell, writeCell } from './scripts/cells.js'
import { withinTime } from './server.js'

/** Polling interval of a cell in ms: with pushes, which may be lost, and without. */
const pollInterval = { pushed: 5_000, polling: 250 }
/** The longest time passed to PEXPIRE, in ms: some 1,000 years. */
const maxWatch = 2 ** 45

export interface CellListener {
  /** The cell may have changed. */
  changed(): void
  /** No more notifications will come. */
  closed(error: BackendError): void
}

export function createCells(open: () => Runtime, prefix: string): Cells {
  async function told<T>(signal: AbortSignal, work: (runtime: Runtime) => Promise<T>): Promise<T> {
    const runtime = open()
    try {
      return await work(runtime)
    } catch (error) {
      if (signal.aborted && error === signal.reason) throw error
      // If the driver was closed meanwhile, report that instead.
      open()
      throw toFailure(error, runtime.pipeline.connection).error
    }
  }

  return {
    read: (key, signal) =>
      told(signal, async (runtime) => {
        const reply = (await run(runtime, readCell, cellKeys(prefix, key).slice(0, 1), [], signal)) as
          | readonly [string, string]
          | null
        return reply === null ? undefined : { version: Number(reply[0]), value: reply[1] }
      }),

    write: (key, { ifVersion, value, ttl, id }, signal) =>
      told(signal, async (runtime) => {
        const ms = Number.isFinite(ttl) ? String(Math.min(Math.max(1, Math.ceil(ttl)), maxWatch)) : ''
        const args = [String(ifVersion), id, ms, String(runtime.settings.retention)]
        if (value !== undefined) args.push(value)
        const version = await run(runtime, writeCell, cellKeys(prefix, key), args, signal)
        return version === null ? undefined : { version: Number(version), value: value ?? '' }
      }),

    changed: (key, version, signal) =>
      told(signal, async (runtime) => {
        const keys = cellKeys(prefix, key)
        runtime.subscriber.open()
        let wake = () => {}
        const hints = new Hints(runtime.clock, () => wake())
        for (;;) {
          open()
          const { channel } = runtime.subscriber
          const pushed = channel.startsWith('-') ? undefined : channel
          const every = pushed === undefined ? pollInterval.polling : pollInterval.pushed
          // Add the listener before querying the cell: a push may arrive before the reply.
          const notified = subscribe(runtime, runtime.pipeline.connection.keyPrefix + keys[0], hints, signal)
          wake = notified.wake
          try {
            const args = [String(version), pushed ?? '-', String(2 * every)]
            const left = await run(runtime, watchCell, keys, args, signal)
            if (left === 'changed') return
            hints.queryDone()
            const ms = Number(left)
            await notified.within(ms < 0 ? every : Math.min(ms + 1, every))
          } finally {
            hints.stop()
            notified.done()
          }
        }
      }),
  }
}

/** Listens for pushes about one cell. */
function subscribe(runtime: Runtime, key: string, hints: Hints, signal: AbortSignal) {
  const { clock, cellListeners } = runtime
  let stop = () => {}
  let resolve = () => {}
  let reject: (error: unknown) => void = () => {}
  const notified = new Promise<void>((yes, no) => {
    resolve = yes
    reject = no
  })
  notified.catch(() => undefined)
  const aborted = () => reject(signal.reason)
  const listeners = cellListeners.get(key) ?? new Set()
  const listener = { changed: () => hints.notify(), closed: reject }
  cellListeners.set(key, listeners.add(listener))
  signal.addEventListener('abort', aborted)
  return {
    wake: resolve,
    within(ms: number): Promise<void> {
      stop = clock.at(clock.now() + ms, resolve)
      return notified
    },
    done(): void {
      stop()
      signal.removeEventListener('abort', aborted)
      if (listeners.delete(listener) && listeners.size === 0) cellListeners.delete(key)
    },
  }
}

async function run(
  runtime: Runtime,
  script: Script,
  keys: readonly string[],
  args: readonly string[],
  signal: AbortSignal,
): Promise<Reply> {
  signal.throwIfAborted()
  const { connection } = runtime.pipeline
  const { replicas, replicaTimeout, commandTimeout } = runtime.settings
  const once = async (how: 'EVALSHA' | 'EVAL', text: string): Promise<Reply> => {
    if (replicas === 0 || script !== writeCell) return connection.run(how, text, keys, args)
    const [reply, acknowledged] = await connection.runAndWait(how, text, keys, args, replicas, replicaTimeout)
    if (acknowledged < replicas) throw runtime.notEnoughReplicas(acknowledged)
    return reply
  }
  const answer = once('EVALSHA', scriptHash(script)).catch((error: unknown) => {
    if (error instanceof Error && error.message.startsWith('NOSCRIPT')) return once('EVAL', script.text)
    throw error
  })
  return checkReply(script, await orAborted(withinTime(runtime.clock, commandTimeout, answer), signal), [])
}
