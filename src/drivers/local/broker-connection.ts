/**
 * Keeps a client connected while it has calls or holds, to the current broker. The diagram is at {@link createBrokerLink}.
 *
 * Nothing here keeps the process alive: calls that wait for an answer have timers that do.
 *
 * Long because the life of a connection is one state machine.
 */
import type { Env } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { hasThread, startStandby, useDirectory } from './broker-host.js'
import { authenticate, type BrokerConnection, type ConnectionEnding } from './connection.js'
import { type ElectionResult, elect, electByChance, findBroker, type Target } from './election.js'
import { generationFile } from './file-election.js'
import { recordedBroker } from './journal.js'
import { thisProcess } from './processes.js'
import type { Hello, Reply } from './protocol.js'
import {
  errorMessage,
  openRuntimeDirectory,
  type RuntimeDirectory,
  type SocketKind,
} from './runtime-directory.js'

export interface BrokerLinkParts {
  readonly env: Env
  readonly directory: string
  readonly socket: SocketKind | undefined
  /** The message to send when entering. */
  readonly createHello: () => Hello
  /** Is a connection needed? */
  readonly wanted: () => boolean
  /** Entered; `gone` are attempts of ours that the broker does not know. */
  readonly onUp: (gone: readonly string[]) => void
  readonly onDown: () => void
  readonly onReply: (reply: Reply) => void
  /** No broker can be reached, and waiting will not help. */
  readonly onFailure: (error: BackendError) => void
}

export interface BrokerLink {
  readonly up: boolean
  /** The process that runs the broker, as last reported by the broker or by the journal. */
  readonly brokerPid: number | undefined
  /** Why no process may start another broker, where that is known. */
  readonly obstacle: string | undefined
  /** Connects unless connected or connecting. */
  wake(): void
  /** Only while up. */
  send(text: string): void
  /** Starts a thread that is ready to be the next broker. */
  standBy(): void
  close(): Promise<void>
}

interface ConnectionEnd extends ConnectionEnding {
  /** A retry will not help. */
  readonly permanent?: boolean
  /** This process runs a broker now. */
  readonly started?: boolean
  /** The other end listens, but has not authenticated. */
  readonly unauthenticated?: boolean
  /** The other end has sent nothing for `silence`. */
  readonly silent?: boolean
  /** Set when the process that has the address is not a broker, and perhaps not a stranger either: describes that process. */
  readonly held?: string
  readonly error?: unknown
}

/** How long a goodbye may take, in ms. */
const closeTimeout = 100
/** The longest pause between two tries to reach a broker, in ms. */
const maxPause = 50
/** The number of short pauses before a process without a thread takes part in an election. */
const electionDelay = 8
/** After so many failed tries, the agreement on which process starts a broker is ignored: that process may be stopped. */
const fallbackAfter = 45
/** A refusal may come from a directory that is just being recreated; this many in a row do not. */
const maxRefusals = 5
/** After this time without a message, in ms, we find out which process has the address. */
const silence = 1_000
/** A broker of ours that has the address enters the journal within milliseconds. After this time, in ms, the holder counts as no broker. */
const heldTimeout = 1_500
/** The pause before we check the holder again, in ms. */
const heldPause = 300

/**
 * ```
 *   down ──wake──► look for a broker ──connect──► greet ──entered──► up ──┐
 *                    ▲        │ none found                                │ the connection ends
 *                    │        ▼                                           │
 *                    └── elect, or let another be elected ◄───────────────┘ if something is held or requested
 * ```
 */
export function createBrokerLink(parts: BrokerLinkParts): BrokerLink {
  const { env } = parts
  let connection: BrokerConnection | undefined
  let running = false
  let ended: Promise<void> | undefined
  let up = false
  let closed = false
  let brokerPid: number | undefined
  let obstacle: string | undefined
  let directory: string | undefined
  let leaveDirectory: (() => Promise<void>) | undefined
  let cutPause: (() => void) | undefined

  async function run(): Promise<void> {
    let tries = 0
    let refusals = 0
    let unproven = 0
    let heldSince: number | undefined
    let startedOne = false
    // The loop stops in the same step in which `wanted` is false, so that no call falls between.
    while (!closed && parts.wanted()) {
      const ending = await once(tries, unproven + 1 >= maxRefusals)
      if (closed) break
      if (ending.entered || ending.started) {
        unproven = 0
        heldSince = undefined
      }
      if (ending.unauthenticated) unproven += 1
      if (ending.entered) {
        // A process with a standby thread is quicker, so the others wait a moment.
        tries = directory !== undefined && hasThread(directory) ? 0 : -electionDelay
        refusals = 0
        continue
      }
      if (ending.permanent || (ending.refusal !== undefined && ++refusals >= maxRefusals)) {
        parts.onFailure(failure(ending))
        break
      }
      if (ending.held !== undefined) {
        heldSince ??= env.clock.now()
        if (env.clock.now() - heldSince >= heldTimeout) {
          parts.onFailure(failure({ ...ending, refusal: ending.held }))
          break
        }
        await pause(heldPause)
        continue
      }
      // A process that has just started a broker connects at once; but twice in a row would be a loop.
      if (!ending.started || startedOne) await pause(Math.min(maxPause, 1.5 ** Math.max(0, tries)))
      startedOne = ending.started === true
      tries += 1
    }
    running = false
  }

  /** Looks for a broker once, and handles the outcome: a connection from its beginning to its end, or an election. */
  async function once(tries: number, suspicious: boolean): Promise<ConnectionEnd> {
    let runtimeDirectory: RuntimeDirectory
    try {
      runtimeDirectory = open()
    } catch (error) {
      return { entered: false, permanent: true, error }
    }
    try {
      const target = findBroker(runtimeDirectory, tries <= 0)
      if (target.unknown !== undefined) return { entered: false, held: target.unknown }
      const ending: ConnectionEnd =
        target.path === undefined ? { entered: false } : await follow(runtimeDirectory, target)
      const { code } = ending
      if (ending.entered || closed) return ending
      const alone = target.path === undefined || code === 'ECONNREFUSED' || code === 'ENOENT'
      if (!alone) {
        const ask = ending.silent || (suspicious && mayBeUsurped(runtimeDirectory, target))
        return ask
          ? outcome(ending, await electByChance(runtimeDirectory, target.generation, env))
          : { ...ending, unauthenticated: true }
      }
      if (tries < 0) return ending
      const elected = await elect(runtimeDirectory, target, code, tries > fallbackAfter, env)
      obstacle =
        elected.is === 'unavailable' && code === 'ENOENT' ? missing(runtimeDirectory, target) : undefined
      return outcome(ending, elected)
    } catch (error) {
      // Most likely the directory was deleted just now; any other cause will show again.
      return { entered: false, refusal: errorMessage(error), error }
    }
  }

  function missing({ directory }: RuntimeDirectory, { path, generation }: Target): string {
    const file = generationFile(directory, generation.number)
    return `its socket ${path} is gone, and ${file} does not say that it has ended, as after a full or read-only disk`
  }

  function outcome(ending: ConnectionEnd, elected: ElectionResult): ConnectionEnd {
    if (elected.is === 'failed') return { entered: false, permanent: true, refusal: elected.why }
    if (elected.is !== 'held') return { entered: false, started: elected.is === 'up' }
    const { refusal } = ending
    if (refusal === undefined) return { entered: false, unauthenticated: true, held: elected.why }
    return { entered: false, permanent: true, refusal: `${refusal}; ${elected.why}` }
  }

  /** May another user's process have the name? Asked when no broker has authenticated there; true when no broker of ours is known to live. */
  function mayBeUsurped({ directory, socket }: RuntimeDirectory, { fixed }: Target): boolean {
    return fixed && socket === 'abstract' && recordedBroker(directory, thisProcess()) === undefined
  }

  function recordedPid(): number | undefined {
    try {
      if (directory === undefined) return undefined
      return recordedBroker(directory, thisProcess())?.pid || undefined
    } catch {
      return undefined
    }
  }

  function failure({ error, refusal }: ConnectionEnd): BackendError {
    if (error instanceof BackendError) return error
    return new BackendError('local', `no broker for ${parts.directory}: ${refusal}`, {
      cause: error,
      // A refusal is an answer.
      unanswered: refusal === undefined,
    })
  }

  function open(): RuntimeDirectory {
    const runtimeDirectory = openRuntimeDirectory(parts.directory, parts.socket)
    if (directory !== runtimeDirectory.directory) {
      void leaveDirectory?.()
      directory = runtimeDirectory.directory
      leaveDirectory = useDirectory(directory)
    }
    return runtimeDirectory
  }

  /** Pauses for 0.5 to 1.5 times `about` ms. */
  function pause(about: number): Promise<void> {
    const ms = about * (0.5 + env.random())
    return new Promise((resolve) => {
      const stop = env.clock.at(env.clock.now() + ms, resolve, { ref: false })
      cutPause = () => {
        stop()
        resolve()
      }
    })
  }

  /** One connection from its beginning to its end. */
  async function follow(runtimeDirectory: RuntimeDirectory, target: Target): Promise<ConnectionEnd> {
    let silent = false
    const lookAfter = () => env.clock.at(env.clock.now() + silence, look, { ref: false })
    let stopLooking = lookAfter()
    function look(): void {
      let elsewhere = false
      try {
        elsewhere = findBroker(runtimeDirectory, false).path !== target.path
        silent = mayBeUsurped(runtimeDirectory, target)
      } catch {
        // The directory is changing: the next check will show more.
      }
      if (silent || elsewhere) connection?.cut()
      else stopLooking = lookAfter()
    }
    connection = authenticate(runtimeDirectory, target.path ?? '', {
      entering: parts.createHello,
      onReply: parts.onReply,
      onEntered(gone, pid) {
        up = true
        stopLooking()
        brokerPid = pid
        obstacle = undefined
        parts.onUp(gone)
      },
    })
    const ending = await connection.ended
    stopLooking()
    connection = undefined
    if (up) {
      up = false
      parts.onDown()
    }
    return { ...ending, silent: silent && !ending.entered }
  }

  function wake(): void {
    if (closed) return
    if (running) return cutPause?.()
    running = true
    // Not at once: a caller would otherwise be notified of a failure before its call has returned.
    ended = Promise.resolve().then(run)
  }

  return {
    get up() {
      return up
    },
    get brokerPid() {
      return brokerPid ?? recordedPid()
    },
    get obstacle() {
      return obstacle
    },
    wake,
    send: (text) => connection?.send(text),
    standBy() {
      if (directory !== undefined && !closed) startStandby(directory)
    },
    async close() {
      closed = true
      cutPause?.()
      // The socket of a stopped broker may have no room for the goodbye.
      const stop = env.clock.at(env.clock.now() + closeTimeout, () => connection?.cut())
      connection?.leave()
      await ended
      stop()
      await leaveDirectory?.()
    },
  }
}
