/**
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
import { randomBytes } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import type { Env } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { elect, findBroker } from './election.js'
import { type Home, messageOf, openHome, type SocketKind } from './home.js'
import { hasThread, standBy, useDirectory } from './host.js'
import {
  type Entering,
  type Greeting,
  lineReader,
  proofOf,
  type Reply,
  version,
  type Welcome,
} from './protocol.js'

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

/** How one connection came to its end. */
interface Ending {
  /** It was up before. */
  readonly entered: boolean
  /** Of the error that `connect` gave. */
  readonly code?: string | undefined
  /** The broker, or we, refused. */
  readonly refusal?: string
}

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
  let socket: Socket | undefined
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
      const home = open()
      if (home === undefined) break
      const target = findBroker(home)
      const last: Ending = target.path === undefined ? { entered: false } : await follow(home, target.path)
      if (closed) break
      if (last.entered) {
        // Whoever stands by is the quicker one, so the others leave it a moment.
        tries = hasThread(home.directory) ? 0 : -othersFirst
        refusals = 0
        continue
      }
      if (last.refusal !== undefined && ++refusals >= refusalsBelieved) {
        fail(last.refusal)
        break
      }
      const { code } = last
      const alone = target.path === undefined || code === 'ECONNREFUSED' || code === 'ENOENT'
      const elected =
        alone && tries >= 0 ? await elect(home, target, code, tries > impatientAfter, env) : undefined
      if (elected?.is === 'failed') {
        fail(elected.why)
        break
      }
      // Whoever has just started one connects at once; but twice in a row would be a loop.
      if (elected?.is !== 'up' || startedOne) await pause(Math.max(0, tries))
      startedOne = elected?.is === 'up'
      tries += 1
    }
    running = false
  }

  function open(): Home | undefined {
    try {
      const home = openHome(parts.directory, parts.socket)
      if (directory !== home.directory) {
        void leaveDirectory?.()
        directory = home.directory
        leaveDirectory = useDirectory(directory)
      }
      return home
    } catch (error) {
      parts.onFailure(error as BackendError)
      return undefined
    }
  }

  function fail(why: string): void {
    parts.onFailure(new BackendError('local', `no broker for ${parts.directory}: ${why}`))
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
  function follow(home: Home, path: string): Promise<Ending> {
    return new Promise((resolve) => {
      const mine = randomBytes(16).toString('hex')
      const next = connect({ path })
      let entered = false
      let code: string | undefined
      let refusal: string | undefined
      socket = next
      next.unref()
      next.setEncoding('utf8')
      const say = (message: Greeting) => next.write(`${JSON.stringify(message)}\n`)
      const refuse = (why: string) => {
        refusal ??= why
        next.destroy()
      }
      const greeted = (message: Welcome) => {
        if (message[0] === 'no') return refuse(message[1])
        if (message[0] === 'entered') {
          entered = true
          up = true
          return parts.onUp(message[1])
        }
        const [, theirVersion, nonce, proof, pid] = message
        if (theirVersion !== version || proof !== proofOf('broker', home.secret, mine, nonce)) {
          return refuse(`whatever listens at ${shown(path)} cannot read ${home.directory}`)
        }
        brokerPid = pid
        return say(['enter', proofOf('client', home.secret, mine, nonce), parts.entering()])
      }
      const read = lineReader<Welcome | Reply>((message) => {
        if (typeof message[0] === 'number') parts.onReply(message as Reply)
        else greeted(message as Welcome)
      })
      next.once('connect', () => say(['hello', version, mine]))
      next.on('data', (chunk: string) => {
        try {
          read(chunk)
        } catch (error) {
          refuse(`whatever listens at ${shown(path)} speaks no protocol of ours: ${messageOf(error)}`)
        }
      })
      next.on('error', (error: NodeJS.ErrnoException) => {
        code ??= error.code
      })
      next.once('close', () => {
        socket = undefined
        const wasUp = up
        up = false
        if (wasUp) parts.onDown()
        resolve({ entered, code, ...(refusal !== undefined && { refusal }) })
      })
    })
  }

  return {
    get up() {
      return up
    },
    get brokerPid() {
      return brokerPid
    },
    wake() {
      if (closed) return
      if (running) return cutPause?.()
      running = true
      // Not at once: whoever has just called would be told of a failure before its call has returned.
      ended = Promise.resolve().then(run)
    },
    send: (text) => void socket?.write(text),
    standBy() {
      if (directory !== undefined && !closed) standBy(directory)
    },
    async close() {
      closed = true
      cutPause?.()
      if (socket !== undefined) {
        socket.ref()
        if (up) socket.end(`${JSON.stringify(['bye'] satisfies Greeting)}\n`, () => socket?.destroy())
        else socket.destroy()
      }
      await ended
      await leaveDirectory?.()
    },
  }
}

function shown(path: string): string {
  return path.replace('\0', '@')
}
