// Redis URLs: parsed, and used against real servers with both client libraries.
// Second tier because it runs over every topology with both clients; smoke.test.ts is the part for every change.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { createLocks } from 'holdfast'
import { connectRedis } from '../../src/cli/connect-redis.js'
import { CliError } from '../../src/cli/exit.js'
import { parseRedisAddress } from '../../src/cli/redis-place.js'
import { leakCheck } from '../support/leaks.js'
import { type RedisServer, startMany, startRedis } from '../support/servers/redis.js'
import { startSentinel } from '../support/servers/redis-sentinel.js'
import { until } from '../support/until.js'
import { bench, kill } from './support/cli.js'

const place = (url: string) => {
  const [scheme = '', ...rest] = url.split(':')
  return parseRedisAddress(scheme, rest.join(':'), url)
}

test('a URL says host, port, database, login and settings', () => {
  assert.deepEqual(
    place('rediss://me:p%40ss:word@db.example:6380/3?prefix=app:&replicas=2&quarantine=strict&maxTtl=60000'),
    {
      is: 'single',
      hosts: [{ host: 'db.example', port: 6380 }],
      tls: {},
      login: { username: 'me', password: 'p@ss:word' },
      database: 3,
      master: '',
      options: { prefix: 'app:', replicas: 2, quarantine: 'strict', maxTtl: 60_000 },
    },
  )
  assert.deepEqual(place('redis://[::1]').hosts, [{ host: '::1', port: 6379 }])
  assert.deepEqual(place('redis://:secret@h').login, { password: 'secret' })
})

test('Sentinels and Clusters have several hosts', () => {
  const { hosts, master } = place('redis+sentinel://a,b:5000/mymaster')
  assert.deepEqual(hosts, [
    { host: 'a', port: 26_379 },
    { host: 'b', port: 5000 },
  ])
  assert.equal(master, 'mymaster')
  assert.equal(place('redis+cluster://a:1,b:2,c:3').hosts.length, 3)
})

const bad: readonly [url: string, complaint: RegExp][] = [
  ['redis:', /names no host; write redis:\/\/host:6379/],
  ['redis:host', /names no host/],
  ['redis://a,b', /has several hosts; use redis\+sentinel:/],
  ['redis://h:port', /has a host that cannot be read; write host, host:port/],
  ['redis://h:99999', /has a port that is not from 1 to 65535; write host, host:port/],
  ['redis://h/name', /has the database 'name' after the host; it must be a whole number, as in redis:/],
  ['redis://h/-1', /has the database '-1' after the host; it must be a whole number/],
  ['redis://h/1.5', /has the database '1.5' after the host; it must be a whole number/],
  ['redis://h/1/2', /has the database '1\/2' after the host; it must be a whole number/],
  ['redis://h?db=1', /has the unknown setting 'db'; known are prefix/],
  ['redis+cluster://a,b/3', /has the database 3, but a Cluster has only 0; leave out \/3$/],
  ['redis+sentinel://h', /needs the name of the master/],
  ['redlock://a,b', /needs at least 3 servers, each once/],
  ['redlock://a,b,a', /needs at least 3 servers, each once/],
  ['redlock://a,b,c?replicas=1', /unknown setting 'replicas'; known are prefix/],
  ['redis://h?ttl=5', /unknown setting 'ttl'; known are prefix, replicas, quarantine, maxTtl/],
  ['redis://h?replicas=-1', /has replicas=-1; it is a whole number from 0 to 99$/],
]
for (const [url, complaint] of bad) {
  test(`${url} is refused`, () => {
    assert.throws(
      () => place(url),
      (error) => error instanceof CliError && error.exitCode === 64 && complaint.test(error.message),
    )
  })
}

let server: RedisServer
before(async () => {
  server = await startRedis()
})

for (const library of ['ioredis', 'redis'] as const) {
  test(`${library} acquires and releases a lock, and is closed`, async () => {
    const { driver, close } = await connectRedis(place(server.url), library)
    const locks = createLocks(driver)
    const lease = await locks.mutex('cli').acquire({ wait: 5000 })
    assert.equal((await locks.inspect('cli')).holders.length, 1)
    assert.equal(await lease.release(), 'released')
    await locks.close()
    await close()
  })

  test(`${library} finds the master by Sentinels`, async () => {
    await using setup = await startSentinel()
    const { driver, close } = await connectRedis(place(setup.url), library)
    const locks = createLocks(driver)
    const lease = await locks.mutex('cli').acquire({ wait: 10_000 })
    assert.equal(await lease.release(), 'released')
    await locks.close()
    await close()
  })
}

test('redlock holds a lock on three servers', async () => {
  await using group = await startMany(3)
  const hosts = group.servers.map(({ host, port }) => `${host}:${port}`).join(',')
  const { driver, close } = await connectRedis(place(`redlock://${hosts}?prefix=cli:`))
  const locks = createLocks(driver)
  const lease = await locks.mutex('cli').acquire({ wait: 10_000 })
  assert.equal(await locks.mutex('cli').tryAcquire(), undefined)
  assert.equal(await lease.release(), 'released')
  await locks.close()
  await close()
})

test('a database that the server does not have is refused by every command, and database 0 is left alone', async () => {
  const { cli, close } = bench(`${server.url}/16`)
  const { driver, close: disconnect } = await connectRedis(place(server.url))
  const locks = createLocks(driver)
  const lease = await locks.mutex('numbered').acquire()
  try {
    const ended = await Promise.all([
      cli('run', 'free', '--no-wait', '--', 'echo', 'hello'),
      cli('run', 'numbered', '--wait', '5s', '--', 'echo', 'hello'),
      cli('ls'),
      cli('inspect', 'numbered'),
      cli('release', 'numbered', '--yes'),
    ])
    for (const { code, stdout, stderr } of ended) {
      assert.deepEqual([code, stdout], [69, ''], stderr)
      assert.match(
        stderr,
        /^holdfast: redis: the server refused database 16 \(ERR DB index is out of range\): choose another one .* at the end of its URL; .*\(redis:\/\/[\d.:]+\/16.*\)\n$/,
      )
    }
    const doctor = await cli('doctor')
    assert.deepEqual([doctor.code, doctor.stderr], [1, ''])
    assert.match(
      doctor.stdout,
      /database: the server refused database 16 \(ERR .*\n.*no lock can be taken(.|\n)*0 to 15/,
    )
    assert.equal(await lease.release(), 'released')
    const last = `${server.url}/15?quarantine=off`
    assert.equal((await cli('run', 'free', '--on', last, '--', 'true')).code, 0)
    assert.equal((await cli('doctor', '--on', last)).stdout.includes('database'), false)
  } finally {
    await locks.close()
    await disconnect()
    close()
  }
})

test('two runs on one Redis exclude each other, and a killed one blocks no longer than its ttl', async () => {
  const { folder, cli, start, left, close } = bench(server.url)
  try {
    const holder = start('run', 'r', '--ttl', '6s', '--', 'sleep', '60')
    await until(async () => (await cli('inspect', 'r', '--json')).stdout.includes('attempt'), {
      within: 30_000,
      what: 'the first run to hold the lock',
    })
    const refused = await cli('run', 'r', '--no-wait', '--', 'true')
    assert.equal(refused.code, 75)
    assert.match(refused.stderr, /"r" is not free; held for .+ by .+:\d+; the command was not started/)
    kill(holder.pid, 'SIGKILL')
    assert.equal((await cli('run', 'r', '--', 'touch', join(folder, 'done'))).code, 0)
    await until(() => left().length === 0)
  } finally {
    close()
  }
})

for (const scheme of ['redis', 'redlock']) {
  test(`a --ttl over maxTtl names the setting of a ${scheme}: URL that allows it`, async () => {
    await using group = await startMany(scheme === 'redis' ? 1 : 3)
    const url = `${scheme}://${group.servers.map(({ host, port }) => `${host}:${port}`).join(',')}`
    const { cli, close } = bench(url)
    try {
      const args = ['run', 'x', '--ttl', '10m', '--wait', '20s', '--on']
      const refused = await cli(...args, url, '--', 'echo', 'ran')
      assert.deepEqual([refused.code, refused.stdout], [64, ''])
      assert.match(
        refused.stderr,
        /^holdfast: --ttl 10m is longer than maxTtl, (30s|1m); use a shorter one, or set \?maxTtl=600000 in the URL, and as much in every program that uses these locks; the command was not started\n$/,
      )
      const accepted = await cli(...args, `${url}?maxTtl=600000`, '--', 'echo', 'ran')
      assert.deepEqual([accepted.code, accepted.stdout], [0, 'ran\n'], accepted.stderr)
      const longest = await cli('run', 'x', '--ttl', '300d', '--no-wait', '--', 'true')
      assert.equal(longest.code, 64)
      assert.match(
        longest.stderr,
        /^holdfast: --ttl 300d is longer than maxTtl, \S+; use a shorter one; the command was not started\n$/,
      )
    } finally {
      close()
    }
  })
}

test('an unreachable server is an error that names it, not an endless wait', async () => {
  const { cli, close } = bench('redis://:s3cret@127.0.0.1:1')
  try {
    const { code, stderr } = await cli('ls')
    assert.equal(code, 69)
    assert.match(
      stderr,
      /^holdfast: the store cannot be reached: 127\.0\.0\.1:1 ECONNREFUSED \(redis:\/\/:\*\*\*@127\.0\.0\.1:1\)\n$/,
    )
    const run = await cli('run', 'x', '--wait', '1s', '--', 'true')
    assert.equal(run.code, 69)
    assert.doesNotMatch(stderr, /s3cret/)
  } finally {
    close()
  }
})

after(() => server.stop())
after(leakCheck)
