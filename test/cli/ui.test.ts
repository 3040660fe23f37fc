// `holdfast ui` as a process: what it prints, whom it answers, and how it ends.
// Second tier because it starts servers of pages; ui/requests.test.ts is the part for every change.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Init, Tick } from '../../src/ui/wire.js'
import { leakCheck } from '../support/leaks.js'
import { until } from '../support/until.js'
import { send, stream } from '../ui/support.js'
import { bench, kill, type Running } from './support/cli.js'

const { cli, start, left, close, url } = bench()
let held: Running

before(async () => {
  held = start('run', 'account:42', '--note', 'nightly', '--', 'sleep', '600')
  await until(async () => (await cli('inspect', 'account:42', '--json')).stdout.includes('nightly'))
})

async function printed(run: Running): Promise<URL> {
  return new URL(await until(() => /^http:\S+$/m.exec(run.stdout())?.[0]))
}

async function ended(run: Running): Promise<void> {
  kill(run.pid, 'SIGTERM')
  const { code } = await run.ended
  assert.equal(code, 0)
}

test('it prints its address, shows the lock and what doctor says, and ends with a signal', async () => {
  const run = start('ui', '--port', '0')
  const { origin, search } = await printed(run)
  assert.equal(search, '')
  assert.match(origin, /^http:\/\/127\.0\.0\.1:\d+$/)
  {
    await using events = await stream(`${origin}/events`)
    const { stores } = await events.next<Init>('init')
    assert.deepEqual(
      stores.map(({ id, about, canRelease }) => [id, about, canRelease]),
      [['local', url, false]],
    )
    const { changed } = await events.next<Tick>('tick', (tick) => tick.changed.length > 0)
    assert.equal(changed[0]?.holders[0]?.note, 'nightly')
    const { doctor = [] } = await events.next<Tick>('tick', (tick) => tick.doctor !== undefined)
    assert.ok(doctor.length > 0)
  }
  assert.equal((await send(`${origin}/`, { headers: { host: 'evil.example' } })).status, 403)
  await ended(run)
})

test('two stores stand side by side', async () => {
  const run = start('ui', '--port', '0', '--on', url, '--on', 'redis://127.0.0.1:1')
  const { origin } = await printed(run)
  {
    await using events = await stream(`${origin}/events`)
    const { stores } = await events.next<Init>('init')
    assert.deepEqual(
      stores.map(({ id }) => id),
      ['1-local', '2-redis'],
    )
    // A store that is away says so, and keeps nobody from seeing the other.
    const { health } = await events.next<Tick>('tick', (tick) => tick.health.state === 'trouble')
    assert.match(
      health.trouble ?? '',
      /redis:\/\/127\.0\.0\.1:1.*ECONNREFUSED|ECONNREFUSED.*redis:\/\/127\.0\.0\.1:1/,
    )
    await events.next<Tick>('tick', (tick) => tick.id === '1-local' && tick.health.state === 'ok')
  }
  await ended(run)
})

for (const [why, options] of [
  ['to release', ['--allow-release']],
  ['from other machines', ['--listen', '0.0.0.0']],
] as const)
  test(`it asks for a token ${why}, which is in the address`, async () => {
    const run = start('ui', '--port', '0', ...options)
    const address = await printed(run)
    const at = `http://127.0.0.1:${address.port}`
    assert.equal((await send(`${at}/`)).status, 401)
    assert.equal((await send(`${at}/${address.search}`)).status, 303)
    await ended(run)
  })

test('a port in use and an invalid port are distinguished', async () => {
  const run = start('ui', '--port', '0')
  const { port } = await printed(run)
  const second = await cli('ui', '--port', port)
  assert.deepEqual([second.code, second.stdout], [1, ''])
  assert.match(second.stderr, new RegExp(`cannot listen on 127\\.0\\.0\\.1 port ${port}: it is in use`))
  const third = await cli('ui', '--port', '70700')
  assert.equal(third.code, 64)
  assert.match(third.stderr, /--port must be between 0 and 65535, got '70700'/)
  await ended(run)
})

test('nothing is left behind', async () => {
  kill(held.pid, 'SIGTERM')
  await held.ended
  await until(() => left().length === 0)
})

after(close)
after(leakCheck)
