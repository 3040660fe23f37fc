// Run by `process-end.test.ts`: what keeps this process alive, over the memory driver, which has no connection that could?
import { createLocks } from 'holdfast'
import { memory } from 'holdfast/memory'

const locks = createLocks(memory())
const lease = await locks.mutex('a').acquire({ ttl: 60_000 })
if (process.argv[2] === 'wait') {
  // Fires only if something else keeps the process alive for that long.
  setTimeout(() => void lease.release(), 200).unref()
  await (await locks.mutex('a').acquire({ wait: Number.POSITIVE_INFINITY })).release()
  console.log('granted')
} else {
  locks.onRevoke(lease, () => undefined)
  console.log('held')
}
