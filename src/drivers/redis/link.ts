/**
 * Requests to the server: collected for a tick, sent as one command for each verb, answered or given up in time.
 *
 * Everything asked for in one tick goes out together: 64 acquires are one command, and so are the renewals of all leases
 * due in the same millisecond. In a Cluster every lock has its own slot, so there each is a command of its own. Releases
 * leave first, cancels last: an acquire finds what was given back before it, and a cancel finds the acquire it ends.
 *
 * `sent` is read just before a command leaves: deadlines count from there. `epoch` grows whenever the connection breaks;
 * a request that was answered in another epoch than it was sent may have been sent twice, to two servers.
 */

import { createHash } from 'node:crypto'
import type { Clock } from '../../core/clock.js'
import type { Connection, Reply } from './client.js'
import type { Keys } from './keys.js'
import { acquire } from './scripts/acquire.js'
import type { Script } from './scripts/frame.js'
import { cancel, downgrade, force, release, renew } from './scripts/verbs.js'

export interface Answer {
  readonly reply: Reply
  /** Clock reading before the request left. */
  readonly sent: number
  /** Did the connection break in between? */
  readonly broken: boolean
  /** Replicas that have it; only with `replicas`. */
  readonly replicas: number
}

/** What stands before the items of every command: see `scripts/state.ts`. */
export interface Header {
  readonly boot: string | undefined
  readonly args: readonly string[]
}

interface Item {
  readonly keys: Keys
  readonly args: readonly string[]
  readonly leaving: ((sent: number) => void) | undefined
  readonly resolve: (answer: Answer) => void
  readonly reject: (error: unknown) => void
}

interface Flight {
  readonly sent: number
  readonly reject: (error: unknown) => void
}

export interface Link {
  readonly connection: Connection
  readonly epoch: number
  /** @param leaving called with `sent` when it leaves: a push may be here before the answer */
  ask(script: Script, keys: Keys, args: readonly string[], leaving?: (sent: number) => void): Promise<Answer>
  /** Ends the flight of everything unanswered. */
  close(): void
}

const order: readonly Script[] = [release, renew, downgrade, force, acquire, cancel]
/** Items in one command: a script of 32 acquires blocks the server for about 150 µs, one of 500 renewals for 1 ms. */
const most = (script: Script) => (script === renew ? 500 : 32)
const shas = new Map<Script, string>()

export function createLink(
  connection: Connection,
  clock: Clock,
  timeout: number,
  header: () => Header,
  wait: { readonly replicas: number; readonly timeout: number },
): Link {
  let epoch = 0
  let scheduled = false
  const waiting = new Map<Script, Item[]>(order.map((script) => [script, []]))
  const flights = new Set<Flight>()
  let disarm: (() => void) | undefined
  const unwatch = connection.watch(
    () => {
      epoch++
    },
    () => undefined,
  )

  /** One timer for all: it looks at the oldest, and is armed again for the next. */
  const patrol = () => {
    disarm = undefined
    const now = clock.now()
    for (const flight of flights) {
      if (flight.sent + timeout > now) break
      flights.delete(flight)
      flight.reject(new Error(`no answer within ${timeout} ms`))
    }
    const [oldest] = flights
    if (oldest !== undefined) disarm = clock.at(oldest.sent + timeout, patrol, { ref: false })
  }

  const flush = () => {
    scheduled = false
    for (const script of order) {
      const items = waiting.get(script)
      if (items === undefined || items.length === 0) continue
      waiting.set(script, [])
      const step = connection.cluster ? 1 : most(script)
      for (let i = 0; i < items.length; i += step) {
        void send(script, step >= items.length ? items : items.slice(i, i + step))
      }
    }
  }

  const send = async (script: Script, items: readonly Item[]) => {
    const { boot, args } = header()
    const keys = boot === undefined ? [] : [boot]
    const argv = [...args]
    for (const item of items) {
      keys.push(...item.keys)
      argv.push(...item.args)
    }
    try {
      await fly(script, items, keys, argv, 'EVALSHA').catch((error) => {
        if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error
        return fly(script, items, keys, argv, 'EVAL')
      })
    } catch (error) {
      for (const item of items) item.reject(error)
    }
  }

  const fly = async (
    script: Script,
    items: readonly Item[],
    keys: string[],
    argv: string[],
    how: 'EVALSHA' | 'EVAL',
  ) => {
    const text = how === 'EVAL' ? script.text : shaOf(script)
    const began = epoch
    const sent = clock.now()
    for (const { leaving } of items) leaving?.(sent)
    const [replies, replicas] = await new Promise<readonly [Reply, number]>((resolve, reject) => {
      const flight: Flight = { sent, reject }
      flights.add(flight)
      disarm ??= clock.at(sent + timeout, patrol, { ref: false })
      const land = () => flights.delete(flight)
      const safe = wait.replicas > 0 && (script === acquire || script === renew || script === downgrade)
      const answer = safe
        ? connection.runAndWait(how, text, keys, argv, wait.replicas, wait.timeout)
        : connection.run(how, text, keys, argv).then((reply) => [reply, 0] as const)
      answer.finally(land).then(resolve, reject)
    })
    const broken = epoch !== began
    for (const [i, item] of items.entries()) {
      const reply = (replies as readonly Reply[])[i] ?? null
      if (typeof reply === 'string' && reply.startsWith('e ')) item.reject(new Error(reply.slice(2)))
      else item.resolve({ reply, sent, broken, replicas })
    }
  }

  return {
    connection,
    get epoch() {
      return epoch
    },
    ask(script, keys, args, leaving) {
      return new Promise((resolve, reject) => {
        waiting.get(script)?.push({ keys, args, leaving, resolve, reject })
        if (scheduled) return
        scheduled = true
        process.nextTick(flush)
      })
    },
    close() {
      unwatch()
      disarm?.()
      disarm = undefined
      for (const flight of flights) flight.reject(new Error('the locks were closed'))
      flights.clear()
    },
  }
}

export function shaOf(script: Script): string {
  let sha = shas.get(script)
  if (sha === undefined) {
    sha = createHash('sha1').update(script.text).digest('hex')
    shas.set(script, sha)
  }
  return sha
}
