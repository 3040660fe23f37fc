// The suite is useful only if it fails where it should: each mistake runs through the sections that must catch it.
// Second tier because it tests the suite itself, which seldom changes.
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { conformance, type Fixture } from 'holdfast/conformance'
import { leakCheck } from '../support/leaks.js'
import { brokenDrivers, stopHearts } from './broken-drivers.js'
import { memoryFixture } from './memory-fixture.js'

after(stopHearts)
after(leakCheck)

describe('the conformance suite sees', () => {
  for (const { mistake, breaks, seenBy, ttl } of brokenDrivers) {
    it(mistake, async () => {
      const fixture: Fixture = {
        ...memoryFixture('broken', breaks),
        timeout: 800,
        ...(ttl !== undefined && { ttl }),
      }
      for (const [aspect, test, says] of seenBy) {
        const error = await run(fixture, aspect, test)
        assert.ok(error !== undefined, `'${aspect}: ${test}' passed`)
        assert.match(String(error), says)
      }
    })
  }
})

/** Runs the one test of the suite whose name begins so; resolves with what it failed with. */
async function run(fixture: Fixture, aspect: string, test: string): Promise<unknown> {
  const found: (() => Promise<void>)[] = []
  const path: string[] = []
  const runner = {
    describe: (name: string, fn: () => void) => {
      path.push(name)
      fn()
      path.pop()
    },
    it: (name: string, fn: () => Promise<void>) => {
      if (path.at(-1) === aspect && name.startsWith(test)) found.push(fn)
    },
  }
  conformance(runner, fixture)
  assert.equal(found.length, 1, `'${aspect}: ${test}' names ${found.length} tests`)
  return found[0]?.().then(
    () => undefined,
    (error: unknown) => error,
  )
}
