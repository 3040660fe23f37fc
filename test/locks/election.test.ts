import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { memory } from '../../src/drivers/memory/index.js'
import { createLocks, type DriverFactory } from '../../src/index.js'
import { leakCheck } from '../support/leaks.js'
import { until } from '../support/until.js'

after(leakCheck)

const name = 'scheduler'

/** Who stands aside for another keeps what it has until its new place is taken; that place takes its time here. */
test('a candidate that stands aside is queued before it releases, so nobody of a lower priority leads meanwhile', async () => {
  const store = memory()
  let stands = (): void => {}
  const mayStand = new Promise<void>((resolve) => {
    stands = resolve
  })
  let claims = 0
  const slow: DriverFactory = (env) => {
    const driver = store(env)
    return {
      ...driver,
      acquire: async (claim, wait) => {
        if (++claims === 2) await mayStand
        return driver.acquire(claim, wait)
      },
    }
  }
  const first = createLocks(store)
  const term = await first.election(name).campaign('first')
  const won: string[] = []
  const candidates = (
    [
      ['middle', 0, slow],
      ['low', -1, store],
      ['high', 1, store],
    ] as const
  ).map(async ([candidate, priority, driver], place) => {
    const locks = createLocks(driver)
    await until(async () => (await first.inspect(name)).waiters.length === place)
    const mine = await locks.election(name).campaign('x', { candidate, priority })
    won.push(candidate)
    await mine.resign()
    await locks.close()
  })
  await until(async () => (await first.inspect(name)).waiters.length === 3)
  await term.resign()
  await until(() => claims === 2)
  const { holders, waiters } = await first.inspect(name)
  assert.deepEqual(
    [...holders, ...waiters].map(({ note }) => note),
    ['candidate middle, priority 0', 'candidate low, priority -1', 'candidate high, priority 1'],
  )
  stands()
  await Promise.all(candidates)
  assert.deepEqual(won, ['high', 'middle', 'low'])
  await first.close()
})
