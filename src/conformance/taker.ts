/**
 * The child process of the crash tests: makes the fixture's driver, takes one lock, says what happens, and holds until it is
 * told otherwise or killed. Talks over the channel that `fork` gives it; ends when its parent does.
 */
import { createLocks, type DriverFactory, type Lease } from 'holdfast'
import type { Taker } from './fixture.js'
import type { FromTaker, ToTaker } from './take-in-child.js'

export interface Task {
  readonly taker: Taker
  readonly name: string
  readonly ttl: number
}

async function main(): Promise<void> {
  const task: Task = JSON.parse(process.argv[2] ?? '')
  const { module, export: name, args = [] } = task.taker
  const make: (...args: unknown[]) => DriverFactory | Promise<DriverFactory> = (await import(module))[name]
  const locks = createLocks(await make(...args))
  const say = (message: FromTaker) => process.send?.(message)
  let lease: Lease | undefined
  locks.on('waiting', () => say({ is: 'waiting' }))
  process.on('disconnect', () => process.exit(0))
  process.on('message', async (message: ToTaker) => {
    if (message === 'state') say({ is: 'state', isHeld: lease?.isHeld ?? false })
    if (message === 'release') {
      await lease?.release()
      await locks.close()
      process.disconnect()
    }
  })
  say({ is: 'ready' })
  lease = await locks
    .mutex(task.name)
    .acquire({ ttl: task.ttl, wait: Number.POSITIVE_INFINITY, note: 'child' })
  say({ is: 'granted', token: lease.token })
}

await main()
