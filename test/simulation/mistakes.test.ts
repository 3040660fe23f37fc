// A simulation that cannot fail shows nothing: each broken store is caught, by a small plan.
// Second tier because it tests the simulation itself; verify/injected.test.ts shows for every change that the checkers see.
import '../support/background.js'
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { play } from '../../lab/simulation/play.js'
import { search } from '../../lab/simulation/search.js'
import { mintingMistakes, mistakes } from '../../lab/simulation/stores/mistakes.js'
import { mintingStore, tableStore } from '../../lab/simulation/stores/table.js'
import { leakCheck } from '../support/leaks.js'

const broken = [
  ...mistakes.map((mistake) => [tableStore(mistake), mistake().breaks] as const),
  ...mintingMistakes.map((mistake) => [mintingStore(mistake), mistake().breaks] as const),
]
for (const [kind, breaks] of broken) {
  test(`a ${kind.name} is found out`, async () => {
    const broken = (rules: readonly string[]) => rules.some((rule) => breaks.includes(rule))
    const found = await search(kind, 8_000, 20, ({ violations }) =>
      broken(violations.map(({ rule }) => rule)),
    )
    assert.ok(found.plan, `not within ${found.runs} schedules`)
    assert.ok(found.plan.visits.length + found.plan.faults.length <= 8, 'what is not needed was left out')
    const again = await play(found.plan, kind)
    assert.ok(broken(again.violations.map(({ rule }) => rule)), 'a plan always plays the same')
  })
}

test('the same seed always finds the same plan, whatever else is played at the same time', async () => {
  const kind = tableStore(mistakes[1])
  const look = () => search(kind, 8_000, 21)
  const alone = await look()
  const [one, other] = await Promise.all([look(), look(), search(tableStore(), 200, 22)])
  assert.ok(alone.plan)
  assert.deepEqual([one, other], [alone, alone])
})

test('the same plan always makes the same history', async () => {
  const kind = tableStore(mistakes[0])
  const { plan } = await search(kind, 8_000, 20)
  assert.ok(plan)
  const told = async () => {
    const { history } = await play(plan, kind)
    return history.events.map(({ t, client, op, phase, token }) => [t, client, op, phase, token])
  }
  assert.deepEqual(await told(), await told())
})

after(leakCheck)
