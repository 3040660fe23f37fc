/**
 * The child process of the crash tests: creates the fixture's driver, takes one lock, reports what happens, and holds until it is told to
 * stop or killed. It communicates over the channel of `fork`, and ends when its parent does.
 */
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { createLocks, type DriverFactory, type Lease, type Locks } from 'holdfast'
import type { FromChild, ToChild } from './child-process.js'
import type { ChildClient } from './fixture.js'

export interface Task {
  readonly client: ChildClient
  readonly name: string
  readonly ttl: number
  /** What the child does; default: a mutex. */
  readonly as?: Part
}

export type Part =
  | 'mutex'
  | 'semaphore'
  | 'all'
  | 'once'
  | 'election'
  | 'barrier'
  | 'latch'
  | 'export'
  | 'pool'
  | 'upgradeable'
  | 'alone'
  | 'job'
  | 'revocable'
  | 'revoker'

async function main(): Promise<void> {
  const [task] = (await once(process, 'message')) as [Task]
  const { module, export: name, args = [] } = task.client
  const make: (...args: unknown[]) => DriverFactory | Promise<DriverFactory> = (await import(module))[name]
  const locks = createLocks(await make(...args))
  const say = (message: FromChild) => process.send?.(message)
  let lease: Lease | undefined
  locks.on('waiting', () => say({ is: 'waiting' }))
  process.on('disconnect', () => process.exit(0))
  process.on('message', async (message: ToChild) => {
    if (message === 'state') say({ is: 'state', isHeld: lease?.isHeld ?? false })
    if (message === 'release') {
      await lease?.release()
      await locks.close()
      process.disconnect()
    }
  })
  say({ is: 'ready' })
  await connect(locks, task.name)
  lease = await parts[task.as ?? 'mutex'](locks, task)
  const { token } = lease
  if (task.as === 'export') say({ is: 'granted', token, ticket: await locks.export(lease) })
  else say({ is: 'granted', token })
}

/** A single attempt takes no longer than its ttl, and connecting may take that long on a busy machine: so first wait until the store answers. */
async function connect(locks: Locks, name: string): Promise<void> {
  const answered = () =>
    locks.inspect(name).then(
      () => true,
      () => false,
    )
  // If that never happens, the parent gives up on this process.
  while (!(await answered())) await pause(50)
}

const forEver = { wait: Number.POSITIVE_INFINITY }

/** How to acquire the hold. */
const mutex = (locks: Locks, { name, ttl }: Task) =>
  locks.mutex(name).acquire({ ttl, ...forEver, note: 'child' })

const parts: Readonly<Record<Part, (locks: Locks, task: Task) => Promise<Lease>>> = {
  mutex,
  // Only its wait keeps this process alive.
  alone: (locks, task) => {
    process.channel?.unref()
    return mutex(locks, task).finally(() => process.channel?.ref())
  },
  job: (locks, { name, ttl }) =>
    new Promise((resolve, reject) => {
      const never = (lease: Lease) => {
        resolve(lease)
        return new Promise<never>(() => undefined)
      }
      locks.job(name, { ttl, minHold: 60_000 }).run(never).catch(reject)
    }),
  revocable: async (locks, task) => {
    const lease = await mutex(locks, task)
    locks.onRevoke(lease, () => process.send?.({ is: 'waiting' } satisfies FromChild))
    return lease
  },
  // Does not hold that name: the lock it reports is a different one, so that there is something to report.
  revoker: (locks, { name, ttl }) => {
    void locks.revoke(name, { grace: 60_000, why: 'asked by one that dies' })
    return locks.mutex(`${name} asked`).acquire({ ttl })
  },
  all: (locks, { name, ttl }) =>
    locks.all([locks.mutex(name), locks.mutex(`${name} too`)]).acquire({ ttl, ...forEver }),
  export: mutex,
  once: (locks, { name, ttl }) =>
    new Promise((resolve, reject) => {
      const never = (lease: Lease) => {
        resolve(lease)
        return new Promise<never>(() => undefined)
      }
      locks.once(name, never, { ttl, ...forEver }).catch(reject)
    }),
  election: (locks, { name, ttl }) =>
    locks.election(name).campaign('child', { ttl, candidate: 'child', ...forEver }),
  barrier: async (locks, { name, ttl }) => (await locks.barrier(name, 2).enter({ ttl, ...forEver })).lease,
  semaphore: (locks, { name, ttl }) =>
    locks.semaphore(name, { permits: 3 }).acquire({ permits: 3, ttl, ...forEver }),
  pool: (locks, { name, ttl }) => locks.pool(name, { permits: 1 }).acquire({ ttl, ...forEver }),
  upgradeable: async (locks, { name, ttl }) => {
    const lease = await locks.upgradeable(name).upgradeable({ ttl, ...forEver })
    await lease.upgrade(forEver)
    return lease
  },
  latch: (locks, { name, ttl }) => locks.latch(name).join({ ttl, ...forEver }),
}

await main()
