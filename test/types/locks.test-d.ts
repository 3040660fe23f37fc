/** What must and must not compile. Checked by tsc, not run. */
import type { DriverFactory, Lease, Locks, Traits } from 'holdfast'
import { createLocks } from 'holdfast'
import { memory } from 'holdfast/memory'

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
const same = <A, B>(_: Equal<A, B>): void => undefined

interface MutexOnly extends Traits {
  readonly modes: readonly ['exclusive']
}
declare const mutexOnly: DriverFactory<MutexOnly>

export async function whatCompiles(): Promise<void> {
  const locks = createLocks(memory())
  const lease = await locks.mutex('m').acquire({ wait: 5, signal: new AbortController().signal })
  same<typeof lease, Lease>(true)
  same<typeof lease.token, number>(true)
  const maybe = await locks.mutex('m').tryAcquire()
  same<typeof maybe, Lease | undefined>(true)
  const result = await locks.mutex('m').run(async ({ token }) => `${token}`)
  same<typeof result, string>(true)
  const both = await locks.all([locks.mutex('a'), locks.readWrite('b').read]).acquire()
  same<typeof both.leases, readonly Lease[]>(true)
  await using held = await locks.semaphore('s', { permits: 3 }).acquire({ permits: 2 })
  void held
  const general: Locks = locks
  void general

  // @ts-expect-error a try makes one attempt
  await locks.mutex('m').tryAcquire({ wait: 5 })
  // @ts-expect-error an unknown option
  await locks.mutex('m').acquire({ timeout: 5 })
  // @ts-expect-error a semaphore needs its limit
  locks.semaphore('s')
  // @ts-expect-error the state is not the caller's to set
  lease.state = 'held'
}

export function whatADriverCannot(): void {
  const locks = createLocks(mutexOnly)
  locks.mutex('m')
  // @ts-expect-error this driver knows no shared mode
  locks.readWrite('m')
  // @ts-expect-error this driver knows no permits
  locks.semaphore('m', { permits: 2 })
}
