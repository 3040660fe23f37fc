/** Locks between the processes of one machine, without a server: see `docs/drivers/local.md` and `ARCHITECTURE.md`. */

import { resolve as resolvePath } from 'node:path'
import type { Claim, Driver, DriverFactory, Grant, LockStatus, Traits, Wait } from '../../core/driver.js'
import { BackendError, permitLimitError } from '../../core/errors.js'
import { checkKnown } from '../../core/known-options.js'
import { describe, quote } from '../../core/name.js'
import { acquireMany } from './acquire-many.js'
import { answerTimeout } from './call.js'
import { cellsOver } from './cells.js'
import { createGrant, doneOrThrow } from './grant.js'
import { encodeMode } from './protocol.js'
import { defaultDirectory, isMissing, isUnused, type SocketKind } from './runtime-directory.js'
import { createSession, type Session } from './session.js'

export interface LocalOptions {
  /**
   * Processes with the same directory share their locks. A missing directory is created with mode 0700. The directory must
   * belong to the user, and the file system must be local.
   * @default HOLDFAST_DIR, else /tmp/holdfast-<uid> (Windows: holdfast-user in the folder for temporary files)
   */
  readonly directory?: string
  /**
   * How processes find the broker. `file` works across containers that share the directory as a volume; the other kinds are
   * more robust. The first process that uses a directory chooses the kind for all.
   * @default 'abstract' on Linux (`file` in a container when the directory is on a volume), 'pipe' on Windows, else 'file'
   */
  readonly socket?: 'abstract' | 'file'
}

export interface LocalTraits extends Traits {
  readonly modes: readonly ('exclusive' | 'shared' | 'permits')[]
  readonly fair: true
  readonly shared: true
  readonly cells: true
  readonly portable: true
  readonly caching: true
  readonly acquireMany: true
}

const traits: LocalTraits = Object.freeze({
  modes: Object.freeze(['exclusive', 'shared', 'permits'] as const),
  fair: true,
  // With a renewal every third of the ttl, this leaves ten times the round trip on a busy machine.
  minTtl: 100,
  shared: true,
  cells: true,
  portable: true,
  caching: true,
  acquireMany: true,
})

/**
 * Locks between the processes of one user on one machine. One process runs the broker in a thread; when that process
 * ends, another takes over, and all locks are kept.
 *
 * @throws TypeError for invalid options. The locks throw BackendError when the directory cannot be used, the disk is full, or
 * the process that runs the broker is stopped.
 */
export function local(options: LocalOptions = {}): DriverFactory<LocalTraits> {
  const { directory, socket } = checkOptions(options)
  return (env) => {
    const place = directory ?? defaultDirectory()
    return localDriver(createSession(env, place, socket), place)
  }
}

function checkOptions(options: LocalOptions): {
  directory: string | undefined
  socket: SocketKind | undefined
} {
  if (typeof options !== 'object' || options === null) {
    throw new TypeError(`local() takes { directory?, socket? }, got ${describe(options)}`)
  }
  checkKnown('local()', options, ['directory', 'socket'])
  const { directory, socket } = options
  if (
    directory !== undefined &&
    (typeof directory !== 'string' || directory === '' || directory.includes('\0'))
  ) {
    throw new TypeError(`directory must be a path, got ${describe(directory)}`)
  }
  if (socket !== undefined && socket !== 'abstract' && socket !== 'file') {
    throw new TypeError(`socket must be 'abstract' or 'file', got ${describe(socket)}`)
  }
  return { directory: directory === undefined ? undefined : resolvePath(directory), socket }
}

function localDriver(session: Session, directory: string): Driver<LocalTraits> {
  function acquire(claim: Claim, wait: Wait): Promise<Grant | undefined> {
    if (wait.ended) return Promise.resolve(undefined)
    const { name, attempt, mode, ttl, note = '' } = claim
    const once = wait.remaining() <= 0
    const { signal } = wait
    return new Promise((resolve, reject) => {
      const end = () => {
        drop()
        if (call.times === 0) resolve(undefined)
        else void session.abandon(name, attempt).then(() => resolve(undefined))
      }
      const done = () => signal.removeEventListener('abort', end)
      const { call, drop } = session.start({
        verb: ['acquire', name, attempt, encodeMode(mode), ttl, !once, 0, note],
        timeout: once ? answerTimeout : Number.POSITIVE_INFINITY,
        answered(answer) {
          if (answer[0] === 'waiting') {
            const [, position, ticket, holder] = answer
            call.verb = ['acquire', name, attempt, encodeMode(mode), ttl, true, ticket, note]
            return wait.report?.({ position, ...(holder && { holder }) })
          }
          done()
          if (answer[0] === 'granted') return resolve(createGrant(session, claim, answer, call.sent))
          if (answer[0] === 'limit') {
            return reject(permitLimitError(name, answer[1], mode.kind === 'permits' ? mode.of : 0))
          }
          if (answer[0] === 'failed') return reject(new BackendError('local', answer[1]))
          if (answer[0] === 'busy' && answer[1]) wait.report?.({ holder: answer[1] })
          resolve(undefined)
        },
        failed(error) {
          done()
          reject(error)
          if (call.times > 0) void session.abandon(name, attempt)
        },
      })
      signal.addEventListener('abort', end, { once: true })
    })
  }

  const ask = async (verb: Parameters<Session['call']>[0]) => doneOrThrow((await session.call(verb)).answer)
  /** Asking a broker would create the directory. */
  async function read<T>(verb: Parameters<Session['call']>[0], nothing: T): Promise<T> {
    if (isUnused(directory)) return nothing
    if (!session.connected && isMissing(directory)) throw deleted(directory)
    return (await ask(verb)) as T
  }
  return {
    name: 'local',
    traits,
    acquire,
    acquireMany: (claims, wait) => acquireMany(session, claims, wait),
    inspect: (name) => read<LockStatus>(['inspect', name], { name, holders: [], waiters: [], lastToken: 0 }),
    list: (prefix) => read<readonly LockStatus[]>(['list', prefix], []),
    forceRelease: async (name) => {
      const { holders } = (await ask(['inspect', name])) as LockStatus
      const attempts = holders.filter(({ expiresIn }) => expiresIn > 0).map(({ attempt }) => attempt)
      if (attempts.length === 0) return 0
      const { answer, call } = await session.call(['force', name, attempts])
      const ended = doneOrThrow(answer) as number
      // A broker that died before it answered may have ended all of them.
      return call.times > 1 ? attempts.length : ended
    },
    cells: cellsOver(session),
    close: () => session.close(),
  }
}

function deleted(directory: string): BackendError {
  return new BackendError(
    'local',
    `directory ${quote(directory)} was deleted while this process used it, so it is not known what is held there`,
  )
}
