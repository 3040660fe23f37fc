// The page about security has a test for every claim, or says why not, and every test that it names exists.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { read } from './support/checkout.js'
import { leakCheck } from './support/leaks.js'
import { listTests, maybeRead, missing, parseRows } from './support/named-tests.js'

const path = 'docs/security.md'
const rows = parseRows(read(path), ['claim |'])

test('every claim has a test, or says why not', () => {
  assert.ok(rows.length > 30, `only ${rows.length} claims`)
  const lacking = rows.filter(
    ({ shown }) => listTests(path, shown).length === 0 && !/^no test: .{20,}/.test(shown),
  )
  assert.deepEqual(lacking, [])
})

test('every test that is named exists in the file it is linked to', () => {
  assert.deepEqual(missing(path, rows, maybeRead), [])
})

test('every kind of attacker has a section', () => {
  const sections = [...read(path).matchAll(/^## (.*)$/gm)].map(([, title = '']) => title)
  for (const who of [
    'What is data',
    'What is trusted',
    'A hostile HTTP client',
    'Another user of the machine',
    "A holder of the store's account who may only read",
    "A holder of the store's account who may write",
    'Somebody between the client and the store',
  ])
    assert.ok(sections.includes(who), who)
  assert.match(read('SECURITY.md'), /docs\/security\.md/)
})

after(leakCheck)
