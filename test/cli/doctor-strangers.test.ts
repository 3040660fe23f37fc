// Commands, `holdfast doctor` first, where the server is not what the URL says: a Sentinel, TLS or none, a frozen server.
// Second tier because it starts what only answers wrongly, and waits for it.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { startConsul } from '../support/servers/consul.js'
import { startEtcd } from '../support/servers/etcd.js'
import { startMysql } from '../support/servers/mysql.js'
import { checkout } from '../support/servers/places.js'
import { freePort } from '../support/servers/ports.js'
import { startPostgres } from '../support/servers/postgres.js'
import { startRedis } from '../support/servers/redis.js'
import { startSentinel } from '../support/servers/redis-sentinel.js'
import { startZookeeper } from '../support/servers/zookeeper.js'
import { type Bench, bench } from './support/cli.js'

let b: Bench
before(() => {
  b = bench()
})
after(() => b.close())

const doctor = (url: string, ...more: string[]) => b.cli('doctor', '--on', url, ...more)

it('doctor knows a Sentinel from the server that it watches', async () => {
  await using setup = await startSentinel({ replicas: 0 })
  const [sentinel] = setup.sentinels
  const { code, stderr } = await doctor(`redis://127.0.0.1:${sentinel?.port}`)
  assert.equal(code, 69)
  assert.match(stderr, /is a Redis Sentinel: write redis\+sentinel:\/\//)
  const other = await doctor(setup.url.replace(setup.name, 'another'))
  assert.equal(other.code, 69)
  assert.match(other.stderr, /No such master with that name/)
})

describe('doctor and TLS', () => {
  it('names what the URL lacks, and what is superfluous in it', async () => {
    const file = (name: string) => join(checkout, 'test/support/tls', name)
    const [cert, key] = [file('cert.pem'), file('key.pem')]
    const port = await freePort()
    const files = ['--tls-cert-file', cert, '--tls-key-file', key, '--tls-ca-cert-file', cert]
    await using server = await startRedis({
      persistence: 'aof-always',
      args: ['--tls-port', `${port}`, ...files, '--tls-auth-clients', 'no'],
    })
    const plain = await doctor(`redis://127.0.0.1:${port}`)
    assert.equal(plain.code, 69)
    assert.match(plain.stderr, /speaks TLS: add \?tls=true/)
    const sound = await doctor(`redis://127.0.0.1:${port}?ca=${cert}`, '--strict')
    assert.equal(sound.code, 0, sound.stderr)
    assert.match(sound.stdout, /^ok +encryption: TLS$/m)
    const untrusted = await doctor(`redis://127.0.0.1:${port}?tls=true`)
    assert.equal(untrusted.code, 69)
    assert.match(untrusted.stderr, /self-signed certificate/)
    const secure = await doctor(`redis://127.0.0.1:${server.port}?ca=${cert}`)
    assert.equal(secure.code, 69)
    assert.match(secure.stderr, /answers without TLS: leave out \?tls=true, and ca, cert and key/)
    const rediss = await doctor(`rediss://127.0.0.1:${server.port}`)
    assert.equal(rediss.code, 69)
    assert.match(rediss.stderr, /answers without TLS: write redis:\/\/ instead of rediss:\/\//)
  })
})

describe('a URL with TLS where the server speaks none', () => {
  for (const [scheme, start] of Object.entries({
    etcd: startEtcd,
    consul: startConsul,
    zookeeper: startZookeeper,
    postgres: startPostgres,
    mysql: startMysql,
  }))
    it(`${scheme}: every command says what to leave out`, async () => {
      const server = await start()
      const at = { postgres: 'postgres@127.0.0.1', mysql: 'root@localhost' }[scheme] ?? '127.0.0.1'
      const path = { postgres: '/postgres', mysql: '/holdfast' }[scheme] ?? ''
      const on = ['--on', `${scheme}://${at}:${server.port}${path}?tls=true`]
      try {
        const ended = await Promise.all([
          b.cli('doctor', ...on),
          b.cli('ls', ...on),
          b.cli('run', 'x', '--no-wait', ...on, '--', 'echo', 'hello'),
          b.cli('run', 'x', '--wait', '3s', '-q', ...on, '--', 'echo', 'hello'),
        ])
        for (const { code, stdout, stderr } of ended) {
          assert.deepEqual([code, stdout], [69, ''], stderr)
          assert.match(
            stderr,
            /^holdfast: (?:127\.0\.0\.1|localhost):\d+ answers without TLS: leave out \?tls=true, and ca, cert and key \(.+\)\n$/,
          )
        }
      } finally {
        await server.stop()
      }
    })
})

describe('doctor comes to an end', () => {
  it('also where a server stands still', async () => {
    await using redis = await startRedis()
    await using postgres = await startPostgres()
    redis.pause()
    postgres.pause()
    for (const { url } of [redis, postgres]) {
      const { code, stderr } = await doctor(url)
      assert.equal(code, 69)
      assert.match(stderr, /timed? ?out|timeout|no answer/i)
    }
    redis.resume()
    postgres.resume()
  })
})

after(leakCheck)
