import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { memory } from '../../src/drivers/memory/index.js'
import { createLocks, type DriverFactory } from '../../src/index.js'
import { findCandidate } from '../../src/locks/hand-over.js'
import { leakCheck } from '../support/leaks.js'
import { until } from '../support/until.js'

after(leakCheck)

const name = 'scheduler'

const candidacy = (candidate: string, attempt: string) => ({
  attempt,
  note: `candidate ${candidate}, priority 0`,
  mode: { kind: 'exclusive' as const },
  token: 1,
  heldFor: 0,
  waitedFor: 0,
  expiresIn: 1_000,
})

for (const [title, { holder, waiting, unlisted }, expected] of [
  ['waits', { holder: 'leader', waiting: ['b', 'c'] }, true],
  ['has been granted the lock', { holder: 'c', waiting: ['b'] }, true],
  ['is there, whoever else is not listed', { holder: 'leader', waiting: ['c'], unlisted: 7 }, true],
  ['has gone', { holder: 'leader', waiting: ['b'], unlisted: 0 }, false],
  ['is only the leader itself', { holder: 'itself', waiting: ['b'] }, false],
  ['may be among those that are not listed', { holder: 'leader', waiting: ['b'], unlisted: 1 }, undefined],
] as const satisfies readonly (readonly [string, object, boolean | undefined])[]) {
  test(`a named candidate ${title}: ${expected}`, () => {
    const holders = [candidacy(holder === 'c' || holder === 'itself' ? 'c' : 'a', holder === 'c' ? '2' : '1')]
    const waiters = waiting.map((candidate) => candidacy(candidate, '3'))
    assert.equal(
      findCandidate({ holders, waiters, ...(unlisted !== undefined && { unlisted }) }, 'c', '1'),
      expected,
    )
  })
}

test('a leader goes on, and says why, when the store does not list the candidate that it names', async () => {
  const store = memory()
  const locks = createLocks((env) => {
    const driver = store(env)
    return { ...driver, inspect: async (of) => ({ ...(await driver.inspect(of)), unlisted: 3 }) }
  })
  const term = await locks.election(name).campaign('here')
  await assert.rejects(term.handOver('elsewhere'), {
    code: 'BACKEND',
    message: /"elsewhere" is not among .*goes on leading/,
  })
  assert.equal(term.isHeld, true)
  await locks.close()
})

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
