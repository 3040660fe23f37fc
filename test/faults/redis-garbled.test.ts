// Unexpected replies to scripts: a proxy that garbles them, a renamed command, a server that is not Redis. Each is an error
// with its cause, never a grant or a loss, and nothing ends the process.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { scriptHash } from '../../src/drivers/redis/pipeline.js'
import { acquire } from '../../src/drivers/redis/scripts/acquire.js'
import { together } from '../../src/drivers/redis/scripts/acquire-many.js'
import { readCell, watchCell, writeCell } from '../../src/drivers/redis/scripts/cells.js'
import { inspect } from '../../src/drivers/redis/scripts/inspect.js'
import { cancel, downgrade, force, release, renew } from '../../src/drivers/redis/scripts/verbs.js'
import { type Peer, type PeerOptions, peer, reachable } from '../drivers/redis/support/peer.js'
import { leakCheck } from '../support/leaks.js'
import { type RewritingProxy, startRewriting } from '../support/rewriting-proxy.js'
import { startRedis } from '../support/servers/redis.js'
import { until } from '../support/until.js'

const server = await startRedis()
after(() => server.stop())

const unhandled: unknown[] = []
const note = (reason: unknown) => void unhandled.push(reason)
process.on('unhandledRejection', note)
after(() => process.off('unhandledRejection', note))

/** On the wire, and as the error shows it. */
const replies: Readonly<Record<string, readonly [wire: string, shown: string]>> = {
  nil: ['$-1', 'null'],
  'an integer': [':7', '7'],
  OK: ['+OK', '"OK"'],
  'an empty list': ['*0', '[]'],
  'a longer list': [`*20${'\r\n$1\r\nx'.repeat(20)}`, '["x","x"'],
  'a list of lists': ['*3\r\n*0\r\n*0\r\n*-1', '[[],[],null]'],
  'a text of nothing': ['$0\r\n', '""'],
  'a token that is none': ['$7\r\nabc 0 1', '"abc 0 1"'],
}
const scripts = {
  acquire,
  together,
  readCell,
  watchCell,
  writeCell,
  inspect,
  cancel,
  downgrade,
  force,
  release,
  renew,
}
type Name = keyof typeof scripts

interface Scene extends Peer {
  readonly between: RewritingProxy
  readonly direct: Peer
  garble(script: Name, reply: string): void
}

async function scene(t: TestContext): Promise<Scene> {
  const between = await startRewriting(server.port)
  const through = peer(t, between.port, { ioredis: { protocol: 2 }, commandTimeout: 20_000 })
  const direct = peer(t, server.port)
  // After they have closed.
  t.after(() => between.stop())
  await through.locks.mutex('warm').run(() => undefined)
  return {
    ...through,
    between,
    direct,
    garble(name, reply) {
      const sha = scriptHash(scripts[name])
      between.rewrite(([command, script]) =>
        /^EVAL/.test(command ?? '') && script === sha ? reply : undefined,
      )
    },
  }
}

function garbled(script: string, shown: string) {
  return (error: Error & { code?: string }) => {
    assert.equal(error.code, 'BACKEND', String(error))
    assert.ok(error.message.includes(`EVALSHA (${script})`), error.message)
    assert.ok(error.message.includes(shown), `${error.message}, not ${shown}`)
    return true
  }
}

for (const [what, [wire, shown]] of Object.entries(replies)) {
  test(`${what} for a script is an error that names both, and neither a grant nor a loss`, async (t) => {
    const { locks, between, direct, garble } = await scene(t)
    const lock = (name: string) => locks.mutex(`${what}: ${name}`)
    const pass = () => between.rewrite(() => undefined)
    const free = async (name: string) => {
      const { holders, waiters } = await direct.locks.inspect(`${what}: ${name}`)
      return holders.length + waiters.length === 0
    }

    garble('acquire', wire)
    await assert.rejects(lock('acquire').acquire({ wait: 60_000 }), garbled('acquire', shown))
    await assert.rejects(lock('try').tryAcquire(), garbled('acquire', shown))
    await until(async () => (await free('acquire')) && (await free('try')))
    garble('together', wire)
    const pair = ['one', 'two'].map((name) => lock(name))
    await assert.rejects(locks.all(pair).tryAcquire(), garbled('together', shown))
    await until(async () => (await free('one')) && (await free('two')))
    pass()

    const lease = await lock('held').acquire()
    garble('renew', wire)
    await assert.rejects(lease.extend(), garbled('renew', shown))
    assert.equal(lease.state, 'held')
    garble('inspect', wire)
    await assert.rejects(locks.inspect('held'), garbled('inspect', shown))
    await assert.rejects(locks.list(), garbled('inspect', shown))
    pass()
    await lock('forced').acquire()
    garble('force', wire)
    if (what !== 'an integer')
      await assert.rejects(locks.forceRelease(`${what}: forced`), garbled('force', shown))
    pass()
    assert.deepEqual(unhandled, [])
  })
}

test('a release with such a reply is "unknown", never "lost", and the lock is free', async (t) => {
  const outcomes = Object.values(replies).map(async ([wire], i) => {
    const { locks, direct, garble } = await scene(t)
    const lease = await locks.mutex(`released ${i}`).acquire()
    garble('release', wire)
    const outcome = await lease.release()
    await direct.locks.mutex(`released ${i}`).run(() => undefined)
    return outcome
  })
  assert.deepEqual(new Set(await Promise.all(outcomes)), new Set(['unknown']))
  assert.deepEqual(unhandled, [])
})

test('the verbs of cells refuse such a reply, too', async (t) => {
  const { driver, garble } = await scene(t)
  const { cells } = driver
  assert.ok(cells)
  const { signal } = new AbortController()
  garble('readCell', ':7')
  await assert.rejects(cells.read('c', signal), garbled('readCell', '7'))
  garble('writeCell', '+OK')
  const change = { ifVersion: 0, value: 'x', ttl: 60_000, id: 'one' }
  await assert.rejects(cells.write('c', change, signal), garbled('writeCell', '"OK"'))
  garble('watchCell', '$-1')
  const { version = 0 } = (await cells.read('c', signal)) ?? {}
  await assert.rejects(cells.changed('c', version, signal), garbled('watchCell', 'null'))
})

test('a waiter that gets a nonsensical reply fails, and its queue entry is removed', async (t) => {
  const { locks, between, direct, garble } = await scene(t)
  const lease = await direct.locks.mutex('busy').acquire()
  const waiting = locks.mutex('busy').acquire({ wait: 60_000 })
  await reachable(server, 'busy', 1)
  garble('acquire', '+OK')
  // The waiter may learn of the release before the one who releases.
  const refused = assert.rejects(waiting, garbled('acquire', '"OK"'))
  await lease.release()
  await refused
  await until(async () => (await direct.locks.inspect('busy')).holders.length === 0)
  assert.ok(between.replaced > 0)
})

test('replies about the server itself must be valid, too', async (t) => {
  await using between = await startRewriting(server.port)
  const first = (command: string, reply: string) =>
    between.rewrite(([name, script]) =>
      (script?.includes(command) ?? false) || name === command ? reply : undefined,
    )
  const on = async (options: PeerOptions, work: (locks: Peer['locks']) => Promise<unknown>) => {
    const { locks, close } = peer(t, between.port, {
      ioredis: { protocol: 2, enableReadyCheck: false },
      ...options,
    })
    await work(locks).finally(close)
  }
  const tryOn = (options: PeerOptions) => on(options, (locks) => locks.mutex('met').tryAcquire())
  const error = (message: RegExp) => ({ code: 'BACKEND', message })
  for (const reply of ['$-1', ':1', '+OK', '*0', '*3\r\n:1\r\n:1\r\n+x']) {
    first('uptime_in_seconds', reply)
    await assert.rejects(tryOn({}), error(/reply to EVAL \(meet\) is garbled/), reply)
  }
  first('INFO', '+OK')
  await assert.rejects(
    tryOn({ eviction: 'refuse', quarantine: 'off' }),
    error(/reply to INFO is garbled: "OK"/),
  )
  for (const reply of ['$-1', '+OK', '*0']) {
    first('WAIT', reply)
    await assert.rejects(tryOn({ replicas: 1 }), error(/reply to WAIT is garbled/), reply)
  }
  first('SCAN', '+OK')
  const listed = on({}, (locks) => locks.list())
  await assert.rejects(listed, error(/reply to SCAN is garbled: "OK"/))
  assert.deepEqual(unhandled, [])
})

after(leakCheck)
