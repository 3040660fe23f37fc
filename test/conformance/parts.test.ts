// A part of the suite leaves out only what another instance of the same driver runs.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { conformance, type Runner } from 'holdfast/conformance'
import { leakCheck } from '../support/leaks.js'
import { memoryFixture } from './memory-fixture.js'
import { connection, filtered, primitives } from './parts.js'

/** The aspects that the suite registers with such a filter, without running a test. */
function aspects(takes: (aspect: string) => boolean): string[] {
  const seen: string[] = []
  let depth = 0
  const runner: Runner = {
    describe(name, fn) {
      if (depth === 1) seen.push(name)
      depth++
      fn()
      depth--
    },
    it: () => undefined,
  }
  conformance(filtered(takes, runner), memoryFixture())
  return seen
}

const all = aspects(() => true)

test('each part names aspects that the suite has, and the two have none in common', () => {
  for (const name of [...primitives, ...connection]) assert.ok(all.includes(name), name)
  assert.deepEqual(
    primitives.filter((name) => connection.includes(name)),
    [],
  )
})

test('a filtered suite registers only what its filter selects', () => {
  assert.deepEqual(
    aspects((name) => !primitives.includes(name)),
    all.filter((name) => !primitives.includes(name)),
  )
  assert.deepEqual(
    aspects((name) => connection.includes(name)),
    all.filter((name) => connection.includes(name)),
  )
})

after(leakCheck)
