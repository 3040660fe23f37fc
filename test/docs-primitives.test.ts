// The table of what runs where is generated.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { abilities, currentPages, parseAbilities, toTable } from '../scripts/primitives-table.js'
import { columns, recorded } from '../scripts/promises-table.js'
import { leakCheck } from './support/leaks.js'

test('the table of the primitives, English and Chinese, is what the types of the drivers say', () => {
  for (const { page, is, shouldBe } of currentPages()) {
    assert.equal(is, shouldBe, `${page}: run 'npm run api:write'`)
  }
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
  const abilities = parseAbilities('demo', report)
  assert.deepEqual(
    abilities.map(({ driver, has }) => [driver, ...has]),
    [
      ['demo', 'exclusive'],
      ['demo (session)', 'exclusive', 'shared', 'cells'],
    ],
  )
  const table = toTable(abilities)
  assert.match(table, /^\| upgradeable \| no \(a\) \| yes \|$/m)
  assert.match(table, /^\| job \| in part \(b\) \| yes \|$/m)
  assert.match(table, /^\| barrier \| no \(c, a\) \| yes \|$/m)
  assert.match(table, /^\| export, adopt \| no \(c, d\) \| no \(d\) \|$/m)
  assert.match(table, /^- \*\*b\*\* The driver has no cells .*: a `job` keeps `minHold`/m)
  for (const mark of table.matchAll(/\((\w)(?:, (\w))?\)/g))
    for (const one of mark.slice(1).filter(Boolean)) assert.ok(table.includes(`- **${one}** `), one)
})

test('the types of a driver declare what it does', () => {
  const record = recorded()
  const shown = {
    fair: 'fair',
    shared: 'shared mode',
    permits: 'permits',
    cells: 'cells',
    portable: 'portable',
  }
  assert.deepEqual(
    abilities().map(({ driver }) => driver),
    columns.filter((name) => name !== 'redis (Cluster)'),
  )
  for (const { driver, has } of abilities()) {
    const ids = Object.values(record[driver] ?? {}).flatMap((is) => is.split(': ')[1]?.split(', ') ?? [])
    for (const [ability, id] of Object.entries({ ...shown, acquireMany: 'acquireMany' }))
      assert.equal(ids.includes(id), !has.has(ability), `${driver}: ${ability}`)
  }
})

after(leakCheck)
