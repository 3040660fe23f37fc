import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { target, withoutPassword } from '../../src/cli/connect.js'
import { zookeeperPlace } from '../../src/cli/connect-zookeeper.js'
import { CliError } from '../../src/cli/exit.js'
import { leakCheck } from '../support/leaks.js'

const refused: readonly [url: string, complaint: RegExp][] = [
  ['postgress://db', /^unknown scheme 'postgress:' in 'postgress:\/\/db'; known are local:, .*mysql:$/],
  ['localhost:6379', /^unknown scheme 'localhost:'/],
  ['/run/locks', /^'\/run\/locks' is no URL of a store; known are local:/],
  ['memory:', /^memory: locks live inside one process, .*; use local:/],
  ['zookeeper:', /^'zookeeper:' names no host; write zookeeper:\/\/host:2181$/],
  [
    'zookeeper://h1/locks?speed=9',
    /has the option 'speed'; known are strategy, names, sessionTimeout, tickTime, tls, ca, acl$/,
  ],
  ['zookeeper://h1?strategy=fast', /: strategy cannot be 'fast'$/],
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
    zookeeperPlace('//me:s%3Aecret@h1,h2:2182/app/locks?names=kazoo&sessionTimeout=6000', ''),
    {
      servers: 'h1,h2:2182',
      chroot: '/app/locks',
      auth: { scheme: 'digest', credential: 'me:s:ecret' },
      names: 'kazoo',
      sessionTimeout: 6000,
    },
  )
  assert.deepEqual(zookeeperPlace('//h1/', ''), { servers: 'h1' })
})

test('a ZooKeeper URL with a path that cannot be is refused, without its password', async () => {
  await assert.rejects(
    target('zookeeper://me:s3cret@h1/a//b').connect(),
    (error) =>
      error instanceof CliError && /chroot must be/.test(error.message) && !/s3cret/.test(error.message),
  )
})

test('messages do not repeat the password of a URL', () => {
  assert.equal(withoutPassword('redis://me:s3cret@host:6379/0'), 'redis://me:***@host:6379/0')
  assert.equal(withoutPassword('redis://:s3cret@host'), 'redis://:***@host')
  assert.equal(withoutPassword('redis://host:6379'), 'redis://host:6379')
  assert.throws(
    () => target('radis://me:s3cret@host'),
    (error) => !String(error).includes('s3cret'),
  )
})

after(leakCheck)
