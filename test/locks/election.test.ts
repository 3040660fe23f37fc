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
  ['is there, though others are not listed', { holder: 'leader', waiting: ['c'], unlisted: 7 }, true],
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

test('a leader keeps leading, and says why, when the store does not list the named candidate', async () => {
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

test('bad input is refused at once by leaders and candidates alike, and the leader goes on', async () => {
  const [locks, other] = [createLocks(memory()), createLocks(memory())]
  const election = locks.election(name)
  const term = await election.campaign('here')
  const long = { name: 'RangeError', message: /^value is \d+ bytes long as JSON; the limit is 64512/ }
  await assert.rejects(election.campaign('x'.repeat(64_511)), long)
  await assert.rejects(term.proclaim('"'.repeat(32_256)), long)
  const noName = { name: 'TypeError', message: /^candidate must be a string, got undefined/ }
  await assert.rejects(term.handOver(undefined as unknown as string), noName)
  await assert.rejects(term.handOver('c'.repeat(129)), /candidate is 129 bytes long; the limit is 128/)
  const misspelt = { sginal: new AbortController().signal } as object
  assert.throws(
    () => election.observe(misspelt),
    /observe\(\): unknown option "sginal"; did you mean signal\?/,
  )
  assert.throws(
    () => election.observe(null as unknown as object),
    /observe\(\) takes \{ signal\? \}, got null/,
  )
  assert.equal(term.isHeld, true)
  await Promise.all([locks.close(), other.close()])
})

test('a leader with the longest value hands over to the longest name', async () => {
  const store = memory()
  const [locks, other] = [createLocks(store), createLocks(store)]
  const term = await locks.election(name).campaign('x'.repeat(64_510))
  const candidate = '"'.repeat(128)
  const next = other.election(name).campaign('next', { candidate })
  await until(async () => (await locks.inspect(name)).waiters.length === 1)
  assert.equal(await term.handOver(candidate), true)
  assert.equal((await next).candidate, candidate)
  await Promise.all([locks.close(), other.close()])
})

test('a candidate with a line separator in its name has its priority, and can be named', async () => {
  const store = memory()
  const clients = [0, 1, 2].map(() => createLocks(store))
  const [first, low, high] = clients.map((locks) => locks.election(name))
  const term = await first?.campaign('first')
  const waits = low?.campaign('low', { candidate: 'low' })
  await until(async () => (await clients[0]?.inspect(name))?.waiters.length === 1)
  const won = high?.campaign('high', { candidate: 'h\u2028i', priority: 1 })
  await until(async () => (await clients[0]?.inspect(name))?.waiters.length === 2)
  await term?.resign()
  assert.equal(await Promise.race([won, waits]).then((one) => one?.candidate), 'h\u2028i')
  assert.equal(await (await won)?.handOver('low'), true)
  await waits
  await Promise.all(clients.map((locks) => locks.close()))
})

/** The store is silent to a candidate that has been granted the lock already. */
for (const [when, isAsked] of [
  ['looks for a preferred candidate', ({ inspected }) => inspected],
  ['publishes its value', ({ written }) => written],
] as readonly (readonly [string, (asked: { inspected: boolean; written: boolean }) => boolean])[]) {
  test(`a candidate that gives up while it ${when} does not wait for a silent store, and does not lead`, async () => {
    const store = memory()
    const asked = { inspected: false, written: false }
    const silence = new Promise<never>(() => undefined)
    const isSilent = (what: keyof typeof asked) => {
      asked[what] = true
      return isAsked({ inspected: false, written: false, [what]: true })
    }
    const silent: DriverFactory = (env) => {
      const { cells, ...driver } = store(env)
      if (cells === undefined) throw new Error('memory has cells')
      return {
        ...driver,
        inspect: (of) => (isSilent('inspected') ? silence : driver.inspect(of)),
        cells: {
          read: (...of) => cells.read(...of),
          changed: (...of) => cells.changed(...of),
          write: (...of) => (isSilent('written') ? silence : cells.write(...of)),
        },
      }
    }
    const [locks, other] = [createLocks(silent), createLocks(store)]
    const election = locks.election(name)
    const controller = new AbortController()
    const campaign = election.campaign('never', { signal: controller.signal })
    await until(() => isAsked(asked))
    const reason = new Error('enough')
    controller.abort(reason)
    await assert.rejects(campaign, reason)
    const next = await other.election(name).campaign('next')
    assert.equal(election.isLeader, false)
    assert.equal((await other.election(name).leader())?.value, 'next')
    await next.resign()
    await Promise.all([locks.close(), other.close()])
  })
}

/** Who stands aside for another keeps what it has until its new place is taken; that place takes its time here. */
test('a candidate that steps aside is queued before it releases, so nobody of a lower priority leads meanwhile', async () => {
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
