/** Converters are limited to two at a time; at night there may be more, and for maintenance none. Their catalogue is read by many and changed by few. */
import assert from 'node:assert/strict'
import { createLocks } from 'holdfast'
import { memory } from 'holdfast/memory'

await using locks = createLocks(memory())
const converters = locks.pool('converters', { permits: 2 })
const films = await Promise.all(['one', 'two'].map((note) => converters.acquire({ note })))
assert.equal(await converters.tryAcquire(), undefined)
await converters.resize(3)
const third = await converters.acquire({ note: 'three, at night' })
console.log((await converters.holders()).map(({ note }) => note).join(', '))
// For maintenance: nobody starts, running ones finish.
const finished = converters.close({ wait: '10s' })
for (const lease of [...films, third]) await lease.release()
assert.equal(await finished, true)
await assert.rejects(converters.acquire(), { code: 'POOL_CLOSED' })
await converters.open()

const catalogue = locks.upgradeable('catalogue')
const titles = new Set(['one'])
async function addOnce(title: string): Promise<void> {
  await using lease = await catalogue.upgradeable()
  // Read while others read; only a client with something to add waits until they have left.
  if (!titles.has(title) && (await lease.upgrade())) titles.add(title)
}
await Promise.all(['one', 'two', 'two', 'three'].map(addOnce))
assert.equal(titles.size, 3)
console.log([...titles].join(', '))
