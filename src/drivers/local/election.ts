/**
 * Gives a directory a broker. The election itself is the binding of the broker's address, in the thread. Where the kernel has
 * names, the processes first agree, by another name, on which of them starts a thread at all: a thread takes 40 ms and 10 MB,
 * and sixty-four processes would start one each for one to win.
 */
import { connect, createServer, type Server } from 'node:net'
import { join } from 'node:path'
import type { Clock } from '../../core/clock.js'
import { fixedAddress } from './address.js'
import { hasThread, startBroker } from './broker-host.js'
import { currentGeneration, type Generation, hasEnded } from './file-election.js'
import { recordedBroker } from './journal.js'
import { hasExited, thisProcess } from './processes.js'
import type { RuntimeDirectory } from './runtime-directory.js'

/** The address to connect to. */
export interface Target {
  /** Undefined: there is no broker. */
  readonly path: string | undefined
  /** Is `path` a name that the kernel gives to one process only? */
  readonly fixed: boolean
  /** The newest generation of socket files. */
  readonly generation: Generation
  /** Set when the file of that generation is malformed, and its broker may live: why nothing can be done yet. */
  readonly unknown?: string
}

const none: Generation = { number: 0, socket: '', mark: undefined }

/** @param first true on the first look for this broker */
export function findBroker(runtimeDirectory: RuntimeDirectory, first: boolean): Target {
  const name = fixedAddress(runtimeDirectory, 'broker')
  if (runtimeDirectory.socket === 'pipe') return { path: name, fixed: true, generation: none }
  const here = thisProcess()
  const generation = currentGeneration(runtimeDirectory.directory)
  const { number, socket, mark } = generation
  const file = socket === '' ? undefined : join(runtimeDirectory.directory, socket)
  if (generation.malformed !== undefined && name === undefined) {
    const broker = recordedBroker(runtimeDirectory.directory, here)
    const unknown = `${generation.malformed}; ${broker?.pid ? `process ${broker.pid} runs the broker` : 'which process runs the broker is unknown'}`
    if (broker !== undefined) return { path: undefined, fixed: false, generation, unknown }
  }
  if (name === undefined) return { path: file, fixed: false, generation }
  // Another user's process may have the name, or have had it: a broker that serves over a file takes precedence.
  if (file !== undefined && mark !== undefined && !hasExited(mark, here)) {
    return { path: file, fixed: false, generation }
  }
  const over = first && number > 0 && recordedBroker(runtimeDirectory.directory, here) === undefined
  return { path: over ? undefined : name, fixed: true, generation }
}

/** `failed` and `held` have a reason: this process cannot host a broker, and others will hardly succeed. */
export type ElectionResult =
  | { readonly is: 'up' | 'taken' | 'unavailable' }
  | { readonly is: 'failed' | 'held'; readonly why: string }

export interface Chance {
  readonly clock: Clock
  readonly random: () => number
}

/**
 * Called when the connection to `target` failed. Resolves when a retry is worthwhile.
 * @param code the code of the error from `connect`
 * @param fallback another process has been about to start a broker for long
 */
export async function elect(
  runtimeDirectory: RuntimeDirectory,
  target: Target,
  code: string | undefined,
  fallback: boolean,
  chance: Chance,
): Promise<ElectionResult> {
  const { path, fixed, generation } = target
  if (!fixed && !hasEnded(generation, thisProcess(), code)) return { is: 'unavailable' }
  if (!fixed || path === undefined) return electByChance(runtimeDirectory, generation, chance)
  const address = fixedAddress(runtimeDirectory, 'election')
  if (address === undefined || fallback || hasThread(runtimeDirectory.directory)) {
    return startBroker({ runtimeDirectory: runtimeDirectory, last: generation })
  }
  const candidate = await bind(address)
  if (candidate === undefined) return { is: 'taken' }
  try {
    // Another candidate may have started a broker since our last look.
    if (await answers(path)) return { is: 'taken' }
    return await startBroker({ runtimeDirectory: runtimeDirectory, last: generation })
  } finally {
    candidate.close()
  }
}

/** Without a name to agree by, a random delay keeps most processes from starting a thread at once. @param generation one that has ended */
export async function electByChance(
  runtimeDirectory: RuntimeDirectory,
  generation: Generation,
  { clock, random }: Chance,
): Promise<ElectionResult> {
  const delay = hasThread(runtimeDirectory.directory) ? 0 : random() * 30
  await new Promise<void>((resolve) => void clock.at(clock.now() + delay, resolve, { ref: false }))
  if (currentGeneration(runtimeDirectory.directory).number > generation.number) return { is: 'taken' }
  return startBroker({ runtimeDirectory: runtimeDirectory, last: generation })
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

/** @returns undefined when another process has the name */
function bind(address: string): Promise<Server | undefined> {
  return new Promise((resolve) => {
    const server = createServer((socket) => socket.destroy())
    server.unref()
    server.once('error', () => resolve(undefined))
    server.listen({ path: address, exclusive: true }, () => resolve(server))
  })
}
