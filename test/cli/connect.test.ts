import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { target, withoutPassword } from '../../src/cli/connect.js'
import { CliError } from '../../src/cli/exit.js'
import { leakCheck } from '../support/leaks.js'

const refused: readonly [url: string, complaint: RegExp][] = [
  ['postgress://db', /^unknown scheme 'postgress:' in 'postgress:\/\/db'; known are local:, .*mysql:$/],
  ['localhost:6379', /^unknown scheme 'localhost:'/],
  ['/run/locks', /^'\/run\/locks' is no URL of a store; known are local:/],
  ['memory:', /^memory: locks live inside one process, .*; use local:/],
  [
    'zookeeper://h1,h2/app',
    /^this version of holdfast has no driver for 'zookeeper:' yet .*; it has .*local:/,
  ],
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
