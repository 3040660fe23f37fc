/** The driver of the strategy `session`: many advisory locks on one connection. */
import type { Driver, DriverFactory, Grant, LockStatus } from '../../../core/driver.js'
import { BackendError } from '../../../core/errors.js'
import type { Database, Value } from '../client.js'
import type { PostgresSessionTraits } from '../driver.js'
import { toFailure } from '../failure.js'
import { toLockStatus } from '../inspect.js'
import type { Settings } from '../options.js'
import type { Call } from '../sql.js'
import type { Notification } from '../subscriber.js'
import { parseRowName, rowName } from './key.js'
import { createSession, type Session } from './session.js'
import { SessionWaiter } from './waiter.js'

const traits: PostgresSessionTraits = Object.freeze({
  modes: ['exclusive', 'shared'] as const,
  fair: true,
  minTtl: 500,
  shared: true,
})

export function sessionDriver(database: Database, settings: Settings): DriverFactory<PostgresSessionTraits> {
  const { namespace } = settings
  return (env): Driver<PostgresSessionTraits> => {
    const waiters = new Map<string, SessionWaiter>()
    let session: Session | undefined
    let closed = false
    const hear = (push: Notification) => {
      if (push.is === 'try') waiters.get(push.attempt)?.onNotification()
    }
    const open = (): Session => {
      if (closed) throw new BackendError('postgres', 'these locks were closed', { closed: true })
      session ??= createSession(database, settings, env, hear)
      return session
    }
    const result = async (call: (session: Session) => Call, values: readonly Value[]): Promise<unknown> => {
      const at = open()
      try {
        return (await at.execute(call(at), () => values)).answer
      } catch (error) {
        throw toFailure(error).error
      }
    }
    return {
      name: 'postgres',
      traits,
      acquire(claim, wait) {
        return new Promise<Grant | undefined>((resolve, reject) => {
          const place = [open(), waiters, env] as const
          new SessionWaiter(place, claim, wait, resolve, reject).ask()
        })
      },
      inspect: async (name) =>
        toLockStatus(name, await result(({ calls }) => calls.sessionInspect, [rowName(namespace, name)])),
      async list(prefix) {
        const rows = await result(({ calls }) => calls.sessionList, [rowName(namespace, prefix)])
        const all = (rows as [string, unknown][]).flatMap(([row, status]): LockStatus[] => {
          const name = parseRowName(namespace, row)
          return name === undefined ? [] : [toLockStatus(name, status)]
        })
        return all.filter(({ holders, waiters }) => holders.length + waiters.length > 0)
      },
      async close() {
        closed = true
        for (const waiter of [...waiters.values()]) waiter.stop()
        await session?.close()
      },
    }
  }
}
