// `holdfast demo`: the main job by real processes; its numbers are recounted here.
// Second tier because it counts what crowds of processes do; run.test.ts is the part for every change.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { expectedBalances, readInput } from '../../src/cli/demo/input.js'
import { sample } from '../../src/cli/demo/sample.js'
import { leakCheck } from '../support/leaks.js'
import { until } from '../support/until.js'
import { bench } from './support/cli.js'

const { folder, cli, left, close } = bench()
const svg = join(folder, 'demo.svg')

test('without the lock updates are lost, with it every number is exact', async () => {
  const { code, stdout, stderr } = await cli('demo', '--json', '--svg', svg)
  assert.equal(code, 0, stderr)
  const result = JSON.parse(stdout)
  assert.equal(result.ok, true)
  assert.equal(result.svg, svg)
  const { balances, expected, booked, duplicates, lost, missing, skipped, refused, holds, violations } =
    result.with
  assert.deepEqual(expected, { ann: 1000 - 999 + 12 * 100, bob: 250 - 200 + 4 * 50 })
  assert.deepEqual(balances, expected)
  assert.deepEqual(
    { booked, duplicates, lost, missing, skipped, refused },
    { booked: 18, duplicates: 0, lost: 0, missing: 0, skipped: 10, refused: 0 },
  )
  assert.equal(holds, 28)
  assert.deepEqual(violations, [])
  // Six processes that read, work and write at once cannot come out right but by a miracle.
  assert.equal(result.without.exact, false)
  assert.ok(result.without.lost > 0)
  assert.ok(result.without.violations.some(({ rule }: { rule: string }) => rule === 'exclusion'))
})

test('the picture is one SVG with both halves', () => {
  const text = readFileSync(svg, 'utf8')
  assert.equal(text.match(/<svg /g)?.length, 3)
  assert.match(text, /Without the lock[\s\S]*With the lock/)
  const ids = [...text.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id)
  assert.equal(new Set(ids).size, ids.length, 'ids are unique in the file')
})

test('people get a table, both timelines, and the way to the picture', async () => {
  const { code, stdout } = await cli('demo', '--workers', '3', '--svg', svg)
  assert.equal(code, 0)
  assert.match(stdout, /SHOULD BE +WITHOUT LOCK +WITH LOCK/)
  assert.match(stdout, /points of ann +1201 .* 1201\n/)
  assert.match(stdout, /worker 1 +│.*\nworker 2 +│.*\nworker 3 +│/)
  assert.match(stdout, /With the lock every balance is exact: 18 orders booked once each/)
  assert.ok(stdout.includes(`The picture: ${svg}`))
})

test('it takes orders of your own', async () => {
  const orders = join(folder, 'orders.json')
  const one = { order: 'a', account: 'me', points: -5 }
  writeFileSync(orders, JSON.stringify({ balances: { me: 5 }, orders: [one, one, one] }))
  const { code, stdout } = await cli('demo', '--json', '--orders', orders, '--svg', svg)
  assert.equal(code, 0)
  const { balances, booked, skipped } = JSON.parse(stdout).with
  assert.deepEqual([balances, booked, skipped], [{ me: 0 }, 1, 2])
})

const bad: readonly [what: unknown, complaint: RegExp][] = [
  [{ orders: [] }, /"balances" must give every account/],
  [{ balances: { a: 1 }, orders: [] }, /"orders" must be a list of at least one order/],
  [{ balances: { a: 1.5 }, orders: [{}] }, /"balances" must give every account its points as a whole number/],
  [
    { balances: { a: 1 }, orders: [{ order: 'x', account: 'b', points: 1 }] },
    /order 1 \("x"\) is for no account/,
  ],
  [{ balances: { a: 1 }, orders: [{ order: 'x', account: 'a' }] }, /order 1 \("x"\) needs "points"/],
  [{ balances: { a: 1 }, orders: [{ order: 'x', account: 'a', points: -2 }] }, /"a" redeems 2 of 1 points/],
  [
    {
      balances: { a: 1 },
      orders: [
        { order: 'x', account: 'a', points: 1 },
        { order: 'x', account: 'a', points: 2 },
      ],
    },
    /"x" comes with two different contents/,
  ],
]
for (const [i, [what, complaint]] of bad.entries()) {
  test(`orders are refused that ${complaint.source}`, () => {
    const path = join(folder, `bad-${i}.json`)
    writeFileSync(path, JSON.stringify(what))
    assert.throws(() => readInput(path), complaint)
  })
}

test('the sample is what the page says it is', () => {
  const input = sample
  assert.equal(input.orders.length, 28)
  assert.equal(input.balances.ann, 1000)
  assert.equal(input.orders.filter(({ points }) => points === -999).length, 3)
  assert.equal(expectedBalances(input).ann, 1201)
})

test('nothing is left running', async () => {
  await until(() => left().length === 0, { what: 'all processes in the folder to end' })
})

after(close)
after(leakCheck)
