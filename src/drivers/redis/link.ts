/**
 * Requests to the server: collected for a tick, sent as one command for each verb, answered or given up in time.
 *
 * Everything asked for in one tick goes out together: 64 acquires are two commands, and so are the renewals of all leases
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
import { together } from './scripts/together.js'
import { cancel, downgrade, force, release, renew } from './scripts/verbs.js'

/** What is common to all that went out in one command. */
export interface Flight {
  /** Clock reading before it left. */
  readonly sent: number
  readonly epoch: number
  /** Did the connection break before the answer came? */
  broken: boolean
  /** Replicas that have it; only with `replicas`. */
  replicas: number
}

/** Who asks. Not a promise: an uncontended acquire and release make dozens of objects less. */
export interface Asker {
  /** It leaves now. A push may be here before the answer. */
  leaving?(flight: Flight): void
  answered(reply: Reply, flight: Flight): void
  failed(error: unknown): void
}

/** What stands before the items of every command: see `scripts/state.ts`. */
export interface Header {
  readonly boot: string | undefined
  readonly args: readonly string[]
}

interface Item {
  readonly keys: readonly string[]
  readonly args: readonly string[]
  readonly asker: Asker
}

interface Sent extends Flight {
  readonly items: readonly Item[]
}

export interface Link {
  readonly connection: Connection
  readonly epoch: number
  /** @param keys of one lock; of `together`, of all of them, and so the arguments */
  ask(script: Script, keys: readonly string[], args: readonly string[], asker: Asker): void
  /** Ends the flight of everything unanswered. */
  close(): void
}

const order: readonly Script[] = [release, renew, downgrade, force, together, acquire, cancel]
const proofs: readonly Script[] = [acquire, together, renew, downgrade]
/** Items in one command: a script of 32 acquires blocks the server for about 150 µs, one of 500 renewals for 1 ms. */
const most = (script: Script) => (script === together ? 1 : script === renew ? 500 : 32)
const shas = new Map<Script, string>()

/** @param replicas how many must have every proof, and how long to wait for them in ms */
export function createLink(
  connection: Connection,
  clock: Clock,
  timeout: number,
  header: () => Header,
  replicas: { readonly needed: number; readonly timeout: number },
): Link {
  let epoch = 0
  let scheduled = false
  const waiting = new Map<Script, Item[]>(order.map((script) => [script, []]))
  const flights = new Set<Sent>()
  let disarm: (() => void) | undefined
  const down = () => {
    epoch++
  }
  const unwatch = connection.watch(down, () => undefined)

  /** One timer for all: it looks at the oldest, and is armed again for the next. What has arrived meanwhile is read first. */
  const patrolAt = (at: number) => clock.at(at, () => clock.soon(patrol), { ref: false })
  const patrol = () => {
    disarm = undefined
    const now = clock.now()
    for (const flight of flights) {
      if (flight.sent + timeout > now) break
      crash(flight, new Error(`no answer within ${timeout} ms`))
    }
    const [oldest] = flights
    if (oldest !== undefined) disarm = patrolAt(oldest.sent + timeout)
  }

  const flush = () => {
    scheduled = false
    for (const script of order) {
      const items = waiting.get(script)
      if (items === undefined || items.length === 0) continue
      waiting.set(script, [])
      const step = connection.cluster ? 1 : most(script)
      if (items.length <= step) send(script, items, 'EVALSHA')
      else for (let i = 0; i < items.length; i += step) send(script, items.slice(i, i + step), 'EVALSHA')
    }
  }

  /** @param since in which epoch it was asked for first: what a server that does not know the script was told then, it is told again */
  const send = (script: Script, items: readonly Item[], how: 'EVALSHA' | 'EVAL', since = epoch) => {
    const { boot, args } = header()
    const keys = boot === undefined ? [] : [boot]
    const argv = args.slice()
    for (const item of items) {
      for (const key of item.keys) keys.push(key)
      for (const arg of item.args) argv.push(arg)
    }
    const text = how === 'EVAL' ? script.text : shaOf(script)
    const flight: Sent = { sent: clock.now(), epoch: since, broken: false, replicas: 0, items }
    for (const { asker } of items) asker.leaving?.(flight)
    flights.add(flight)
    disarm ??= patrolAt(flight.sent + timeout)
    const failed = (error: unknown) => {
      const unknownScript = error instanceof Error && error.message.startsWith('NOSCRIPT')
      if (unknownScript && flights.delete(flight)) send(script, items, 'EVAL', since)
      else crash(flight, error)
    }
    if (replicas.needed > 0 && proofs.includes(script)) {
      connection
        .runAndWait(how, text, keys, argv, replicas.needed, replicas.timeout)
        .then(([reply, acknowledged]) => {
          flight.replicas = acknowledged
          land(flight, reply)
        }, failed)
    } else connection.run(how, text, keys, argv).then((reply) => land(flight, reply), failed)
  }

  const land = (flight: Sent, replies: Reply) => {
    if (!flights.delete(flight)) return
    flight.broken = epoch !== flight.epoch
    const { items } = flight
    for (let i = 0; i < items.length; i++) {
      const reply = items.length === 1 ? replies : ((replies as readonly Reply[])[i] ?? null)
      const asker = items[i]?.asker
      if (typeof reply === 'string' && reply.startsWith('e ')) asker?.failed(new Error(reply.slice(2)))
      else asker?.answered(reply, flight)
    }
  }

  const crash = (flight: Sent, error: unknown) => {
    if (!flights.delete(flight)) return
    for (const { asker } of flight.items) asker.failed(error)
  }

  return {
    connection,
    get epoch() {
      return epoch
    },
    ask(script, keys, args, asker) {
      waiting.get(script)?.push({ keys, args, asker })
      if (scheduled) return
      scheduled = true
      process.nextTick(flush)
    },
    close() {
      unwatch()
      disarm?.()
      disarm = undefined
      for (const flight of flights) crash(flight, new Error('the locks were closed'))
    },
  }
}

/** The same as a promise, for what is not asked a hundred thousand times a second. */
export function answerTo(
  link: Link,
  script: Script,
  keys: Keys,
  args: readonly string[],
): Promise<readonly [Reply, Flight]> {
  return new Promise((resolve, reject) => {
    link.ask(script, keys, args, { answered: (reply, flight) => resolve([reply, flight]), failed: reject })
  })
}

export function shaOf(script: Script): string {
  let sha = shas.get(script)
  if (sha === undefined) {
    sha = createHash('sha1').update(script.text).digest('hex')
    shas.set(script, sha)
  }
  return sha
}
