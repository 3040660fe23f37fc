/**
 * Request pipeline: collects requests for a tick, sends one command per verb, and delivers each reply or fails it in time.
 * Everything requested in one tick leaves together: 64 acquires are two commands, and so are the renewals of all leases due in
 * the same millisecond. In a Cluster every lock has its own slot, so each request is a command of its own. Releases leave first,
 * cancels last: an acquire sees what was released before it, and a cancel finds the acquire it ends.
 * `sent` is read just before a command leaves: deadlines count from it. `epoch` grows whenever the connection breaks; a request
 * answered in another epoch than it was sent in may have been sent twice, to two servers. `epoch` also grows when the server has
 * been silent for too long: it may have been suspended, and replaced meanwhile.
 *
 * Long because every outcome of a request is in one file.
 */
import { createHash } from 'node:crypto'
import type { Clock } from '../../core/clock.js'
import type { Connection, Reply } from './client.js'
import type { Keys } from './keys.js'
import { GarbledReply, isReply } from './reply-shapes.js'
import { acquire } from './scripts/acquire.js'
import { together } from './scripts/acquire-many.js'
import type { Script } from './scripts/batch-script.js'
import { cancel, downgrade, force, further, release, renew } from './scripts/verbs.js'

/** Shared by all requests sent in one command. */
export interface Batch {
  /** Clock reading before the command left. */
  readonly sent: number
  readonly epoch: number
  /** Did the connection break before the reply, or may another server be the master by then? */
  broken: boolean
  /** May the client have sent the command twice? */
  twice: boolean
  /** How many replicas acknowledged it; only with the option `replicas`. */
  replicas: number
}

/** Receives the reply to a request. Not a promise: that saves dozens of objects per uncontended acquire and release. */
export interface Callbacks {
  /** The request leaves now. A push may arrive before the reply. */
  leaving?(flight: Batch): void
  answered(reply: Reply, flight: Batch): void
  failed(error: unknown): void
}

/** The arguments before the items of every command: see `scripts/state.ts`. */
export interface Preamble {
  readonly boot: string | undefined
  readonly args: readonly string[]
}

interface Item {
  readonly keys: readonly string[]
  readonly args: readonly string[]
  readonly callbacks: Callbacks
}

/** Requests of one script that leave in this tick. */
interface Line {
  readonly script: Script
  items: Item[]
}

interface Sent extends Batch {
  readonly script: Script
  readonly items: readonly Item[]
  readonly how: 'EVALSHA' | 'EVAL'
  /** Only the first key of each item was sent. */
  readonly hashAlone: boolean
  /** Clock reading of the first send. */
  readonly began: number
}

export interface Pipeline {
  readonly connection: Connection
  readonly epoch: number
  /** @param keys the keys of one lock; for `together` those of all its locks. The same goes for `args` */
  ask(script: Script, keys: readonly string[], args: readonly string[], callbacks: Callbacks): void
  /** Fails every unanswered request. */
  close(): void
}

const order: readonly Script[] = [release, renew, downgrade, force, further, together, acquire, cancel]
const maxUnconfirmed: readonly Script[] = [acquire, together, renew, downgrade]
/** Items in one command: a script of 32 acquires blocks the server for about 150 µs, one of 500 renewals for 1 ms. */
const maxBatch = (script: Script) => (script === together ? 1 : script === renew ? 500 : 32)
/** How long to wait on CLUSTERDOWN, in ms: after a fail-over a node may learn that the old master left its slots before it learns who owns them. */
const settling = 1_000
const shas = new Map<Script, string>()

/**
 * @param replicas how many replicas must have every proof, and how long to wait for them in ms
 * @param on `up`: the connection is usable again. `answer`: a reply arrived at that clock reading; returns whether the silence before it was too long
 */
export function createPipeline(
  connection: Connection,
  clock: Clock,
  timeout: number,
  header: (key: string) => Preamble,
  replicas: { readonly needed: number; readonly timeout: number },
  on: { up(): void; answer(now: number): boolean },
): Pipeline {
  let epoch = 0
  let scheduled = false
  let closed = false
  const lines = order.map((script): Line => ({ script, items: [] }))
  const lineOf = new Map(lines.map((line) => [line.script, line]))
  const flights = new Set<Sent>()
  let disarm: (() => void) | undefined
  const down = () => {
    epoch++
  }
  const unwatch = connection.watch(down, on.up)

  /** One timer for all requests: it checks the oldest, then is armed for the next. Replies that have already arrived are read first. */
  const nextCheckAt = (at: number) => clock.at(at, () => clock.soon(checkTimeouts), { ref: false })
  const checkTimeouts = () => {
    disarm = undefined
    const now = clock.now()
    for (const flight of flights) {
      if (flight.sent + timeout > now) break
      if (flight.epoch === epoch) down()
      crash(flight, new Error(`no answer within ${timeout} ms`))
    }
    const [oldest] = flights
    if (oldest !== undefined) disarm = nextCheckAt(oldest.sent + timeout)
  }

  const flush = () => {
    scheduled = false
    if (closed)
      for (const { items } of lines) for (const { callbacks } of items.splice(0)) callbacks.failed(over())
    for (const line of lines) {
      const { script, items } = line
      if (items.length === 0) continue
      line.items = []
      const step = connection.cluster ? 1 : maxBatch(script)
      if (items.length <= step) send(script, items)
      else for (let i = 0; i < items.length; i += step) send(script, items.slice(i, i + step))
    }
  }

  /** @param before the send that this one repeats: replies count as of its epoch, and the wait for an owner of the slot continues */
  const send = (
    script: Script,
    items: readonly Item[],
    how: 'EVALSHA' | 'EVAL' = 'EVALSHA',
    before?: Sent,
    hashAlone = false,
  ) => {
    const { boot, args } = header(items[0]?.keys[0] ?? '')
    const one = items.length === 1 && !hashAlone ? items[0] : undefined
    const { keys, args: own } = one ?? flatten(items, hashAlone)
    const sent = clock.now()
    const flight: Sent = {
      sent,
      epoch: before?.epoch ?? epoch,
      broken: false,
      twice: false,
      replicas: 0,
      script,
      items,
      how,
      hashAlone,
      began: before?.began ?? sent,
    }
    for (const { callbacks } of items) callbacks.leaving?.(flight)
    flights.add(flight)
    disarm ??= nextCheckAt(sent + timeout)
    run(flight, boot === undefined ? keys : [boot, ...keys], [...args, ...own])
  }

  const run = (flight: Sent, keys: readonly string[], args: readonly string[]) => {
    const { script, how } = flight
    const text = how === 'EVAL' ? script.text : scriptHash(script)
    const fail = (error: unknown) => failed(flight, error)
    // A client that throws, instead of rejecting, would end the process from here.
    try {
      if (replicas.needed > 0 && maxUnconfirmed.includes(script)) {
        connection
          .runAndWait(how, text, keys, args, replicas.needed, replicas.timeout)
          .then(([reply, acknowledged]) => {
            flight.replicas = acknowledged
            complete(flight, reply)
          }, fail)
      } else connection.run(how, text, keys, args).then((reply) => complete(flight, reply), fail)
    } catch (error) {
      fail(error)
    }
  }

  const failed = (flight: Sent, error: unknown) => {
    const { script, items, how, hashAlone, began } = flight
    const says = (code: string) => error instanceof Error && error.message.startsWith(code)
    // To a server that lacks the script: the full text.
    if (says('NOSCRIPT') && flights.delete(flight)) send(script, items, 'EVAL', flight, hashAlone)
    // A lock without waiters has only its hash, and a single key is always found while a slot is being moved.
    else if (says('TRYAGAIN') && !hashAlone && flights.delete(flight)) send(script, items, how, flight, true)
    else if (says('CLUSTERDOWN') && clock.now() < began + settling) {
      const again = () => flights.delete(flight) && send(script, items, how, flight, hashAlone)
      // Retry after 50 ms, then after as long as it has waited so far: a cluster that stays down gets few requests.
      clock.at(clock.now() + Math.max(50, clock.now() - began), again)
    } else crash(flight, error)
  }

  const complete = (flight: Sent, replies: Reply) => {
    if (!flights.delete(flight)) return
    flight.twice = epoch !== flight.epoch
    const now = clock.now()
    const silent = on.answer(now) || now - flight.sent >= timeout
    if (flight.epoch === epoch && silent) down()
    flight.broken = epoch !== flight.epoch
    const { items } = flight
    if (items.length === 1) return deliver(flight, items[0] as Item, replies)
    const each: readonly Reply[] = Array.isArray(replies) ? replies : []
    const whole = each.length === items.length
    for (let i = 0; i < items.length; i++) deliver(flight, items[i] as Item, whole ? each[i] : replies)
  }

  const deliver = (flight: Sent, { args, callbacks }: Item, reply: Reply = null) => {
    const { name } = flight.script
    if (typeof reply === 'string' && reply.startsWith('e ')) callbacks.failed(new Error(reply.slice(2)))
    else if (!isReply(name, reply, args)) callbacks.failed(new GarbledReply(`EVALSHA (${name})`, reply))
    else callbacks.answered(reply, flight)
  }

  const crash = (flight: Sent, error: unknown) => {
    if (!flights.delete(flight)) return
    for (const { callbacks } of flight.items) callbacks.failed(error)
  }

  return {
    connection,
    get epoch() {
      return epoch
    },
    ask(script, keys, args, callbacks) {
      if (closed) return callbacks.failed(over())
      lineOf.get(script)?.items.push({ keys, args, callbacks: callbacks })
      if (scheduled) return
      scheduled = true
      process.nextTick(flush)
    },
    close() {
      closed = true
      unwatch()
      disarm?.()
      disarm = undefined
      for (const flight of flights) crash(flight, over())
    },
  }
}

/** In loops: `flatMap` over 32 items costs the client more than the rest of their command. */
function flatten(items: readonly Item[], hashAlone: boolean): Pick<Item, 'keys' | 'args'> {
  const keys: string[] = []
  const all: string[] = []
  for (const item of items) {
    for (const key of hashAlone ? item.keys.slice(0, 1) : item.keys) keys.push(key)
    for (const arg of item.args) all.push(arg)
  }
  return { keys, args: all }
}

const over = () => new Error('the locks were closed')

/** `link.ask` as a promise, for requests not made a hundred thousand times a second. */
export function answerTo(
  link: Pipeline,
  script: Script,
  keys: Keys,
  args: readonly string[],
): Promise<readonly [Reply, Batch]> {
  return new Promise((resolve, reject) => {
    link.ask(script, keys, args, { answered: (reply, flight) => resolve([reply, flight]), failed: reject })
  })
}

export function scriptHash(script: Script): string {
  let sha = shas.get(script)
  if (sha === undefined) {
    sha = createHash('sha1').update(script.text).digest('hex')
    shas.set(script, sha)
  }
  return sha
}
