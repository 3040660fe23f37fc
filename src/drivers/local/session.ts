/**
 * One client's calls to the broker. The session keeps a call until it is answered, and sends it again over every new connection,
 * so that callers need not know that brokers come and go. All calls of one tick leave in one packet.
 *
 * Long because whatever a call leaves behind, when brokers come and go, is one matter.
 */
import type { Env } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { TimeLimit } from '../../core/time-limit.js'
import { type BrokerLink, createBrokerLink } from './broker-connection.js'
import {
  answerTimeout,
  askOnce,
  type CallHandle,
  type CallRequest,
  type CallResult,
  type PendingCall,
} from './call.js'
import { thisProcess } from './processes.js'
import type { Answer, Notice, Reply, Verb } from './protocol.js'
import type { SocketKind } from './runtime-directory.js'

/** A grant, as the session sees it. */
export interface LocalHold {
  /** The broker has reported its end. */
  lost(): void
  contended(yes: boolean): void
}

export interface Session {
  /** The unique id of this client. */
  readonly id: string
  /** Sends a call; the result has a function that drops it. */
  start(call: CallRequest): CallHandle
  /** Ends an attempt that may have been granted without our knowledge. Resolves when it has ended, or after `cancelTimeout` ms. */
  abandon(name: string, attempt: string): Promise<void>
  /** Sends a call with one answer. @throws BackendError when none comes in time; `signal.reason` when that aborts first */
  call(verb: Verb, signal?: AbortSignal, timeout?: number): Promise<CallResult>
  /** Connected to a broker. */
  readonly connected: boolean
  /** The grants by attempt. */
  readonly held: Map<string, LocalHold>
  close(): Promise<void>
}

const closedError = () => new BackendError('local', 'this driver was closed', { closed: true })

/** How long a wait that is over still waits for the broker to confirm that, in ms. */
const cancelTimeout = 100
/** How long `close` waits for a broker when there is none and we may hold something, in ms. */
const closeTimeout = 500

export function createSession(env: Env, directory: string, socket: SocketKind | undefined): Session {
  const { clock } = env
  const client = env.id()
  const calls = new Map<number, { readonly call: PendingCall; readonly stop: () => void }>()
  const held = new Map<string, LocalHold>()
  /** Attempts that the broker may count as ours although we abandoned them, and their names: we enter again, so that it ends them. */
  const pendingReleases = new Map<string, string>()
  /** The attempts that our last `enter` named as requested. */
  let asked = new Set<string>()
  let lastId = 0
  let out = ''
  let closed = false
  let onEntered: (() => void) | undefined

  const link: BrokerLink = createBrokerLink({
    env,
    directory,
    socket,
    wanted: () => calls.size > 0 || held.size > 0 || pendingReleases.size > 0,
    createHello() {
      asked = new Set([...calls.values()].flatMap(({ call }) => requestedBy(call.verb)))
      return { client, by: env.client, mark: thisProcess(), held: [...held.keys()], asked: [...asked] }
    },
    onUp(gone) {
      onEntered?.()
      for (const attempt of gone) held.get(attempt)?.lost()
      for (const [id, { call }] of calls) send(id, call)
      // Those that were abandoned only after `enter` had named them are still ours. The others have ended.
      for (const [attempt, name] of pendingReleases) {
        if (asked.has(attempt)) void cancel(name, attempt)
        else pendingReleases.delete(attempt)
      }
    },
    onDown: () => {
      out = ''
    },
    onReply: receive,
    onFailure(error) {
      for (const [id, { call }] of [...calls]) {
        forget(id)
        call.failed(error)
      }
    },
  })

  function flush(): void {
    if (out !== '' && link.up) link.send(out)
    out = ''
  }

  function send(id: number, call: PendingCall): void {
    if (out === '') queueMicrotask(flush)
    call.sent = clock.now()
    call.times += 1
    out += `${JSON.stringify([id, ...call.verb])}\n`
  }

  function receive(reply: Reply): void {
    if (reply[0] === 0) {
      const [, what, attempt, yes] = reply as Notice
      if (what === 'standby') link.standBy()
      else if (what === 'lost') held.get(attempt)?.lost()
      else held.get(attempt)?.contended(yes === true)
      return
    }
    const [id, ...answer] = reply as readonly [number, ...Answer]
    const call = calls.get(id)?.call
    if (answer[0] !== 'waiting') forget(id)
    call?.answered(answer)
  }

  function forget(id: number): void {
    calls.get(id)?.stop()
    calls.delete(id)
  }

  function start({ verb, timeout, answered, failed, ref = true }: CallRequest): CallHandle {
    lastId += 1
    const id = lastId
    const call: PendingCall = { verb, timeout, answered, failed, sent: clock.now(), times: 0 }
    // Also for a call that waits forever: the timer keeps the process alive for its caller.
    const late = () => {
      forget(id)
      failed(silent())
    }
    const limit = new TimeLimit(clock, timeout, late, { ref })
    limit.arm()
    calls.set(id, { call, stop: () => limit.stop() })
    if (closed) {
      forget(id)
      queueMicrotask(() => failed(closedError()))
    } else if (link.up) send(id, call)
    else link.wake()
    return { call, drop: () => forget(id) }
  }

  function silent(): BackendError {
    const { brokerPid, obstacle } = link
    const whose = brokerPid === undefined ? '' : ` in process ${brokerPid}`
    return new BackendError(
      'local',
      obstacle === undefined
        ? `the broker of ${directory}${whose} gave no answer within ${answerTimeout} ms; is that process stopped? Continue it or end it`
        : `the broker of ${directory}${whose} does not answer: ${obstacle}; end that process`,
      { unanswered: true },
    )
  }

  const ask: Session['call'] = (verb, signal, timeout) => askOnce(start, verb, signal, timeout)

  async function abandon(name: string, attempt: string): Promise<void> {
    if (closed) return
    pendingReleases.set(attempt, name)
    // Without a connection there is nothing to wait for: when we enter again, the broker ends every attempt that we do not name.
    if (!link.up) return link.wake()
    await cancel(name, attempt)
  }

  /** Resolves after `cancelTimeout` ms at the latest. An answer after that still counts. */
  function cancel(name: string, attempt: string): Promise<void> {
    return new Promise((resolve) => {
      const stop = clock.at(clock.now() + cancelTimeout, resolve)
      const failed = () => {
        stop()
        resolve()
      }
      const answered = () => {
        pendingReleases.delete(attempt)
        failed()
      }
      const verb: Verb = ['cancel', name, attempt]
      start({ verb, timeout: Number.POSITIVE_INFINITY, answered, failed, ref: false })
    })
  }

  function entered(): Promise<void> {
    return new Promise((resolve) => {
      const stop = clock.at(clock.now() + closeTimeout, resolve)
      onEntered = () => {
        stop()
        resolve()
      }
      link.wake()
    })
  }

  return {
    id: client,
    start,
    abandon,
    call: ask,
    get connected() {
      return link.up
    },
    held,
    async close() {
      if (closed) return
      closed = true
      for (const [id, { call }] of [...calls]) {
        forget(id)
        call.failed(closedError())
      }
      // Without a message from us, a broker would count us as absent, and keep our holds until their ttl has passed.
      if (held.size + pendingReleases.size > 0 && !link.up) await entered()
      flush()
      await link.close()
      held.clear()
    },
  }
}

/** The attempts that a call requests. */
function requestedBy(verb: Verb): readonly string[] {
  if (verb[0] === 'acquire') return [verb[2]]
  return verb[0] === 'together' ? verb[1].map(([, attempt]) => attempt) : []
}
