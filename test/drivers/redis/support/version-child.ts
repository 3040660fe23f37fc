// A process that takes a lock with one version of a client, says so, and waits to be killed.
import { createLocks } from '../../../../src/create-locks.js'
import { redis } from '../../../../src/drivers/redis/index.js'
import type { Place } from './place.js'
import { versionNamed } from './versions.js'

export interface Task {
  readonly version: string
  readonly place: Place
  readonly name: string
  readonly ttl: number
}

const task = JSON.parse(process.argv[2] ?? '') as Task
const { client, start } = await versionNamed(task.version).open(task.place)
await start()
await createLocks(redis({ client, quarantine: 'off' }))
  .mutex(task.name)
  .acquire({ ttl: task.ttl })
process.send?.('held')
setInterval(() => undefined, 1_000)
