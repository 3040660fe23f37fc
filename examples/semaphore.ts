/** At most three at a time, and one request that counts for two. */
import assert from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'
import { createLocks } from 'holdfast'
import { memory } from 'holdfast/memory'

await using locks = createLocks(memory())
const downloads = locks.semaphore('downloads', { permits: 3 })
let taken = 0
let most = 0

async function download(size: number): Promise<void> {
  await downloads.run(
    async () => {
      taken += size
      most = Math.max(most, taken)
      await pause(5)
      taken -= size
    },
    { permits: size },
  )
}

await Promise.all([1, 1, 2, 1, 2, 1, 1].map(download))
assert.ok(most <= 3)
console.log(`never more than 3 permits in use: ${most}`)
