// The table of what runs where is made, not written.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { abilitiesIn, currentPage, tableOf } from '../scripts/primitives-table.js'
import { leakCheck } from './support/leaks.js'

test('the table in docs/primitives.md is what the types of the drivers say', () => {
  const { is, shouldBe } = currentPage()
  assert.equal(is, shouldBe, "run 'npm run api:write'")
})

test('a driver that can do little is shown so', () => {
  const report = `export interface DemoTraits extends Traits {
    readonly fair: false;
    readonly modes: readonly ['exclusive'];
    readonly shared: true;
}
export interface DemoSessionTraits extends Traits {
    readonly cells: true;
    readonly modes: readonly ['exclusive', 'shared'];
}`
  const abilities = abilitiesIn('demo', report)
  assert.deepEqual(
    abilities.map(({ driver, has }) => [driver, ...has]),
    [
      ['demo', 'exclusive'],
      ['demo (session)', 'exclusive', 'shared', 'cells'],
    ],
  )
  const table = tableOf(abilities)
  assert.match(table, /^\| mutex, all \| yes \| yes \|$/m)
  assert.match(table, /^\| job \| in part \| yes \|$/m)
  assert.match(table, /^\| barrier \| – \| yes \|$/m)
  assert.match(table, /^\| export, adopt \| – \| – \|$/m)
})

after(leakCheck)
