// The page about hazards names every hazard, race and defect it should, and every test it names exists.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { read } from './support/checkout.js'
import { leakCheck } from './support/leaks.js'
import { listTests, maybeRead, missing, parseRows } from './support/named-tests.js'

const path = 'docs/hazards.md'

const rows = parseRows(read(path), ['race |'])

test('every hazard of one server, of several, of ZooKeeper, etcd and Consul, of databases and of what the lock was for has a row', () => {
  const [databases, purposes] = [range('H', 81).slice(60), range('H', 97).slice(92)]
  assert.deepEqual(numbered('H'), [...range('H', 60), ...databases, ...purposes])
})

test('every defect seen in other libraries has a row', () => {
  assert.deepEqual(numbered('D'), range('D', 19))
})

test('every race of the hand-off and of lock caching has a row', () => {
  const races = rows.filter(({ what }) => !/^[HD]\d+$/.test(what))
  assert.equal(races.length, 28)
})

test('every row has a test, or says why not', () => {
  const lacking = rows.filter(
    ({ shown }) => listTests(path, shown).length === 0 && !/^no test: .{20,}/.test(shown),
  )
  assert.deepEqual(lacking, [])
})

test('every test that is named exists in the file it is linked to', () => {
  assert.deepEqual(missing(path, rows, maybeRead), [])
})

test('the check finds a test that was renamed, a file that was moved, and a name in which something varies', () => {
  const files: Record<string, string> = {
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the source of one
    'test/a.test.ts': "test('one thing', () => 0)\nit(`two ${n} things`, () => 0)\n// 'three things'",
  }
  const check = (shown: string) => missing(path, parseRows(`| H1 | ${shown} |`, []), (file) => files[file])
  assert.deepEqual(check('[one thing](../test/a.test.ts) · [two … things](../test/a.test.ts)'), [])
  assert.deepEqual(check('[one other](../test/a.test.ts)'), ["1: test/a.test.ts has no test 'one other'"])
  assert.deepEqual(check('[three things](../test/a.test.ts)'), [
    "1: test/a.test.ts has no test 'three things'",
  ])
  assert.deepEqual(check('[one thing](../test/b.test.ts)'), ['1: there is no test/b.test.ts'])
})

function numbered(letter: string): string[] {
  return rows.map(({ what }) => what).filter((what) => new RegExp(`^${letter}\\d+$`).test(what))
}

function range(letter: string, last: number): string[] {
  return Array.from({ length: last }, (_, i) => `${letter}${i + 1}`)
}

after(leakCheck)
