// Schedules under virtual time over the Redis driver, with a server simulated below the level of commands.
import '../support/background.js'
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { search } from '../../lab/simulation/search.js'
import { type Machine, startMachine } from '../../lab/simulation/stores/redis/machine.js'
import { scriptMistakes } from '../../lab/simulation/stores/redis/mistakes.js'
import { redisStore } from '../../lab/simulation/stores/redis/store.js'
import { acquire } from '../../src/drivers/redis/scripts/acquire.js'
import { together } from '../../src/drivers/redis/scripts/acquire-many.js'
import { meet } from '../../src/drivers/redis/scripts/server-marker.js'
import { cancel, downgrade, force, further, release, renew } from '../../src/drivers/redis/scripts/verbs.js'
import { schedules } from '../support/amounts.js'
import { leakCheck } from '../support/leaks.js'
import { nothingFound } from './support/played.js'

const runs = schedules.first['simulation/redis']
let machine: Machine
before(async () => {
  machine = await startMachine()
})
after(() => machine.close())

test(`redis: ${runs.toLocaleString('en')} schedules break nothing`, () => nothingFound('redis', runs))

test('redis with `quarantine: detected`: a process that is new to a restarted server is what `strict` is for', async () => {
  const kind = redisStore(machine, undefined, false)
  const found = await search(kind, 4_000, 20, ({ violations }) =>
    violations.some(({ rule }) => rule === 'exclusion'),
  )
  assert.ok(found.plan?.faults.some((fault) => fault.kind === 'restart'))
})

test('every mistake is one in the scripts as they are', () => {
  const scripts = [acquire, release, renew, cancel, downgrade, force, further, together, meet]
  const texts = scripts.map(({ text }) => text)
  for (const { is, instead } of scriptMistakes)
    for (const [right] of instead)
      assert.ok(
        texts.some((text) => text.includes(right)),
        `${is}: ${right}`,
      )
})

for (const mistake of scriptMistakes) {
  test(`redis that ${mistake.is} is found out`, async () => {
    const found = await search(redisStore(machine, mistake), 4_000, 20, ({ violations }) =>
      violations.some(({ rule }) => mistake.breaks.includes(rule)),
    )
    assert.ok(found.plan, `not within ${found.runs} schedules`)
  })
}

after(leakCheck)
