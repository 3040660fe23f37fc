/** The queue of the ZooKeeper recipes, written without failures in mind. */
import {
  codes,
  create,
  exists,
  flags,
  getChildren,
  open,
  remove,
  type Session,
  ZookeeperError,
  zookeeperSession,
} from '../../test/support/zookeeper-session.js'
import { maxTtl, type SharedWay, sceneTimeout } from './lock.js'
import { Limits, recordedLock } from './recorded-lock.js'

export const naiveQueue: SharedWay = {
  title: 'a sequential node by hand',
  open({ address, room, session: timeout = maxTtl }, recorder) {
    const session = zookeeperSession(address, timeout)
    const limits = new Limits()
    return {
      take: (name, _, wait) =>
        recordedLock(recorder, { name, wait }, async () => {
          const signal = limits.after(wait)
          const soon = limits.after(sceneTimeout)
          const lock = `/${room}/${name}`
          await session.ready(soon)
          for (const path of [`/${room}`, lock]) await made(session, path)
          const own = await findEntry(session, lock, soon)
          if (!(await first(session, lock, own, signal))) {
            await session.call(remove(own))
            return undefined
          }
          return async () => {
            await session.ready(limits.after(sceneTimeout))
            await session.call(remove(own)).catch(ignore(codes.noNode))
          }
        }),
      close() {
        limits.end()
        return session.close()
      },
    }
  },
}

async function made(session: Session, path: string): Promise<void> {
  await session.call(create(path, Buffer.alloc(0), open, flags.persistent)).catch(ignore(codes.nodeExists))
}

/** No reply? Retry once. */
async function findEntry(session: Session, lock: string, signal: AbortSignal): Promise<string> {
  for (;;) {
    try {
      const { path } = await session.call(
        create(`${lock}/n-`, Buffer.alloc(0), open, flags.ephemeralSequential),
      )
      return path
    } catch (error) {
      if (!(error instanceof ZookeeperError) || error.code !== codes.connectionLoss) throw error
      await session.ready(signal)
    }
  }
}

/** Resolves with true once nobody is before `own`; with false by the signal. */
async function first(session: Session, lock: string, own: string, signal: AbortSignal): Promise<boolean> {
  for (;;) {
    if (!session.connected) await session.ready(signal)
    const line = [...(await session.call(getChildren(lock)))].sort()
    const before = line[line.indexOf(own.slice(lock.length + 1)) - 1]
    if (before === undefined) return true
    if (signal.aborted) return false
    await new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => resolve())
      // A node that is gone is not watched.
      session.call(exists(`${lock}/${before}`, resolve)).catch(() => resolve())
    })
  }
}

function ignore(code: number): (error: unknown) => undefined {
  return (error) => {
    if (!(error instanceof ZookeeperError) || error.code !== code) throw error
  }
}
