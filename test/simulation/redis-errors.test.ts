// A command that the simulated Redis lacks ends a run as a failure: treated as a refusal, it would make schedules meaningless.
import '../support/background.js'
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { search } from '../../lab/simulation/search.js'
import { type Machine, SimulationError, startMachine } from '../../lab/simulation/stores/redis/machine.js'
import { redisStore } from '../../lab/simulation/stores/redis/store.js'
import { leakCheck } from '../support/leaks.js'

let machine: Machine
before(async () => {
  machine = await startMachine()
})
after(() => machine.close())

const run = (script: string) => machine.server().run('EVAL', script, ['key'], [], 1_700_000_000_000_000).reply

const beyond: Readonly<Record<string, string>> = {
  'a command that it does not have': "return redis.call('LOLWUT', KEYS[1])",
  'the same, where the script looks at errors itself': "redis.pcall('LOLWUT') return 1",
  'a function that it does not have': "return redis.sha1hex('text')",
  'the same, where the script catches errors': 'pcall(function() return cjson.encode({}) end) return 1',
  'an argument that a command does not understand': "return redis.call('HINCRBY', KEYS[1], 'field', 'text')",
  'what is no Lua': 'return return',
}

for (const [what, script] of Object.entries(beyond)) {
  test(`${what} is no answer of a server`, () => {
    assert.throws(() => run(script), SimulationError)
    // The Lua machine keeps running: its mistake is reported once.
    assert.equal(run('return 7'), 7)
  })
}

test('a refusal of a real server is a reply, and an unknown command is none', () => {
  const wrong = "redis.call('SET', KEYS[1], 'text') "
  const refused = (error: unknown) =>
    error instanceof Error && !(error instanceof SimulationError) && error.message.startsWith('WRONGTYPE')
  assert.throws(() => run(`${wrong}return redis.call('HGET', KEYS[1], 'field')`), refused)
  assert.throws(() => run(`${wrong}return redis.pcall('HGET', KEYS[1], 'field')`), refused)
  assert.equal(run(`${wrong}return redis.pcall('HGET', KEYS[1], 'field').err and 1`), 1)
  assert.equal(run("return redis.pcall('GET', KEYS[1])"), null)
})

test('a search over scripts with a call that is not supported fails, whatever it looks for', async () => {
  const broken = { is: 'asks for more', breaks: [], instead: [["call('TIME')", "call('LOLWUT')"]] } as const
  const kind = redisStore(machine, broken)
  await assert.rejects(
    search(kind, 50, 1, () => false),
    ({ message, cause }: Error) =>
      cause instanceof SimulationError && cause.message.includes('LOLWUT') && message.includes('"visits":'),
  )
})

after(leakCheck)
