// The scenario, and the table made from it, are useful only if mistakes show: a driver that breaks a promise turns its cell and
// fails, one that can more or less than it declares fails, and so does a column or a page that says something else.
// Second tier because it tests the suite itself, which seldom changes.
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import type { DriverFactory, Traits } from 'holdfast'
import { conformance, type Fixture, type PromiseColumn, promiseTable } from 'holdfast/conformance'
import type { Driver } from 'holdfast/driver'
import { toColumn, written } from '../../scripts/promises-table.js'
import { leakCheck } from '../support/leaks.js'
import { hasColumn } from '../support/promises.js'
import { brokenDrivers, stopHearts } from './broken-drivers.js'
import { memoryFixture } from './memory-fixture.js'

after(stopHearts)
after(leakCheck)

const compared = 'makes the column that the fixture expects'
const several = 'several locks are taken together, in one step'
const inspecting = '`inspect`, `list` and `check` name holders and waiters'

interface Played {
  readonly column: PromiseColumn
  readonly failed: ReadonlyMap<string, string>
}

/** Runs the scenario of the suite alone; what fails is kept. */
async function play(fixture: Fixture): Promise<Played> {
  const tests: (readonly [string, () => Promise<void>])[] = []
  let aspect = ''
  const runner = {
    describe: (name: string, fn: () => void) => {
      aspect = name
      fn()
    },
    it: (name: string, fn: () => Promise<void>) => {
      if (aspect === 'the scenario') tests.push([name, fn])
    },
  }
  let column: PromiseColumn | undefined
  const promises = async (made: PromiseColumn) => {
    column = made
    await fixture.promises?.(made)
  }
  conformance(runner, { ...fixture, promises })
  const failed = new Map<string, string>()
  for (const [name, fn] of tests) await fn().catch((error: unknown) => failed.set(name, String(error)))
  assert.ok(column !== undefined, 'no column was made')
  return { column, failed }
}

const brokenIn = ({ cells }: PromiseColumn) =>
  cells.filter(({ is }) => is === 'broken').map(({ promise }) => promise)

/** Memory, changed in what it declares or does. */
const changed = (change: (driver: Driver) => Partial<Driver>) =>
  memoryFixture('changed', (factory) => (env) => {
    const driver = factory(env)
    return { ...driver, ...change(driver) }
  })

// Each waits, and has a store of its own.
describe('the scenario', { concurrency: true }, () => {
  const seen = {
    'a release that deletes whatever is there, without asking whose it is': [
      'a lease that runs out is lost in one way, for good',
      "got 'c tries → a lease'",
    ],
    'tokens that repeat': [
      'tokens grow with every grant',
      "got 'each is greater than the one before → false'",
    ],
    'permits that all weigh the same': ['a semaphore counts by weight', "got 'b tries 2 → a lease'"],
    'asking again and again instead of queueing': [
      '`fair: true` is first come, first served',
      "got 'the chapter fails → Error: timed out",
    ],
  } as const
  for (const [mistake, [promise, says]] of Object.entries(seen))
    it(`shows in cell and test: ${mistake}`, async () => {
      const broken = brokenDrivers.find((one) => one.mistake === mistake)
      assert.ok(broken !== undefined)
      const fixture = memoryFixture('broken', broken.breaks)
      const { column, failed } = await play({ ...fixture, ...hasColumn('memory') })
      assert.ok(brokenIn(column).includes(promise), promiseTable([column]))
      assert.ok(failed.get(promise)?.includes(says), failed.get(promise))
      assert.match(failed.get(compared) ?? '', /docs\/promises\.md says something else/)
      assert.throws(() => toColumn('memory', written(column.cells)), /cannot be 'broken'/)
    })

  it('fails where a driver does more than it declares', async () => {
    const { column, failed } = await play(
      changed(({ traits }) => ({ traits: { ...traits, acquireMany: false, queue: false } })),
    )
    assert.deepEqual(brokenIn(column), [several, inspecting])
    assert.match(failed.get(several) ?? '', /'requests for a lock → 2' was expected, got '.* → 1'/)
    assert.match(failed.get(inspecting) ?? '', /'.*: waiters → none' was expected, got '.* → from b'/)
  })

  it('fails where a driver does less than it declares', async () => {
    const { column, failed } = await play(memoryFixture('no permits', withoutPermits))
    assert.deepEqual(brokenIn(column), ['a semaphore counts by weight'])
    assert.match(failed.get('a semaphore counts by weight') ?? '', /got 'a takes 2 → RangeError'/)
  })

  it('gives the reason for what a driver declares not to do', async () => {
    const { column, failed } = await play(changed(({ traits }) => lesser(traits)))
    assert.deepEqual([...failed], [])
    const cells = Object.entries(written(column.cells)).filter(([, is]) => is !== 'yes')
    assert.deepEqual(Object.fromEntries(cells), {
      'a holder that is killed keeps nobody out for long': 'no: shared',
      'a lease moves to another process': 'no: portable',
      'a semaphore counts by weight': 'no: permits',
      [inspecting]: 'in part: list',
    })
    const table = promiseTable([column], { list: { changed: 'Because it is hidden here.' } })
    assert.match(table, /^\| tokens grow with every grant \| yes \|$/m)
    assert.match(table, /^\| a semaphore counts by weight \| no \(b\) \|$/m)
    assert.match(table, /^- \*\*c\*\* The driver has no `list`: .* Because it is hidden here\.$/m)
  })

  it('fails where the column in the docs says something else', async () => {
    const { column, failed } = await play({
      ...memoryFixture(),
      ...hasColumn('memory', { memory: { 'tokens grow with every grant': 'no: permits' } }),
    })
    assert.deepEqual(brokenIn(column), [])
    assert.deepEqual([...failed.keys()], [compared])
  })
})

function lesser(traits: Traits): Partial<Driver> {
  return {
    traits: { ...traits, modes: ['exclusive', 'shared'], portable: false },
    ...({ list: undefined } as object),
  }
}

/** It says that it has permits. */
function withoutPermits(factory: DriverFactory): DriverFactory {
  return (env) => {
    const driver = factory(env)
    return {
      ...driver,
      acquire: (claim, wait) =>
        claim.mode.kind === 'permits' ? Promise.reject(new RangeError('no')) : driver.acquire(claim, wait),
    }
  }
}
