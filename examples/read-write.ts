/** Many readers or one writer, and a writer that stays as a reader of what it has written. */
import assert from 'node:assert/strict'
import { createLocks } from 'holdfast'
import { memory } from 'holdfast/memory'

await using locks = createLocks(memory())
const { read, write } = locks.readWrite('catalogue')

const readers = await Promise.all([read.acquire(), read.acquire()])
assert.equal(await write.tryAcquire(), undefined)
for (const lease of readers) await lease.release()

await write.run(async (writing) => {
  const reading = await read.acquire() // inside its own writer: at once
  await writing.release() // from here on others may read too, but nobody wrote in between
  await using another = await createReader()
  assert.ok(another.isHeld && reading.isHeld)
  await reading.release()
})

async function createReader() {
  return locks.readWrite('catalogue').read.acquire({ wait: 1_000, reentrant: true })
}
console.log('two readers together, one writer, then readers of what it wrote')
