/**
 * The session of one process with an ensemble: ephemeral nodes live as long as it does. The diagram is at {@link createSession}.
 *
 * Only the leader ends a session. The client knows only until when it can rely on the session (`validUntil`). Each answer *of
 * the leader* moves this time forward, though not up to the message answered: see `heartbeat-timing.ts`. A follower answers reads and
 * pings by itself, even after it has lost its leader without noticing. The heartbeat is therefore a `sync`, which goes to the
 * leader and back. When a connection breaks, its pending requests are rejected: whether the server carried them out is unknown,
 * and the caller must check. Answers come in the order of the requests.
 *
 * Long because it is one state machine: to change a transition, one should see them all.
 */
import type { Clock } from '../../../core/clock.js'
import type { TlsOptions } from '../../kit/http.js'
import type { Address } from '../options.js'
import {
  heartbeatTiming,
  maxLeaseTtl,
  pauseBefore,
  provenUntil,
  ReportedMessages,
  reportLag,
} from './heartbeat-timing.js'
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
import { type Connection, openConnection } from './socket.js'
import { Watches } from './watches.js'

export interface SessionSettings {
  readonly servers: readonly Address[]
  readonly sessionTimeout: number
  readonly tickTime: number
  readonly tls?: TlsOptions | undefined
  readonly auth: readonly { readonly scheme: string; readonly credential: string }[]
}

export interface Session {
  readonly connected: boolean
  /** 0n: no session yet, or it has ended. */
  readonly id: bigint
  /** The timeout granted by the server, in ms; before that, the one to request. */
  readonly timeout: number
  /** The clock reading until which the server cannot have ended the session. */
  readonly validUntil: number
  /** How far `validUntil` lies in the future at least while the servers answer, in ms. */
  readonly maxLeaseTtl: number
  /** Why the last connection failed. */
  readonly failure: Error | undefined
  /** Requests sent so far, heartbeats not counted. */
  readonly requests: number
  /** Watches that fired so far. */
  readonly events: number
  /** @throws ZookeeperError as a rejection: refused, or `connectionLoss`, where the request may have been carried out or not */
  call<T>(request: Request<T>): Promise<T>
  /** Resolves once connected; connects if need be. Rejects with the signal's reason, when closed, or when the server refuses our login. */
  ready(signal: AbortSignal): Promise<void>
  /**
   * Resolves once the leader has answered a message sent at `since` or later, or at once if it already has. Resolves with the time that message
   * was sent. Rejects as `call` does, or with the signal's reason.
   */
  prove(signal: AbortSignal, since: number): Promise<number>
  drop(watch: Watch): void
  /** For a caller that waits: the connection keeps the process alive until the returned function is called. */
  keepAlive(): () => void
  /** Ends the session on the server, and closes. */
  close(): Promise<void>
}

export interface SessionHooks {
  /** Connected again with the same session, before any other caller may use it. */
  onResumed(): void
  onSuspended(): void
  /** A connection broke or never came up. */
  onFailure(error: Error): void
  /** The server has ended the session. */
  onExpired(): void
}

interface Pending {
  readonly xid: number
  readonly op: number
  readonly sent: number
  readonly answered: (error: number, body: Reader) => void
  readonly lost: (error: ZookeeperError) => void
}

interface PendingCall {
  readonly since: number
  readonly resolve: (sent: number) => void
  readonly reject: (error: unknown) => void
}

const closeTimeout = 500

/**
 * ```
 *            wanted             accepted                      silent, closed, refused
 *   idle ──────────► connecting ─────────► connected ─────────────────────────────► suspended
 *    ▲                 ▲   │ next server      ▲                                       │
 *    │                 └───┘                  └── same id and password, any server ───┤
 *    └────────────────────── "expired": every node of the session is gone ◄───────────┘
 * ```
 */
export function createSession(
  settings: SessionSettings,
  clock: Clock,
  random: () => number,
  hooks: SessionHooks,
): Session {
  const servers = [...settings.servers]
  // A random order, so that processes spread over the servers.
  for (let i = servers.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1))
    const [a, b] = [servers[i], servers[j]]
    if (a !== undefined && b !== undefined) [servers[i], servers[j]] = [b, a]
  }
  const watches = new Watches()
  let wire: Connection | undefined
  let connected = false
  let closed = false
  let id = 0n
  let password: Buffer = Buffer.alloc(16)
  let timeout = settings.sessionTimeout
  let pace = heartbeatTiming(timeout, settings.tickTime)
  let lastZxid = 0n
  let lastXid = 0
  let attempt = 0
  let next = 0
  /** The time at which the newest message that was certainly reported to the leader was sent. */
  let proven = Number.NEGATIVE_INFINITY
  /** The time at which the newest message that the leader answered was sent. */
  let heard = Number.NEGATIVE_INFINITY
  /** When the last heartbeat was sent on this connection. */
  let lastHeartbeat = Number.NEGATIVE_INFINITY
  /** When the server last sent anything. */
  let lastReply = Number.NEGATIVE_INFINITY
  const lag = reportLag(settings.tickTime)
  const reported = new ReportedMessages(lag)
  let failure: Error | undefined
  let refused: ZookeeperError | undefined
  let requests = 0
  let events = 0
  let alive = 0
  /** Unanswered requests, without heartbeats. */
  let asked = 0
  let pending: Pending[] = []
  let heartbeatSoon = false
  const readies = new Set<PendingCall>()
  const proofWaiters = new Set<PendingCall>()
  let stopCheck: (() => void) | undefined
  let stopHeartbeat: (() => void) | undefined
  let stopDial: (() => void) | undefined

  const validUntil = () => (id === 0n ? Number.NEGATIVE_INFINITY : provenUntil(proven, timeout))
  /** Does a caller wait for an answer? A lease alone does not keep the process alive. */
  const needed = () => alive > 0 || asked > 0 || readies.size > 0
  const wanted = () => !closed && (id !== 0n || readies.size > 0)

  /** The leader has answered the message sent at `sent`. */
  function prove(sent: number): void {
    proven = Math.max(proven, reported.upTo(sent))
    heard = Math.max(heard, sent)
    for (const proof of proofWaiters) if (proof.since <= sent) proof.resolve(sent)
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
    const mine = openConnection(address, settings.tls, {
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
      `${address.host}:${address.port} did not answer within ${Math.round(pace.connectTimeout)} ms`,
    )
    const from = clock.now()
    checkAfter(() => (!connected && clock.now() - from >= pace.connectTimeout ? late : undefined))
  }

  /** Checks the current connection at intervals, and drops it when `wrong` returns an error. */
  function checkAfter(wrong: () => Error | undefined): void {
    stopCheck?.()
    const mine = wire
    stopCheck = clock.at(
      clock.now() + pace.checkInterval,
      () =>
        // After a stall the answer may be unread in the socket: `soon` runs after it is read.
        clock.soon(() => {
          if (mine !== wire || mine === undefined) return
          const error = wrong()
          if (error !== undefined) broken(error)
          else checkAfter(wrong)
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
    pace = heartbeatTiming(timeout, settings.tickTime)
    attempt = 0
    connected = true
    failure = undefined
    for (const { scheme, credential } of settings.auth)
      wire?.send(header(xids.auth, ops.auth).int(0).text(scheme).bytes(Buffer.from(credential)).frame())
    reported.clear()
    reported.answered(sent, clock.now())
    // A majority creates a new session. A session that moves is checked with the leader, which may have lost its majority since.
    proven = same ? Math.max(proven, sent - lag) : sent
    if (same) {
      // The server reports all changes since `lastZxid`, so no event is missed.
      for (const piece of watches.pieces()) {
        const to = header(xids.setWatches, ops.setWatches).long(lastZxid)
        piece(to)
        wire?.send(to.frame())
      }
      hooks.onResumed()
    }
    prove(sent)
    checkAfter(listen)
    heartbeatLater()
    for (const waiting of [...readies]) waiting.resolve(sent)
    wire?.keepAlive(needed())
  }

  /** Returns an error when the server no longer answers. */
  function listen(): Error | undefined {
    const now = clock.now()
    const oldest = pending[0]?.sent ?? Number.POSITIVE_INFINITY
    // An answer may come late behind many long ones: while the server sends anything, it is alive.
    const since = Math.max(oldest, lastReply)
    if (now - since >= pace.silenceTimeout)
      return new Error(`no answer within ${Math.round(now - oldest)} ms`)
    return undefined
  }

  function broken(error: Error): void {
    wire?.destroy()
    wire = undefined
    stopCheck?.()
    stopHeartbeat?.()
    lastHeartbeat = Number.NEGATIVE_INFINITY
    failure = error
    const was = connected
    connected = false
    if (was) {
      hooks.onSuspended()
      const lost = new ZookeeperError(codes.connectionLoss, `the connection broke: ${error.message}`, {
        cause: error,
      })
      const left = pending
      pending = []
      for (const one of left) one.lost(lost)
      for (const proof of [...proofWaiters]) proof.reject(lost)
    }
    if (!closed) hooks.onFailure(error)
    dial()
  }

  function expire(): void {
    // A server that refuses even a new session is not retried at once.
    if (id !== 0n) attempt = 0
    id = 0n
    password = Buffer.alloc(16)
    proven = Number.NEGATIVE_INFINITY
    heard = Number.NEGATIVE_INFINITY
    timeout = settings.sessionTimeout
    watches.clear()
    hooks.onExpired()
    broken(new Error('the server has ended the session'))
  }

  // --- talking

  const header = (xid: number, op: number) => new Writer().int(xid).int(op)

  function beat(): void {
    lastHeartbeat = clock.now()
    send(sync('/')).catch(() => undefined)
    heartbeatLater()
  }

  /** Schedules the next heartbeat after the last one, whichever caller requested that. */
  function heartbeatLater(): void {
    stopHeartbeat?.()
    stopHeartbeat = clock.at(clock.now() + pace.heartbeatInterval, beat, { ref: false })
  }

  function received(body: Buffer): void {
    const from = new Reader(body)
    lastReply = clock.now()
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
    // A server that refuses a write of a moved session may first answer the read after it. This error then breaks the connection, and the write,
    // still pending, is rejected with `connectionLoss`.
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
    reported.answered(one.sent, clock.now())
    one.answered(error, from)
  }

  /** Ends all waits for good: a retry with the same login would fail, too. */
  function refuse(error: ZookeeperError): void {
    refused = error
    for (const waiting of [...readies, ...proofWaiters]) waiting.reject(error)
    broken(error)
  }

  function notConnected(): ZookeeperError {
    const why = failure ?? new Error('not connected yet')
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
          // Registered before the next message is read: that may be the event.
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

  function wait(set: Set<PendingCall>, signal: AbortSignal, since: number): Promise<number> {
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
      const waiting: PendingCall = {
        since,
        resolve: (sent) => end(() => resolve(sent)),
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
    for (const waiting of [...readies, ...proofWaiters])
      waiting.reject(new ZookeeperError(codes.connectionLoss, 'closed'))
    if (connected) {
      let stop: (() => void) | undefined
      const late = new Promise<void>((resolve) => {
        stop = clock.at(clock.now() + closeTimeout, resolve)
      })
      const told = call({ op: ops.close, write: () => undefined, read: () => undefined })
      await Promise.race([told.catch(() => undefined), late])
      stop?.()
    }
    stopDial?.()
    stopCheck?.()
    stopHeartbeat?.()
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
    get maxLeaseTtl() {
      return maxLeaseTtl(timeout, settings.tickTime)
    },
    get failure() {
      return failure
    },
    get requests() {
      return requests
    },
    get events() {
      return events
    },
    call,
    ready: async (signal) => {
      if (!connected) await wait(readies, signal, clock.now())
    },
    prove(signal, since) {
      if (!connected) return Promise.reject(notConnected())
      if (heard >= since) return Promise.resolve(heard)
      const proof = wait(proofWaiters, signal, since)
      // One heartbeat serves all callers of one tick; so does one in flight.
      if (!heartbeatSoon && lastHeartbeat < since) {
        heartbeatSoon = true
        queueMicrotask(() => {
          heartbeatSoon = false
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
