// The two tiers together are all tests: none is in neither or in both, and CI runs both.
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { conformance, type Runner } from 'holdfast/conformance'
import { chosen, testFiles } from '../../scripts/test-files.js'
import { memoryFixture } from '../conformance/memory-fixture.js'
import { filtered, primitives } from '../conformance/parts.js'
import { listFiles, read, root } from '../support/checkout.js'
import { leakCheck } from '../support/leaks.js'

const all = testFiles()
const onDisk = listFiles('test', '.test.ts').sort()
const sources = (tier: 'first' | 'second' | 'all') =>
  chosen(all, { words: [], tier }).map(({ source }) => source)

test('every test file is in exactly one tier', () => {
  assert.deepEqual([...sources('first'), ...sources('second')].sort(), onDisk)
  assert.deepEqual(sources('all').sort(), onDisk)
  assert.ok(sources('first').length > 100 && sources('second').length > 50)
})

test('a file that says why it is second tier says it where it is read', () => {
  const first = new Set(sources('first'))
  assert.deepEqual(
    onDisk.filter((path) => first.has(path) && /^\/\/ Second tier because /m.test(read(path))),
    [],
  )
})

test('`npm test` is the first tier, `npm run test:second` the second, and CI runs one after the other', () => {
  const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }
  assert.doesNotMatch(scripts['test'] ?? '', /--tier/)
  assert.equal(scripts['test:second'], 'npm test -- --tier=second')
  assert.equal(scripts['test:all'], 'npm test -- --tier=all')
  const runs = read('.ci/run').split('\n')
  assert.ok(runs.includes('npm test || failed=1'))
  assert.ok(runs.includes('npm run test:second -- --sum || failed=1'))
})

const drivers = readdirSync(join(root, 'src/drivers')).filter((name) => name !== 'kit')

for (const driver of drivers) {
  test(`the whole suite runs on ${driver}: in one file of the first tier, or without the primitives, which are a file of the second`, () => {
    const whole = `test/conformance/${driver}.test.ts`
    const rest = `test/conformance/${driver}-primitives.test.ts`
    assert.ok(sources('first').includes(whole))
    const leavesOut = read(whole).includes('withoutPrimitives')
    assert.ok(!read(whole).includes('connectionOnly'))
    assert.equal(sources('second').includes(rest), leavesOut)
    if (leavesOut) assert.match(read(rest), /\bprimitivesOnly\b.*\)$/m)
  })
}

test('the primitives and the rest are the whole suite', () => {
  const whole = titles(() => true)
  const parts = [
    ...titles((aspect) => primitives.includes(aspect)),
    ...titles((aspect) => !primitives.includes(aspect)),
  ]
  assert.ok(whole.length > 100)
  assert.deepEqual(parts.sort(), whole.sort())
})

/** Of the tests that a filtered suite registers, without running one. */
function titles(takes: (aspect: string) => boolean): string[] {
  const path: string[] = []
  const seen: string[] = []
  const runner: Runner = {
    describe(name, fn) {
      path.push(name)
      fn()
      path.pop()
    },
    it: (name) => void seen.push([...path, name].join(' > ')),
  }
  conformance(filtered(takes, runner), memoryFixture())
  return seen
}

after(leakCheck)
