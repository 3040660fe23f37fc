import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { target } from '../../src/cli/connect.js'
import { parseZookeeperAddress } from '../../src/cli/connect-zookeeper.js'
import { CliError } from '../../src/cli/exit.js'
import { leakCheck } from '../support/leaks.js'

const refused: readonly [url: string, complaint: RegExp][] = [
  [
    'postgress://db',
    /^unknown scheme 'postgress:'; known are local:, redis:, .*mysql:; did you mean 'postgres:'\?$/,
  ],
  ['localhost:6379', /^unknown scheme 'localhost:'/],
  ['/run/locks', /^--on and HOLDFAST_URL take the URL of a store; known are local:/],
  ['memory:', /^memory: locks live inside one process, .*; use local:/],
  ['zookeeper:', /^'zookeeper:' names no host; write zookeeper:\/\/host:2181$/],
  [
    'zookeeper://h1/locks?speed=9',
    /has the unknown setting 'speed'; known are strategy, names, sessionTimeout, tickTime, acl, tls, ca, cert, key$/,
  ],
  ['zookeeper://h1?strategy=fast', / has strategy=fast; it is line or simple$/],
  ['local://server/share', /^local: takes a directory of this machine, .*got 'local:\/\/server\/share'/],
  ['constructor:x', /^unknown scheme 'constructor:'/],
]
for (const [url, complaint] of refused) {
  test(`--on ${url} is refused before any I/O`, () => {
    assert.throws(
      () => target(url),
      (error) => error instanceof CliError && error.exitCode === 64 && complaint.test(error.message),
    )
  })
}

test('no URL, and an empty one, are the embedded driver', () => {
  assert.equal(target(undefined).shown, 'local:')
  assert.equal(target('').shown, 'local:')
})

test('a URL of the embedded driver gives its factory', async () => {
  for (const url of ['local:', 'LOCAL:/tmp/x', 'local:///tmp/x', 'local:./x']) {
    const { driver } = await target(url).connect()
    assert.equal(typeof driver, 'function')
  }
})

test('a ZooKeeper URL names servers, chroot, login and options', () => {
  assert.deepEqual(
    parseZookeeperAddress('//me:s%3Aecret@h1,h2:2182/app/locks?names=kazoo&sessionTimeout=6000', ''),
    {
      servers: 'h1,h2:2182',
      chroot: '/app/locks',
      auth: { scheme: 'digest', credential: 'me:s:ecret' },
      names: 'kazoo',
      sessionTimeout: 6000,
    },
  )
  assert.deepEqual(parseZookeeperAddress('//h1/', ''), { servers: 'h1' })
})

test('a ZooKeeper URL with a path that cannot be is refused, without its password', async () => {
  await assert.rejects(
    target('zookeeper://me:s3cret@h1/a//b').connect(),
    (error) =>
      error instanceof CliError && /chroot must be/.test(error.message) && !/s3cret/.test(error.message),
  )
})

const shown: readonly [url: string, shown: string][] = [
  ['redis://me:s3cret@host:6379/0', 'redis://me:***@host:6379/0'],
  ['redis://:s3cret@host', 'redis://:***@host'],
  ['redis://host:6379', 'redis://host:6379'],
  ['redis://me:s3#cret@host', 'redis://me:***@host'],
  ['etcd://me:s3cret@h1,[::1]:5?prefix=a/', 'etcd://me:***@h1,[::1]:5?prefix=a/'],
  ['postgres://me:s3%3Fcret@h/d?tls=true&ca=/ca.pem', 'postgres://me:***@h/d?tls=true&ca=/ca.pem'],
]
for (const [url, text] of shown) {
  test(`${url} is shown as ${text}`, () => assert.equal(target(url).shown, text))
}

// Every place in which a password has landed by mistake.
const leaky: readonly string[] = [
  'radis://me:s3cret@host',
  'me:s3cret@host',
  's3cret',
  'redis://me:pa/s3cret@host',
  'redis://me:pa?s3cret@host',
  'redis://me:pa@s3cret@host',
  'redis://me:s3cret',
  'redis://host?password=s3cret',
  'redis://host?s3cret',
  'redis://me:%s3cret@host',
  'redlock://me:pw@h1,me:s3cret@h2,h3',
  'postgres://me:pa/s3cret@host/db',
  'postgres://me:pa#/s3cret@host/db',
  'postgres://me:%s3cret@host/db',
  'postgres://host/db?password=s3cret',
  'mysql://me:pa?s3cret@host/db',
  'mysql://me:%s3cret@host/db',
  'etcd://me:pa/s3cret@host',
  'etcd://me@h1,s3cret@h2',
  'zookeeper://me:pa/s3cret@host',
  'zookeeper://me:%s3cret@host',
  'consul://me:s3cret@host',
  'consul://host?token=s3cret',
  'consul://:pa/s3cret@host',
  'schema://me:s3cret@host',
]
for (const url of leaky) {
  test(`the complaint about ${url} does not repeat the password`, () => {
    assert.throws(
      () => target(url),
      (error) => error instanceof CliError && error.exitCode === 64 && !error.message.includes('s3cret'),
    )
  })
}

after(leakCheck)
