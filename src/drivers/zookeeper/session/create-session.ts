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
import { connectRequest, loginRequest, noSession, parseConnectReply, watchesRequests } from './handshake.js'
import { heartbeatTiming, maxLeaseTtl } from './heartbeat-timing.js'
import { Reader } from './jute.js'
import { PendingRequests } from './pending-requests.js'
import { codes, ops, provesSession, type Request, refusal, sync, xids, ZookeeperError } from './protocol.js'
import { ServerOrder } from './server-order.js'
import type { Session, SessionHooks, SessionSettings } from './session.js'
import { SessionProof } from './session-proof.js'
import { type Connection, openConnection } from './socket.js'
import { WaitingCalls } from './waiting-calls.js'
import { Watches } from './watches.js'

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
  const servers = new ServerOrder(settings.servers, random)
  const watches = new Watches()
  const pending = new PendingRequests(watches)
  const proof = new SessionProof(settings.tickTime)
  /** They wait for a connection, and for an answer of the leader. */
  const [readies, proofWaiters] = [new WaitingCalls(), new WaitingCalls()]
  let wire: Connection | undefined
  let connected = false
  let closed = false
  let identity = noSession
  let timeout = settings.sessionTimeout
  let pace = heartbeatTiming(timeout, settings.tickTime)
  let lastZxid = 0n
  /** When the last heartbeat was sent on this connection. */
  let lastHeartbeat = Number.NEGATIVE_INFINITY
  /** When the server last sent anything. */
  let lastReply = Number.NEGATIVE_INFINITY
  /** When the event loop went on after a block. A silence counts from then, once: what was sent before may have left only now. */
  let unblocked = Number.NEGATIVE_INFINITY
  let failure: Error | undefined
  let refused: ZookeeperError | undefined
  let requests = 0
  let events = 0
  let alive = 0
  /** Unanswered requests, without heartbeats. */
  let asked = 0
  let heartbeatSoon = false
  let stopCheck: (() => void) | undefined
  let stopHeartbeat: (() => void) | undefined
  let stopDial: (() => void) | undefined

  const validUntil = () => (identity.id === 0n ? Number.NEGATIVE_INFINITY : proof.validUntil(timeout))
  /** Does a caller wait for an answer? A lease alone does not keep the process alive. */
  const needed = () => alive > 0 || asked > 0 || readies.size > 0
  const wanted = () => !closed && (identity.id !== 0n || readies.size > 0)

  function answeredByLeader(sent: number): void {
    proof.answeredByLeader(sent)
    proofWaiters.resolve(sent)
  }

  // --- connecting

  function dial(): void {
    if (wire !== undefined || stopDial !== undefined || !wanted() || refused !== undefined) return
    stopDial = clock.at(clock.now() + servers.pause(), open, { ref: needed() })
  }

  function open(): void {
    stopDial = undefined
    const address = wanted() ? servers.next() : undefined
    if (address === undefined) return
    let sent = 0
    const mine = openConnection(address, settings.tls, {
      opened() {
        sent = clock.now()
        mine.send(connectRequest(identity, lastZxid, timeout))
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
  function checkAfter(wrong: (isLate: boolean) => Error | undefined): void {
    stopCheck?.()
    const mine = wire
    const { checkInterval } = pace
    const due = clock.now() + checkInterval
    const check = () => {
      const isLate = clock.now() - due >= checkInterval
      // After a stall the answer may be unread in the socket: `soon` runs after it is read.
      clock.soon(() => {
        if (mine !== wire || mine === undefined) return
        const error = wrong(isLate)
        if (error !== undefined) broken(error)
        else checkAfter(wrong)
      })
    }
    stopCheck = clock.at(due, check, { ref: needed() })
  }

  function accepted(body: Buffer, sent: number): void {
    const given = parseConnectReply(body)
    if (given === undefined) return expire()
    const same = given.id === identity.id
    identity = given
    timeout = given.timeout
    pace = heartbeatTiming(timeout, settings.tickTime)
    servers.reset()
    connected = true
    failure = undefined
    for (const { scheme, credential } of settings.auth) wire?.send(loginRequest(scheme, credential))
    proof.accepted(sent, clock.now(), same)
    if (same) {
      for (const request of watchesRequests(watches, lastZxid)) wire?.send(request)
      hooks.onResumed()
    }
    answeredByLeader(sent)
    checkAfter(listen)
    heartbeatLater()
    readies.resolve(sent)
    wire?.keepAlive(needed())
  }

  /** Returns an error when the server no longer answers. */
  function listen(isLate: boolean): Error | undefined {
    const now = clock.now()
    const { oldest } = pending
    // An answer may come late behind many long ones: while the server sends anything, it is alive.
    const since = Math.max(oldest, lastReply)
    if (isLate && unblocked < since) unblocked = now
    if (now - Math.max(since, unblocked) >= pace.silenceTimeout)
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
      pending.rejectAll(lost)
      proofWaiters.reject(lost)
    }
    if (!closed) hooks.onFailure(error)
    dial()
  }

  function expire(): void {
    // A server that refuses even a new session is not retried at once.
    if (identity.id !== 0n) servers.reset()
    identity = noSession
    proof.clear()
    timeout = settings.sessionTimeout
    watches.clear()
    hooks.onExpired()
    broken(new Error('the server has ended the session'))
  }

  // --- talking

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
    // A server that refuses a write of a moved session may first answer the read after it. This error then breaks the connection, and the write,
    // still pending, is rejected with `connectionLoss`.
    const one = pending.take(xid)
    if (error === codes.sessionExpired) {
      one.lost(refusal(error, 'the request'))
      return expire()
    }
    if (error === codes.sessionMoved) {
      const moved = refusal(error, 'the request')
      one.lost(moved)
      return broken(moved)
    }
    if (provesSession(one.op, error)) answeredByLeader(one.sent)
    proof.answered(one.sent, clock.now())
    one.answered(error, from)
  }

  /** Ends all waits for good: a retry with the same login would fail, too. */
  function refuse(error: ZookeeperError): void {
    refused = error
    readies.reject(error)
    proofWaiters.reject(error)
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
    if (!connected || wire === undefined) return Promise.reject(notConnected())
    return pending.send(request, wire, clock.now())
  }

  async function wait(calls: WaitingCalls, signal: AbortSignal, since: number): Promise<number> {
    if (closed) throw new ZookeeperError(codes.connectionLoss, 'closed')
    if (refused !== undefined) throw refused
    const waiting = calls.wait(signal, since)
    dial()
    return waiting
  }

  async function close(): Promise<void> {
    if (closed) return
    closed = true
    const over = new ZookeeperError(codes.connectionLoss, 'closed')
    readies.reject(over)
    proofWaiters.reject(over)
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
    identity = noSession
  }

  return {
    get connected() {
      return connected
    },
    get id() {
      return identity.id
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
      if (!connected) await wait(readies, signal, Number.NEGATIVE_INFINITY)
    },
    prove(signal, since) {
      if (!connected) return Promise.reject(notConnected())
      if (proof.newestAnswered >= since) return Promise.resolve(proof.newestAnswered)
      const proven = wait(proofWaiters, signal, since)
      // One heartbeat serves all callers of one tick; so does one in flight.
      if (!heartbeatSoon && lastHeartbeat < since) {
        heartbeatSoon = true
        queueMicrotask(() => {
          heartbeatSoon = false
          if (connected) beat()
        })
      }
      return proven
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
