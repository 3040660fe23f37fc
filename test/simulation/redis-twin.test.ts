// The simulated Redis against a real one: the driver's own scripts, the same commands in the same microseconds, the same
// answers, the same messages to the same channels, and the same data afterwards.
import '../support/background.js'
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import fc from 'fast-check'
import { Redis } from 'ioredis'
import { type Machine, startMachine } from '../../lab/simulation/stores/redis/machine.js'
import { sequences } from '../support/amounts.js'
import { leakCheck } from '../support/leaks.js'
import { startRedis } from '../support/servers/redis.js'
import { modes, Pair, type Step, type Verb } from './support/redis-pair.js'

const steps = fc.array(
  fc.record<Step>({
    what: fc.constantFrom<Step['what'][]>(
      ...([
        'acquire',
        'acquire',
        'acquire',
        'acquire',
        'release',
        'release',
        'renew',
        'renew',
        'cancel',
      ] as const),
      ...(['downgrade', 'force', 'further', 'inspect', 'cell', 'watch', 'mark', 'time', 'time'] as const),
    ),
    // Most of two, who come again to what they have; the others make the line longer.
    who: fc.oneof({ weight: 2, arbitrary: fc.nat(1) }, { weight: 1, arbitrary: fc.nat(5) }),
    mode: fc.nat(modes.length - 1),
    n: fc.integer({ min: 1, max: 900 }),
  }),
  { minLength: 8, maxLength: 40 },
)

let machine: Machine
before(async () => {
  machine = await startMachine()
})
after(() => machine.close())

test('every script does in the simulation what it does on a real server', async () => {
  await using server = await startRedis()
  const real = new Redis(server.port, { protocol: 3 })
  const heard: string[][] = []
  real.on('message', (channel, text) => heard.push([channel, text]))
  await real.subscribe('hf:c:1', 'hf:c:2')
  let lock = 0
  const carriedOut: Record<Verb, number> = {
    acquire: 0,
    release: 0,
    renew: 0,
    cancel: 0,
    downgrade: 0,
    force: 0,
  }
  try {
    const property = fc.asyncProperty(steps, fc.boolean(), async (sequence, marked) => {
      const twin = machine.server()
      twin.listeners('hf:c:1', 1)
      twin.listeners('hf:c:2', 1)
      const pair = new Pair(real, twin, heard, `lock ${++lock}`, marked, carriedOut)
      await real.flushall()
      for (const step of sequence) await pair.step(step)
      await pair.compareData()
      twin.end()
    })
    const { each } = sequences['simulation/redis-twin']
    await fc.assert(property, { numRuns: each, seed: 20 })
    assert.ok(lock >= each)
    // Two that refuse everything agree as well.
    for (const [verb, count] of Object.entries(carriedOut))
      assert.ok(count >= each / 20, `${verb} was carried out ${count} times`)
  } finally {
    real.disconnect()
  }
})

after(leakCheck)
