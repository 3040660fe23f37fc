/**
 * Gives a directory a broker. The election itself is the binding of the broker's address, in the thread; before it,
 * where the kernel has names, the processes agree by another name on who starts a thread at all, because a thread takes
 * 40 ms and 10 MB, and sixty-four of them would be started for one to win.
 */
import { connect, createServer, type Server } from 'node:net'
import { join } from 'node:path'
import type { Clock } from '../../core/clock.js'
import { fixedAddress } from './address.js'
import { currentGeneration, type Generation, hasEnded } from './generation.js'
import type { Home } from './home.js'
import { hasThread, startBroker } from './host.js'
import { thisProcess } from './processes.js'

/** What to connect to. */
export interface Target {
  /** Undefined: there is no broker. */
  readonly path: string | undefined
  /** Only for socket files: whose socket it is. */
  readonly generation: Generation | undefined
}

export function findBroker(home: Home): Target {
  const path = fixedAddress(home, 'broker')
  if (path !== undefined) return { path, generation: undefined }
  const generation = currentGeneration(home.directory)
  const { socket } = generation
  return { path: socket === '' ? undefined : join(home.directory, socket), generation }
}

/** `failed` says why: this process cannot host a broker, and others will hardly do better. */
export type Elected =
  | { readonly is: 'up' | 'taken' | 'unavailable' }
  | { readonly is: 'failed'; readonly why: string }

/**
 * Called when `target` could not be connected to. Resolves when it is worth trying again.
 * @param code of the error that `connect` gave
 * @param impatient somebody else has been about to start a broker for long
 */
export async function elect(
  home: Home,
  target: Target,
  code: string | undefined,
  impatient: boolean,
  { clock, random }: { readonly clock: Clock; readonly random: () => number },
): Promise<Elected> {
  const { generation } = target
  if (generation !== undefined) {
    if (!hasEnded(generation, thisProcess(), code)) return { is: 'unavailable' }
    // Without a name to agree by, chance keeps most of them from starting a thread at once.
    const delay = hasThread(home.directory) ? 0 : random() * 30
    await new Promise<void>((resolve) => void clock.at(clock.now() + delay, resolve, { ref: false }))
    if (currentGeneration(home.directory).number > generation.number) return { is: 'taken' }
    return startBroker({ home, last: generation.number })
  }
  const address = fixedAddress(home, 'election')
  if (address === undefined || target.path === undefined || impatient || hasThread(home.directory)) {
    return startBroker({ home, last: 0 })
  }
  const candidate = await bind(address)
  if (candidate === undefined) return { is: 'taken' }
  try {
    // Another candidate may have started one between our look and our turn.
    if (await answers(target.path)) return { is: 'taken' }
    return await startBroker({ home, last: 0 })
  } finally {
    candidate.close()
  }
}

function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ path })
    socket.unref()
    socket.once('error', () => resolve(false))
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
  })
}

/** Undefined when somebody else has the name. */
function bind(address: string): Promise<Server | undefined> {
  return new Promise((resolve) => {
    const server = createServer((socket) => socket.destroy())
    server.unref()
    server.once('error', () => resolve(undefined))
    server.listen({ path: address, exclusive: true }, () => resolve(server))
  })
}
