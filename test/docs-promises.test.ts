// The table driver × promise is generated from the drivers' recorded results, and the page matches the record. That the record is what a driver
// answers is asked by the test of that driver.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { reasons } from '../scripts/promises-reasons.js'
import { columns, currentPage, recorded, toPage } from '../scripts/promises-table.js'
import { promises } from '../src/conformance/scenario/column.js'
import { differences } from '../src/conformance/scenario/differences.js'
import { read } from './support/checkout.js'
import { leakCheck } from './support/leaks.js'

const remedy = 'run node build/scripts/promises-table.js --write'

test('docs/promises.md is what the record says', () => {
  const { is, shouldBe } = currentPage()
  assert.equal(is, shouldBe, remedy)
})

test('the Chinese table says the same in every cell', () => {
  const cells = (page: string): string[][] =>
    read(page)
      .split('\n')
      .filter((line) => line.startsWith('| '))
      .map((line) => line.slice(2, -2).split(' | ').slice(1))
  const translated = cells('docs/promises.md').map((row) =>
    row.map((cell) =>
      cell
        .replace(/^yes$/, '是')
        .replace(/^in part /, '部分 ')
        .replace(/^no /, '否 '),
    ),
  )
  assert.ok(translated.length > 20)
  assert.deepEqual(cells('docs/zh/promises.md'), translated)
})

test('the record has every driver and every promise, and nothing else', () => {
  const record = recorded()
  assert.deepEqual(Object.keys(record), [...columns])
  for (const name of columns) assert.deepEqual(Object.keys(record[name] ?? {}), [...promises], name)
})

test('every cell that is not yes has its reason below the table', () => {
  const { is } = currentPage()
  const cells = is.split('\n').flatMap((line) => (line.startsWith('| ') ? line.split(' | ').slice(1) : []))
  const marks = cells.flatMap((cell) => /^(?:no|in part) \((.+?)\)/.exec(cell)?.[1]?.split(', ') ?? [])
  assert.ok(marks.length > 0)
  assert.equal(
    cells.filter((cell) => /^(?:no|in part)\b/.test(cell) && !/\(\w+(?:, \w+)*\)/.test(cell)).length,
    0,
  )
  for (const mark of marks) assert.match(is, new RegExp(`^- \\*\\*${mark}\\*\\* \\S`, 'm'))
})

test('a page or a record that says something else is seen', () => {
  const { is } = currentPage()
  const record = recorded()
  const redis = { ...record['redis'], 'a semaphore counts by weight': 'no: permits' }
  assert.notEqual(toPage(is, { ...record, redis }), is)
  assert.equal(toPage(is.replace('| yes |', '| no |'), record), is)
  const broken = { ...record['redis'], 'a semaphore counts by weight': 'broken' }
  assert.throws(() => toPage(is, { ...record, redis: broken }), /redis: 'a semaphore .*' cannot be 'broken'/)
  const wrong = { ...record['redis'], 'a semaphore counts by weight': 'no: cells' }
  assert.throws(() => toPage(is, { ...record, redis: wrong }), /no reason 'cells' for 'a semaphore/)
  const { redis: _, ...without } = record
  assert.throws(() => toPage(is, without), /has no column 'redis'; run its tests/)
})

test('remarks on single drivers refer to existing columns and differences that they have', () => {
  const record = recorded()
  const ids = new Set(differences.map(({ id }) => id))
  for (const [id, own] of Object.entries(reasons)) {
    assert.ok(ids.has(id), id)
    for (const name of Object.keys(own)) {
      const has = Object.values(record[name] ?? {}).flatMap((is) => is.split(': ')[1]?.split(', ') ?? [])
      assert.ok(has.includes(id), `${name} has no '${id}'`)
    }
  }
})

test('every difference is of a promise and of answers that the scenario has', () => {
  const { is } = currentPage()
  for (const { promise, answers } of differences) {
    assert.ok(promises.includes(promise), promise)
    for (const what of Object.keys(answers)) assert.ok(is.includes(`\n${what} → `), what)
  }
})

after(leakCheck)
