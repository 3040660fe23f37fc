// Long because it contains the server and the client of one protocol.
/**
 * The reference table behind a wire: a server that keeps rows, and the simplest client that obeys the driver contract. It
 * exercises the core above it with replies that are lost, late or repeated, connections that break, and unwanted grants.
 *
 * ```
 *   client   acquire(attempt) ──► server: granted, or a queue entry; a later grant is pushed
 *            polls every half second and after every reconnect, with the same attempt: deadlines count from its last request
 *            the wait is over ──► cancel, until it is answered
 * ```
 * A single attempt is sent only once: of two replies one may be "busy" and the other a grant to nobody, which blocks others until
 * it is cancelled. Without a reply it fails.
 *
 * `mistake` turns it into a broken lock of one kind, which the simulation must catch.
 */
import type { Claim, Driver, Grant, ReleaseResult, Wait } from 'holdfast/driver'
import { BackendError } from 'holdfast/driver'
import { deadline, type Env, table } from '../../../test/support/inside.js'
import type { SimulatedProcess } from '../process.js'
import { makeNetwork, type Remote } from '../wire.js'
import type { ScheduledEvent, World } from '../world.js'
import type { Mistake } from './mistakes.js'
import type { SimulatedStore, StoreKind } from './store.js'

type Ask =
  | { readonly verb: 'acquire'; readonly claim: Claim; readonly wait: boolean }
  | { readonly verb: 'renew'; readonly name: string; readonly attempt: string; readonly ttl: number }
  | { readonly verb: 'release'; readonly name: string; readonly attempt: string; readonly last: number }
  | { readonly verb: 'cancel'; readonly name: string; readonly attempt: string }
  | { readonly verb: 'mint'; readonly name: string; readonly attempt: string }
  | { readonly verb: 'downgrade'; readonly name: string; readonly attempt: string; readonly last: number }
  | { readonly verb: 'inspect'; readonly name: string }
type Request = Ask & { readonly id: number }
/** Where the tokens of passes come from: reserved with the grant, or one by one from the server. */
type Which = 'table' | 'minting'
type Reply =
  | { readonly id: number; readonly answer: unknown }
  | { readonly granted: string; readonly hold: table.Hold }

const traits = { modes: ['exclusive', 'shared', 'permits'], fair: true, minTtl: 20, shared: true } as const
/** Milliseconds after which an unanswered request is sent again, and a waiter asks once more. */
const again = 500

export function tableStore(makeMistake?: () => Mistake): StoreKind {
  return createKind('table', makeMistake)
}

/** The same for a server that mints every token, as etcd, ZooKeeper and Consul do: a grant is passed on inside its process with one request. */
export function mintingStore(makeMistake?: () => Mistake): StoreKind {
  return createKind('minting', makeMistake)
}

function createKind(which: Which, makeMistake: (() => Mistake) | undefined): StoreKind {
  const mistake = makeMistake?.()
  const what = which === 'table' ? 'table' : 'minting table'
  return {
    name: mistake === undefined ? which : `${what} that ${mistake.is}`,
    abilities: ['exclusive', 'shared', 'permits'],
    faults: ['cut', 'cutAll', 'freeze', 'slow'],
    shared: true,
    liveWithin: 30_000,
    make: (world) => makeStore(world, which, makeMistake?.()),
  }
}

function makeStore(world: World, which: Which, mistake: Mistake | undefined): SimulatedStore {
  const rows = new Map<string, table.Row>()
  const owners = new Map<string, Remote<Reply>>()
  const wall = () => 1_700_000_000_000 + world.now
  const network = makeNetwork<Request, Reply>(world, { onMessage: answer, left })
  let look: ScheduledEvent | undefined

  function apply<A>(name: string, command: (row: table.Row, now: number, wall: number) => table.Step<A>): A {
    const before = rows.get(name) ?? table.emptyRow(name)
    const right = command(before, world.now, wall())
    const step = (mistake?.after?.(before, right) ?? right) as table.Step<A>
    rows.set(name, step.row)
    for (const hold of step.granted) {
      if (mistake?.is !== 'forgets to tell the next')
        owners.get(hold.attempt)?.send({ granted: hold.attempt, hold })
    }
    lookLater()
    return step.answer
  }

  /** Holds expire by themselves while somebody waits. */
  function lookLater(): void {
    look?.cancel()
    let next = Number.POSITIVE_INFINITY
    for (const row of rows.values()) if (row.queue.length > 0) next = Math.min(next, table.nextExpiry(row))
    if (next === Number.POSITIVE_INFINITY) return
    look = world.atServer(next, () => {
      for (const name of [...rows.keys()]) apply(name, table.expire)
    })
  }

  function answer(from: Remote<Reply>, asked: Request): void {
    const request = (mistake?.before?.(asked) ?? asked) as Request
    from.send({ id: request.id, answer: carryOut(from, request) })
  }

  function carryOut(from: Remote<Reply>, ask: Ask): unknown {
    const { verb } = ask
    if (verb === 'acquire') {
      const { name, attempt, mode, ttl } = ask.claim
      owners.set(attempt, from)
      return apply(name, (row, now, wall) =>
        table.acquire(row, { attempt, mode, ttl, wait: ask.wait, client: `${from.process.id}` }, now, wall),
      )
    }
    const { name } = ask
    if (verb === 'inspect') return table.toLockStatus(rows.get(name) ?? table.emptyRow(name), world.now)
    const { attempt } = ask
    if (verb === 'renew')
      return apply(name, (row, now, wall) => table.renew(row, attempt, ask.ttl, now, wall)) !== undefined
    if (verb === 'downgrade')
      return apply(name, (row, now, wall) => table.downgrade(row, attempt, ask.last, now, wall)) !== undefined
    if (verb === 'mint') return apply(name, (row, now, wall) => mint(row, attempt, now, wall))
    if (verb === 'cancel') return apply(name, (row, now, wall) => table.cancel(row, attempt, now, wall))
    return apply(name, (row, now, wall) => table.release(row, attempt, ask.last, now, wall))
  }

  /** A client that has gone leaves the queue; its holds expire. */
  function left(from: Remote<Reply>): void {
    for (const [name, row] of [...rows]) {
      for (const { attempt } of row.queue) {
        if (owners.get(attempt) === from) apply(name, (row, now, wall) => waiterGone(row, attempt, now, wall))
      }
      if (mistake?.is !== 'lets go when the connection breaks') continue
      for (const { attempt } of row.holds) {
        if (owners.get(attempt) === from)
          apply(name, (row, now, wall) => table.cancel(row, attempt, now, wall))
      }
    }
  }

  return {
    driver: (process) => (env) => client(process, env, network, which, mistake),
    faults: {
      cut: (_, process) => network.cut(process),
      cutAll: () => network.cut(),
      freeze: (ms) => network.freeze(ms),
      slow: (ms) => network.slow(200, ms),
    },
    killed: (process) => network.cut(process),
    left: () =>
      [...rows.values()]
        .filter((row) => row.queue.length > 0 || row.holds.some((hold) => hold.expires > world.now))
        .map(({ name }) => name),
  }
}

/** Out of the queue, but not ended: it may ask again after it reconnects. */
function waiterGone(row: table.Row, attempt: string, now: number, wall: number): table.Step<boolean> {
  const queue = row.queue.filter((place) => place.attempt !== attempt)
  const { granted, expired, row: after } = table.expire({ ...row, queue }, now, wall)
  // Waiters behind it may fit now.
  const freed = table.cancel(after, '', now, wall)
  return {
    row: { ...freed.row, ended: row.ended },
    answer: true,
    granted: [...granted, ...freed.granted],
    expired,
  }
}

/** Mints the next token of a hold, without extending it. A repeated request mints one more, and the hold has the newest. */
function mint(before: table.Row, attempt: string, now: number, wall: number): table.Step<number | undefined> {
  const seen = table.expire(before, now, wall)
  const held = seen.row.holds.find((hold) => hold.attempt === attempt)
  if (held?.mode.kind !== 'exclusive') return seen
  const token = seen.row.token + 1
  const hold = { ...held, token, upTo: token }
  return { ...seen, row: { ...seen.row, token, holds: [hold] }, answer: token }
}

interface Pending {
  readonly ask: Ask
  readonly sent: number
  reply: boolean
  answered(answer: never, sent: number): void
  /** Called instead of sending it once more. */
  readonly lost: (() => void) | undefined
  stop(): void
}

function client(
  process: SimulatedProcess,
  { clock }: Env,
  network: ReturnType<typeof makeNetwork<Request, Reply>>,
  which: Which,
  mistake: Mistake | undefined,
): Driver<typeof traits> {
  const pending = new Map<number, Pending>()
  const waiting = new Map<string, { pushed(): void }>()
  const cancelling = new Set<Promise<unknown>>()
  let lastId = 0
  let closed = false
  const wire = network.connect(process, {
    heard(reply) {
      if ('granted' in reply) return waiting.get(reply.granted)?.pushed()
      const call = pending.get(reply.id)
      if (call === undefined) return
      pending.delete(reply.id)
      call.stop()
      const sent = mistake?.is === 'counts from the answer' ? clock.now() : call.sent
      call.answered(reply.answer as never, sent)
    },
    noticed(up) {
      if (up) for (const id of [...pending.keys()]) send(id)
    },
  })

  function send(id: number): void {
    const call = pending.get(id)
    if (call === undefined || !wire.up) return
    call.stop()
    if (call.reply && call.lost !== undefined) {
      pending.delete(id)
      return call.lost()
    }
    call.stop = clock.at(clock.now() + again, () => send(id))
    call.reply = true
    wire.send({ ...call.ask, id })
  }

  /** Resent until it is answered or forgotten, or `lost` if given. It is unknown which copy was answered, so deadlines count from the first. */
  function call<A>(ask: Ask, answered: (answer: A, sent: number) => void, lost?: () => void): () => void {
    const id = ++lastId
    pending.set(id, { ask, sent: clock.now(), reply: false, answered, lost, stop: () => undefined })
    send(id)
    return () => {
      pending.get(id)?.stop()
      pending.delete(id)
    }
  }

  const told = <A>(ask: Ask): Promise<A> => new Promise((resolve) => call<A>(ask, resolve))

  function acquire(claim: Claim, wait: Wait): Promise<Grant | undefined> {
    const { name, attempt } = claim
    const once = wait.remaining() <= 0 || wait.ended
    if (wait.ended) return Promise.resolve(undefined)
    return new Promise((resolve, reject) => {
      let forget = () => {}
      let stopAsking = () => {}
      const end = (grant: Grant | undefined) => {
        forget()
        stopAsking()
        waiting.delete(attempt)
        wait.signal.removeEventListener('abort', over)
        resolve(grant)
      }
      const cancel = () => {
        const gone = told<boolean>({ verb: 'cancel', name, attempt })
        cancelling.add(gone)
        void gone.then(() => cancelling.delete(gone))
      }
      const over = () => {
        cancel()
        end(undefined)
      }
      const lost = () => {
        cancel()
        reject(new BackendError('table', 'no answer'))
        end(undefined)
      }
      const ask = () => {
        forget()
        stopAsking()
        const answered = (answer: table.AcquireResult, sent: number) => {
          if (answer.is === 'granted') return end(createGrant(claim, answer.hold, sent))
          if (answer.is === 'limit') {
            end(undefined)
            return reject(new RangeError(`the limit is ${answer.limit}`))
          }
          if (answer.is === 'waiting') {
            wait.report?.({ position: answer.position })
            if (mistake?.is !== 'forgets to tell the next') stopAsking = clock.at(clock.now() + again, ask)
            return
          }
          end(undefined)
        }
        forget = call({ verb: 'acquire', claim, wait: !once }, answered, once ? lost : undefined)
      }
      waiting.set(attempt, { pushed: ask })
      wait.signal.addEventListener('abort', over)
      if (closed) return reject(new BackendError('table', 'this driver was closed', { closed: true }))
      ask()
    })
  }

  function createGrant({ name, attempt, mode, ttl }: Claim, hold: table.Hold, sent: number): Grant {
    let validUntil = deadline(sent, ttl)
    let last = hold.token
    let upTo = hold.upTo
    const grant: Grant = {
      token: hold.token,
      get validUntil() {
        return validUntil
      },
      renew: (ttl, signal) =>
        new Promise((resolve, reject) => {
          const forget = call<boolean>({ verb: 'renew', name, attempt, ttl }, (ours, sent) => {
            if (ours) validUntil = Math.max(validUntil, deadline(sent, ttl))
            resolve(ours ? validUntil : undefined)
          })
          signal.addEventListener('abort', () => {
            forget()
            reject(signal.reason)
          })
        }),
      release: () => told<ReleaseResult>({ verb: 'release', name, attempt, last }),
    }
    if (mode.kind !== 'exclusive') return grant
    const reserved = { nextReservedToken: () => (last < upTo ? ++last : undefined) }
    const minted = {
      async nextToken() {
        const token = await told<number | undefined>({ verb: 'mint', name, attempt })
        if (token !== undefined) last = token
        return token
      },
    }
    return Object.assign(grant, which === 'table' ? reserved : minted, {
      async downgrade() {
        upTo = last
        await told<boolean>({ verb: 'downgrade', name, attempt, last })
      },
    })
  }

  return {
    name: 'table',
    traits,
    acquire,
    inspect: (name) => told({ verb: 'inspect', name }),
    async close() {
      closed = true
      await Promise.all(cancelling)
      for (const { stop } of pending.values()) stop()
      pending.clear()
      wire.close()
    },
  }
}
