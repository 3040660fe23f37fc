/**
 * Long because the life of a connection is one state machine.
 *
 * Keeps a client connected for as long as it wants to be, whoever the broker is at the moment.
 *
 * ```
 *   down ──wake──► look for a broker ──connect──► greet ──entered──► up ──┐
 *                    ▲        │ nobody there                              │ the connection ends
 *                    │        ▼                                           │
 *                    └── elect, or let another be elected ◄───────────────┘ if something is held or asked for
 * ```
 * Nothing here keeps the process alive: the calls that wait for an answer have timers that do.
 */
import type { Env } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { type BrokerConnection, type ConnectionEnding, greet } from './connection.js'
import { elect, findBroker } from './election.js'
import { type Home, messageOf, openHome, type SocketKind } from './home.js'
import { hasThread, standBy, useDirectory } from './host.js'
import type { Entering, Reply } from './protocol.js'

export interface LinkParts {
  readonly env: Env
  readonly directory: string
  readonly socket: SocketKind | undefined
  /** What to say when entering. */
  readonly entering: () => Entering
  /** Is there anything to be connected for? */
  readonly wanted: () => boolean
  /** Entered; `gone` are attempts of ours that the broker knows nothing of. */
  readonly onUp: (gone: readonly string[]) => void
  readonly onDown: () => void
  readonly onReply: (reply: Reply) => void
  /** There is no way to a broker now, and waiting will not help. */
  readonly onFailure: (error: BackendError) => void
}

export interface Link {
  readonly up: boolean
  /** The process that runs the broker, as last heard; undefined before the first greeting. */
  readonly brokerPid: number | undefined
  /** Connects unless it is connected or about to be. */
  wake(): void
  /** Only while up. */
  send(text: string): void
  /** Gets a thread ready to be the next broker. */
  standBy(): void
  close(): Promise<void>
}

interface Ending extends ConnectionEnding {
  /** Trying again will not help. */
  readonly hopeless?: boolean
  /** This process runs a broker now. */
  readonly started?: boolean
  readonly error?: unknown
}

/** Milliseconds for saying goodbye. */
const byeWithin = 100
/** Longest pause between two tries to reach a broker, in ms. */
const longestPause = 50
/** So many short pauses pass before a process without a thread takes part in an election. */
const othersFirst = 8
/** After so many tries in vain the agreement on who starts a broker is ignored: the one who was to may be stopped. */
const impatientAfter = 45
/** A refusal may come from a directory that is just being made again; this many in a row do not. */
const refusalsBelieved = 5

export function makeLink(parts: LinkParts): Link {
  const { env } = parts
  let connection: BrokerConnection | undefined
  let running = false
  let ended: Promise<void> | undefined
  let up = false
  let closed = false
  let brokerPid: number | undefined
  let directory: string | undefined
  let leaveDirectory: (() => Promise<void>) | undefined
  let cutPause: (() => void) | undefined

  async function run(): Promise<void> {
    let tries = 0
    let refusals = 0
    let startedOne = false
    // It stops in the same step in which it finds that nothing is wanted, so that no wish falls between.
    while (!closed && parts.wanted()) {
      const ending = await once(tries)
      if (closed) break
      if (ending.entered) {
        // Whoever stands by is the quicker one, so the others leave it a moment.
        tries = directory !== undefined && hasThread(directory) ? 0 : -othersFirst
        refusals = 0
        continue
      }
      if (ending.hopeless || (ending.refusal !== undefined && ++refusals >= refusalsBelieved)) {
        parts.onFailure(failure(ending))
        break
      }
      // Whoever has just started a broker connects at once; but twice in a row would be a loop.
      if (!ending.started || startedOne) await pause(Math.max(0, tries))
      startedOne = ending.started === true
      tries += 1
    }
    running = false
  }

  /** One look for a broker, and all that comes of it: a connection from its beginning to its end, or an election. */
  async function once(tries: number): Promise<Ending> {
    let home: Home
    try {
      home = open()
    } catch (error) {
      return { entered: false, hopeless: true, error }
    }
    try {
      const target = findBroker(home)
      const ending = target.path === undefined ? { entered: false } : await follow(home, target.path)
      const { code } = ending
      const alone = target.path === undefined || code === 'ECONNREFUSED' || code === 'ENOENT'
      if (!alone || tries < 0 || closed) return ending
      const elected = await elect(home, target, code, tries > impatientAfter, env)
      if (elected.is === 'failed') return { entered: false, hopeless: true, refusal: elected.why }
      return { entered: false, started: elected.is === 'up' }
    } catch (error) {
      // Most likely the directory was deleted at this moment; if it is more than that, it happens again.
      return { entered: false, refusal: messageOf(error), error }
    }
  }

  function failure({ error, refusal }: Ending): BackendError {
    if (error instanceof BackendError) return error
    return new BackendError('local', `no broker for ${parts.directory}: ${refusal}`, { cause: error })
  }

  function open(): Home {
    const home = openHome(parts.directory, parts.socket)
    if (directory !== home.directory) {
      void leaveDirectory?.()
      directory = home.directory
      leaveDirectory = useDirectory(directory)
    }
    return home
  }

  function pause(tries: number): Promise<void> {
    const ms = Math.min(longestPause, 1.5 ** tries) * (0.5 + env.random())
    return new Promise((resolve) => {
      const stop = env.clock.at(env.clock.now() + ms, resolve, { ref: false })
      cutPause = () => {
        stop()
        resolve()
      }
    })
  }

  /** One connection from its beginning to its end. */
  async function follow(home: Home, path: string): Promise<Ending> {
    connection = greet(home, path, {
      entering: parts.entering,
      onReply: parts.onReply,
      onEntered(gone, pid) {
        up = true
        brokerPid = pid
        parts.onUp(gone)
      },
    })
    const ending = await connection.ended
    connection = undefined
    if (up) {
      up = false
      parts.onDown()
    }
    return ending
  }

  function wake(): void {
    if (closed) return
    if (running) return cutPause?.()
    running = true
    // Not at once: whoever has just called would be told of a failure before its call has returned.
    ended = Promise.resolve().then(run)
  }

  return {
    get up() {
      return up
    },
    get brokerPid() {
      return brokerPid
    },
    wake,
    send: (text) => connection?.send(text),
    standBy() {
      if (directory !== undefined && !closed) standBy(directory)
    },
    async close() {
      closed = true
      cutPause?.()
      // A broker that is stopped may have no room for a last word.
      const stop = env.clock.at(env.clock.now() + byeWithin, () => connection?.cut())
      connection?.leave()
      await ended
      stop()
      await leaveDirectory?.()
    },
  }
}
