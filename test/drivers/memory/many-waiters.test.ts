// Ten thousand waiters of one name in the line of the store.
// Second tier because ten thousand waiters keep a processor busy for many seconds.
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { createLocks } from 'holdfast'
import { local } from 'holdfast/local'
import { memory } from 'holdfast/memory'
import { leakCheck } from '../../support/leaks.js'
import { until } from '../../support/until.js'

after(leakCheck)

const many = 10_000

test('memory: ten thousand waiters of one name are served, or give up', async () => {
  const locks = createLocks(memory(), { ttl: 60_000 })
  for (const served of [true, false]) {
    const lease = await locks.mutex('crowded').acquire()
    const controller = new AbortController()
    let runs = 0
    const waits = Array.from({ length: many }, () =>
      locks.mutex('crowded').run(() => runs++, { fair: true, signal: controller.signal }),
    )
    await until(async () => (await locks.inspect('crowded')).waiters.length === many, {
      within: 60_000,
      every: 50,
    })
    if (served) await lease.release()
    else controller.abort()
    await Promise.allSettled(waits)
    assert.equal(runs, served ? many : 0)
    await lease.release()
  }
  await locks.close()
})

test('local: a crowd that gives up on one name does not keep the broker from the others', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-many-'))
  const [crowd, other] = [createLocks(local({ directory })), createLocks(local({ directory }))]
  const lease = await crowd.mutex('crowded').acquire({ ttl: 60_000 })
  const controller = new AbortController()
  const waits = Array.from({ length: many }, () =>
    crowd
      .mutex('crowded')
      .acquire({ fair: true, signal: controller.signal })
      .catch(() => 'over'),
  )
  await until(async () => (await other.inspect('crowded')).waiters.length === waits.length, {
    within: 60_000,
    every: 50,
  })
  controller.abort()
  // One that is not answered within 5 s rejects.
  const free = await other.mutex('free').tryAcquire()
  assert.equal(await free?.release(), 'released')
  assert.deepEqual([...new Set(await Promise.all(waits))], ['over'])
  await lease.release()
  await Promise.all([crowd.close(), other.close()])
  await rm(directory, { recursive: true })
})
