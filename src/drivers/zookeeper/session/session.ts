/**
 * Long because it is one state machine: whoever changes a transition should see them all.
 *
 * The session of one process with an ensemble: ephemeral nodes live as long as it does.
 *
 * ```
 *            wanted             accepted                      silent, closed, refused
 *   idle ──────────► connecting ─────────► connected ─────────────────────────────► suspended
 *    ▲                 ▲   │ next server      ▲                                       │
 *    │                 └───┘                  └──── same id and password, elsewhere ──┤
 *    └────────────────────────── "expired": every node of it is gone ◄────────────────┘
 * ```
 * The leader alone ends a session. Here it is only known until when it can be relied upon (`validUntil`), and that moves
 * forward with each answer *of the leader*. A follower answers reads and pings by itself, also when it has lost its leader and
 * has yet to notice; so the heartbeat is a `sync`, which goes to the leader and back. A request on a connection that breaks is rejected: whether it was carried out is not known, and
 * whoever asked must look. Answers come in the order of the requests.
 */
import type { Clock } from '../../../core/clock.js'
import type { TlsOptions } from '../../kit/http.js'
import type { Address } from '../options.js'
import { paceOf, pauseBefore, provenUntil } from './clockwork.js'
import { Reader, Writer } from './jute.js'
import {
  codes,
  ops,
  provesSession,
  type Request,
  refusal,
  sync,
  type Watch,
  xids,
  ZookeeperError,
} from './protocol.js'
import { Watches } from './watches.js'
import { openWire, type Wire } from './wire.js'

export interface SessionSettings {
  readonly servers: readonly Address[]
  readonly sessionTimeout: number
  readonly tickTime: number
  readonly tls?: TlsOptions | undefined
  readonly auth: readonly { readonly scheme: string; readonly credential: string }[]
}

export interface Session {
  readonly connected: boolean
  /** 0n: none yet, or it has ended. */
  readonly id: bigint
  /** As granted by the server, in ms; before that, as it will be asked for. */
  readonly timeout: number
  /** Clock reading until which the server cannot have ended it. */
  readonly validUntil: number
  /** Why the last connection failed. */
  readonly trouble: Error | undefined
  /** Requests sent so far, heartbeats not counted. */
  readonly requests: number
  /** Watches that fired so far. */
  readonly events: number
  /** @throws ZookeeperError as the promise's rejection: refused, or `connectionLoss`, carried out or not */
  call<T>(request: Request<T>): Promise<T>
  /** Resolves once connected. Connects if need be. Rejects with the signal's reason; when closed; when the server refuses who we are. */
  ready(signal: AbortSignal): Promise<void>
  /** Resolves once something sent from now on was answered. Rejects as `call` does, or with the signal's reason. */
  prove(signal: AbortSignal): Promise<void>
  drop(watch: Watch): void
  /** Somebody waits, so the connection keeps the process alive until the returned function is called. */
  keepAlive(): () => void
  /** Tells the server that the session is over, and closes. */
  close(): Promise<void>
}

export interface SessionHooks {
  /** Connected again, with the same session, before anybody else may use it. */
  resumed(): void
  suspended(): void
  /** A connection broke or never came up. */
  troubled(error: Error): void
  /** The server has ended it. */
  expired(): void
}

interface Pending {
  readonly xid: number
  readonly op: number
  readonly sent: number
  readonly answered: (error: number, body: Reader) => void
  readonly lost: (error: ZookeeperError) => void
}

interface Waiting {
  readonly since: number
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

const farewell = 500

export function createSession(
  settings: SessionSettings,
  clock: Clock,
  random: () => number,
  hooks: SessionHooks,
): Session {
  const servers = [...settings.servers]
  // Each process begins with another server.
  for (let i = servers.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1))
    const [a, b] = [servers[i], servers[j]]
    if (a !== undefined && b !== undefined) [servers[i], servers[j]] = [b, a]
  }
  const watches = new Watches()
  let wire: Wire | undefined
  let connected = false
  let closed = false
  let id = 0n
  let password: Buffer = Buffer.alloc(16)
  let timeout = settings.sessionTimeout
  let pace = paceOf(timeout)
  let lastZxid = 0n
  let lastXid = 0
  let attempt = 0
  let next = 0
  let proven = Number.NEGATIVE_INFINITY
  /** When the last heartbeat was sent. */
  let beaten = Number.NEGATIVE_INFINITY
  let trouble: Error | undefined
  let refused: ZookeeperError | undefined
  let requests = 0
  let events = 0
  let alive = 0
  /** Requests not answered yet, heartbeats left out. */
  let asked = 0
  let pending: Pending[] = []
  let beatSoon = false
  const readies = new Set<Waiting>()
  const proofs = new Set<Waiting>()
  let stopLook: (() => void) | undefined
  let stopDial: (() => void) | undefined

  const validUntil = () =>
    id === 0n ? Number.NEGATIVE_INFINITY : provenUntil(proven, timeout, settings.tickTime)
  /** Does somebody wait for an answer? A lease alone does not keep the process alive. */
  const needed = () => alive > 0 || asked > 0 || readies.size > 0
  const wanted = () => !closed && (id !== 0n || readies.size > 0)

  function prove(sent: number): void {
    proven = Math.max(proven, sent)
    for (const proof of proofs) if (proof.since <= sent) proof.resolve()
  }

  // --- connecting

  function dial(): void {
    if (wire !== undefined || stopDial !== undefined || !wanted() || refused !== undefined) return
    const pause = pauseBefore(attempt, servers.length, random())
    stopDial = clock.at(clock.now() + pause, open, { ref: needed() })
  }

  function open(): void {
    stopDial = undefined
    const address = servers[next % servers.length]
    if (address === undefined || !wanted()) return
    next++
    attempt++
    let sent = 0
    const mine = openWire(address, settings.tls, {
      opened() {
        sent = clock.now()
        const asked = id === 0n ? settings.sessionTimeout : timeout
        const to = new Writer().int(0).long(lastZxid).int(asked).long(id).bytes(password).bool(false)
        mine.send(to.frame())
      },
      frame: (body) => (connected ? received(body) : accepted(body, sent)),
      gone: (error) => broken(error),
    })
    wire = mine
    mine.keepAlive(needed())
    const late = new Error(
      `${address.host}:${address.port} did not answer within ${Math.round(pace.connect)} ms`,
    )
    const from = clock.now()
    lookAfter(() => (!connected && clock.now() - from >= pace.connect ? late : undefined))
  }

  /** Looks at the present connection at intervals, and drops it when `wrong` says so. */
  function lookAfter(wrong: () => Error | undefined): void {
    stopLook?.()
    const mine = wire
    stopLook = clock.at(
      clock.now() + pace.look,
      () =>
        // After a stall the answer may lie unread in the socket: it is read before this runs.
        clock.soon(() => {
          if (mine !== wire || mine === undefined) return
          const error = wrong()
          if (error !== undefined) broken(error)
          else lookAfter(wrong)
        }),
      { ref: needed() },
    )
  }

  function accepted(body: Buffer, sent: number): void {
    const from = new Reader(body)
    from.int()
    const granted = from.int()
    const given = from.long()
    if (granted <= 0 || given === 0n) return expire()
    const same = given === id
    id = given
    password = Buffer.from(from.bytes())
    timeout = granted
    pace = paceOf(timeout)
    attempt = 0
    connected = true
    trouble = undefined
    for (const { scheme, credential } of settings.auth)
      wire?.send(header(xids.auth, ops.auth).int(0).text(scheme).bytes(Buffer.from(credential)).frame())
    if (!same) proven = sent
    else {
      // The server tells of all that has changed since, so nothing that fired meanwhile is missed.
      for (const piece of watches.pieces()) {
        const to = header(xids.setWatches, ops.setWatches).long(lastZxid)
        piece(to)
        wire?.send(to.frame())
      }
      hooks.resumed()
    }
    prove(sent)
    lookAfter(listen)
    for (const waiting of [...readies]) waiting.resolve()
    wire?.keepAlive(needed())
  }

  /** Is the server still there? Sends a heartbeat when the session has not been proven for a while. */
  function listen(): Error | undefined {
    const now = clock.now()
    const oldest = pending[0]?.sent ?? Number.POSITIVE_INFINITY
    if (now - oldest >= pace.silence) return new Error(`no answer within ${Math.round(now - oldest)} ms`)
    if (now - Math.max(proven, beaten) >= pace.beat) beat()
    return undefined
  }

  function broken(error: Error): void {
    wire?.destroy()
    wire = undefined
    stopLook?.()
    trouble = error
    const was = connected
    connected = false
    if (was) {
      hooks.suspended()
      const lost = new ZookeeperError(codes.connectionLoss, `the connection broke: ${error.message}`, {
        cause: error,
      })
      const left = pending
      pending = []
      for (const one of left) one.lost(lost)
      for (const proof of [...proofs]) proof.reject(lost)
    }
    if (!closed) hooks.troubled(error)
    dial()
  }

  function expire(): void {
    // A server that refuses even a new session is not asked again at once.
    if (id !== 0n) attempt = 0
    id = 0n
    password = Buffer.alloc(16)
    proven = Number.NEGATIVE_INFINITY
    timeout = settings.sessionTimeout
    watches.clear()
    hooks.expired()
    broken(new Error('the server has ended the session'))
  }

  // --- talking

  const header = (xid: number, op: number) => new Writer().int(xid).int(op)

  function beat(): void {
    beaten = clock.now()
    send(sync('/')).catch(() => undefined)
  }

  function received(body: Buffer): void {
    const from = new Reader(body)
    const xid = from.int()
    const zxid = from.long()
    const error = from.int()
    if (zxid > lastZxid) lastZxid = zxid
    if (xid === xids.event) {
      const type = from.int()
      from.int()
      events++
      return watches.fire(type, from.text())
    }
    if (xid === xids.auth && error !== 0) return refuse(refusal(error, 'the login'))
    if (xid < 0) return
    const [one] = pending
    // A server that refuses a write of a session that has moved may answer the read after it first. The write stays among those that
    // are told of the break that follows.
    if (one?.xid !== xid) throw new Error(`an answer to request ${xid} came out of turn`)
    pending.shift()
    if (error === codes.sessionExpired) {
      one.lost(refusal(error, 'the request'))
      return expire()
    }
    if (error === codes.sessionMoved) {
      const moved = refusal(error, 'the request')
      one.lost(moved)
      return broken(moved)
    }
    if (provesSession(one.op, error)) prove(one.sent)
    one.answered(error, from)
  }

  /** Asking again with the same name and password is no use. */
  function refuse(error: ZookeeperError): void {
    refused = error
    for (const waiting of [...readies, ...proofs]) waiting.reject(error)
    broken(error)
  }

  function notConnected(): ZookeeperError {
    const why = trouble ?? new Error('not connected yet')
    return refused ?? new ZookeeperError(codes.connectionLoss, why.message, { cause: why })
  }

  function call<T>(request: Request<T>): Promise<T> {
    if (connected) requests++
    if (asked++ === 0) wire?.keepAlive(true)
    return send(request).finally(() => {
      if (--asked === 0) wire?.keepAlive(needed())
    })
  }

  function send<T>(request: Request<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      if (!connected || wire === undefined) {
        reject(notConnected())
        return
      }
      lastXid = lastXid >= 0x7fffffff ? 1 : lastXid + 1
      const to = header(lastXid, request.op)
      request.write(to)
      pending.push({
        xid: lastXid,
        op: request.op,
        sent: clock.now(),
        lost: reject,
        answered(error, from) {
          const { watch } = request
          if (error === codes.noNode && watch?.kind === 'data' && request.op === ops.exists)
            watches.add({ ...watch, kind: 'exist' })
          if (error !== 0) return reject(refusal(error, 'the request'))
          // Before the next message is read: it may be the event.
          if (watch !== undefined) watches.add(watch)
          try {
            resolve(request.read(from))
          } catch (wrong) {
            reject(wrong)
          }
        },
      })
      wire.send(to.frame())
    })
  }

  function wait(set: Set<Waiting>, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (closed) return reject(new ZookeeperError(codes.connectionLoss, 'closed'))
      if (refused !== undefined) return reject(refused)
      if (signal.aborted) return reject(signal.reason)
      const end = (settle: () => void) => {
        set.delete(waiting)
        signal.removeEventListener('abort', aborted)
        settle()
      }
      const aborted = () => end(() => reject(signal.reason))
      const waiting: Waiting = {
        since: clock.now(),
        resolve: () => end(resolve),
        reject: (error) => end(() => reject(error)),
      }
      set.add(waiting)
      signal.addEventListener('abort', aborted)
      dial()
    })
  }

  async function close(): Promise<void> {
    if (closed) return
    closed = true
    for (const waiting of [...readies, ...proofs])
      waiting.reject(new ZookeeperError(codes.connectionLoss, 'closed'))
    if (connected) {
      let stop: (() => void) | undefined
      const late = new Promise<void>((resolve) => {
        stop = clock.at(clock.now() + farewell, resolve)
      })
      const told = call({ op: ops.close, write: () => undefined, read: () => undefined })
      await Promise.race([told.catch(() => undefined), late])
      stop?.()
    }
    stopDial?.()
    stopLook?.()
    if (wire !== undefined) broken(new Error('closed'))
    id = 0n
  }

  return {
    get connected() {
      return connected
    },
    get id() {
      return id
    },
    get timeout() {
      return timeout
    },
    get validUntil() {
      return validUntil()
    },
    get trouble() {
      return trouble
    },
    get requests() {
      return requests
    },
    get events() {
      return events
    },
    call,
    ready: (signal) => (connected ? Promise.resolve() : wait(readies, signal)),
    prove(signal) {
      if (!connected) return Promise.reject(notConnected())
      const proof = wait(proofs, signal)
      // One heartbeat answers all who ask in one go.
      if (!beatSoon) {
        beatSoon = true
        queueMicrotask(() => {
          beatSoon = false
          if (connected) beat()
        })
      }
      return proof
    },
    drop: (watch) => watches.drop(watch),
    keepAlive() {
      let counted = true
      if (alive++ === 0) wire?.keepAlive(true)
      return () => {
        if (!counted) return
        counted = false
        if (--alive === 0) wire?.keepAlive(needed())
      }
    },
    close,
  }
}
