// With --json, a failed command prints the reason as an object in the stream of its other JSON, and nothing else.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { startRedis } from '../support/servers/redis.js'
import { bench } from './support/cli.js'

const { cli, close } = bench()
after(close)

const nowhere = ['--on', 'redis://127.0.0.1:1']

async function failure(...args: string[]): Promise<Record<string, unknown>> {
  const { code, stdout, stderr } = await cli(...args)
  const [own, other] = ['run', 'hold'].includes(args[0] ?? '') ? [stderr, stdout] : [stdout, stderr]
  assert.equal(other, '')
  const lines = own.trimEnd().split('\n')
  assert.equal(lines.length, 1, own)
  const { event, error } = JSON.parse(own)
  assert.equal(event, 'failed')
  assert.equal(error.exitCode, code)
  return error
}

test('a nonsensical command line', async () => {
  const bad = async (message: RegExp, ...args: string[]) => {
    const { code, exitCode, message: said } = await failure(...args)
    assert.deepEqual([code, exitCode], ['BAD_INPUT', 64])
    assert.match(String(said), message)
  }
  await bad(
    /^unknown option '--wat'\n\(Did you mean --wait\?\)$/,
    'run',
    '--json',
    '--wat',
    'x',
    '--',
    'true',
  )
  await bad(/goes after --, as in/, 'run', 'x', '--json')
  await bad(/--ttl must be a duration/, 'run', 'x', '--ttl', 'soon', '--json', '--', 'true')
  await bad(/--for must be the id/, 'hold', 'x', '--for', 'me', '--json')
  await bad(/^missing required argument 'name'$/, 'inspect', '--json')
  await bad(/unknown scheme 'foo:'/, 'ls', '--json', '--on', 'foo://x')
  await bad(/it needs --yes/, 'release', '--json', 'x')
  await bad(/needs --once/, 'top', '--json')
  await bad(/^unknown command 'nosuch'$/, 'nosuch', '--json')
})

test('a store that refuses connections: with reason and address', async () => {
  const commands = [
    ['run', 'x', '--no-wait', '--json', ...nowhere, '--', 'true'],
    ['ls', '--json', ...nowhere],
    ['inspect', 'x', '--json', ...nowhere],
    ['release', 'x', '--yes', '--json', ...nowhere],
    ['top', '--once', '--json', ...nowhere],
    ['doctor', '--json', ...nowhere],
    ['verify', '--json', ...nowhere],
  ]
  for (const args of commands) {
    const { message, ...facts } = await failure(...args)
    const known = { code: 'UNAVAILABLE', exitCode: 69, reason: 'ECONNREFUSED', address: '127.0.0.1:1' }
    assert.deepEqual(facts, known, args[0])
    assert.match(String(message), /cannot be reached/)
  }
})

test('a wrong password', async () => {
  await using server = await startRedis({ args: ['--requirepass', 'right'] })
  const on = ['--on', `redis://:wrong@127.0.0.1:${server.port}`]
  for (const args of [
    ['run', 'x', '--no-wait', '--json', ...on, '--', 'true'],
    ['ls', '--json', ...on],
  ]) {
    const { code, exitCode, message } = await failure(...args)
    assert.deepEqual([code, exitCode], ['BACKEND', 69], args[0])
    assert.match(String(message), /the login was refused: .*WRONGPASS/)
  }
})

test('a command that is not there, or cannot be executed; a lock that nobody holds by that token', async () => {
  assert.equal((await failure('run', 'x', '--json', '--', 'no-such-command'))['code'], 'NOT_FOUND')
  assert.equal((await failure('run', 'x', '--json', '--', '/'))['code'], 'NOT_EXECUTABLE')
  assert.equal((await failure('release', 'x', '--token', '7', '--json'))['code'], 'FAILED')
})

test('without --json an error is for people, on stderr', async () => {
  const { stdout, stderr } = await cli('ls', ...nowhere)
  assert.equal(stdout, '')
  assert.match(stderr, /^holdfast: the store cannot be reached/)
  const own = await cli('run', 'x', '--', 'echo', '--json')
  assert.deepEqual([own.code, own.stdout, own.stderr], [0, '--json\n', ''])
})

after(leakCheck)
