// The parts without a server: names to keys, pushes, bad options.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import fc from 'fast-check'
import { systemEnv } from '../../../src/core/engine.js'
import { toFailure } from '../../../src/drivers/redis/failure.js'
import { type RedisOptions, redis } from '../../../src/drivers/redis/index.js'
import { lockKeys, parseLockName, scanPattern } from '../../../src/drivers/redis/keys.js'
import { withHost } from '../../../src/drivers/redis/redirections.js'
import { parseNotification } from '../../../src/drivers/redis/subscriber.js'
import { leakCheck } from '../../support/leaks.js'

/** What a Cluster hashes of a key. */
function tagOf(key: string): string {
  return /\{([^}]+)\}/.exec(key)?.[1] ?? key
}

const names = fc.oneof(
  fc.string({ minLength: 1, maxLength: 40 }),
  fc.string({
    unit: fc.constantFrom('{', '}', '%', '2', '5', '7', 'B', 'D', ':', 'q', 'a'),
    minLength: 1,
    maxLength: 12,
  }),
)

const open = { cluster: false, ended: false, outage: undefined }
const closed = { cluster: false, ended: true, outage: undefined }

test('keys: every name has keys of its own, in one slot, and can be read back', () => {
  fc.assert(
    fc.property(names, names, (one, other) => {
      const [hash, line, deadlines] = lockKeys('hf:', one)
      assert.equal(parseLockName('hf:', hash), one)
      assert.equal(parseLockName('hf:', line), undefined)
      assert.equal(tagOf(line), tagOf(hash))
      assert.equal(tagOf(deadlines), tagOf(hash))
      if (one !== other) {
        const all = new Set([hash, line, deadlines, ...lockKeys('hf:', other)])
        assert.equal(all.size, 6)
      }
    }),
    { numRuns: 2_000 },
  )
})

test('keys: a pattern takes its characters as they are', () => {
  assert.equal(scanPattern('hf:', 'a*b?[c]\\'), 'hf:{a\\*b\\?\\[c\\]\\\\*}')
  assert.equal(scanPattern('hf:', ''), 'hf:{*}')
})

test('redirections: an address without a host is on the host of the sender, one of IPv6 has its own', () => {
  assert.equal(withHost(':7001', '10.0.0.1'), '10.0.0.1:7001')
  assert.equal(withHost(':7001', '::1'), '::1:7001')
  for (const whole of ['10.0.0.2:7001', 'node-2:7001', '::1:7001', '::7001:7001', '2001:db8::2:7001'])
    assert.equal(withHost(whole, '10.0.0.1'), whole)
})

test('pushes: what is not one of ours is ignored', () => {
  assert.equal(parseNotification('hello'), undefined)
  assert.deepEqual(parseNotification('c abc'), { is: 'contended', attempt: 'abc' })
  assert.deepEqual(parseNotification('g abc'), { is: 'turn', attempt: 'abc' })
  assert.deepEqual(parseNotification('v hf:{a b}:c'), { is: 'changed', key: 'hf:{a b}:c' })
  assert.deepEqual(parseNotification(`n ${'a'.repeat(32)} 2500`), {
    is: 'next',
    attempt: 'a'.repeat(32),
    left: 2500,
  })
})

test('trouble: refusals that pass are distinguished from those that stay, and neither from a definite answer', () => {
  const passes = [
    'LOADING x',
    'BUSY x',
    'READONLY x',
    'NOREPLICAS x',
    'MASTERDOWN x',
    'CLUSTERDOWN x',
    'TRYAGAIN x',
  ]
  for (const message of passes) {
    const { transient, ambiguous, error } = toFailure(new Error(message), open)
    assert.deepEqual({ message, transient, ambiguous }, { message, transient: true, ambiguous: false })
    assert.match(error.message, /the server refused/)
  }
  for (const message of [
    'OOM x',
    'NOPERM x',
    'WRONGTYPE x',
    'NOAUTH x',
    'MISCONF x',
    'CROSSSLOT x',
    'ERR x',
  ]) {
    const { transient, ambiguous } = toFailure(new Error(message), open)
    assert.deepEqual({ message, transient, ambiguous }, { message, transient: false, ambiguous: false })
  }
  const silent = toFailure(new Error('no answer within 2000 ms'), open)
  assert.deepEqual([silent.transient, silent.ambiguous], [true, true])
  assert.equal(toFailure(new Error('Connection is closed.'), closed).transient, false)
  const outage = Object.assign(new Error('connect ECONNREFUSED 10.0.0.7:6379'), {
    code: 'ECONNREFUSED',
    address: '10.0.0.7',
    port: 6379,
  })
  for (const ended of [false, true]) {
    const { error } = toFailure(new Error('Reached the max retries per request limit'), {
      cluster: false,
      ended,
      outage,
    })
    assert.deepEqual([error.unanswered, error.reason, error.address], [true, 'ECONNREFUSED', '10.0.0.7:6379'])
    assert.match(error.message, /ECONNREFUSED/)
    assert.doesNotMatch(error.message, /max retries/)
  }
})

test('bad options are reported with the value got, before any I/O', () => {
  const client = { status: 'wait', call: async () => undefined, on() {} } as unknown as RedisOptions['client']
  const bad: readonly (readonly [unknown, RegExp])[] = [
    [undefined, /options such as \{ client \}, got undefined/],
    [{}, /client must be an instance of ioredis.*got undefined/],
    [{ client: 'redis://localhost' }, /client must be.*"redis:\/\/localhost"/],
    [{ client: { isOpen: true, sendCommand() {}, execute() {} } }, /not a pool/],
    [{ client, subscriber: 42 }, /subscriber must be an instance.*got 42/],
    [{ client, prefix: 'a{b}' }, /prefix must have no braces.*"a\{b\}"/],
    [{ client, prefix: '-x' }, /prefix must not begin with a hyphen, got "-x"/],
    [{ client, prefix: 7 }, /prefix must be a string, got 7/],
    [{ client, replicas: -1 }, /replicas must be a whole number from 0 to 100, got -1/],
    [{ client, retention: Number.NaN }, /retention must be a whole number.*got NaN/],
    [{ client, commandTimeout: '2s' }, /commandTimeout must be a number, got "2s"/],
    [{ client, quarantine: 'never' }, /quarantine must be one of strict, detected, off, got "never"/],
    [{ client, eviction: true }, /eviction must be one of warn, refuse, ignore, got true/],
  ]
  for (const [options, message] of bad) {
    assert.throws(() => redis(options as RedisOptions)(systemEnv()), message)
  }
})

after(leakCheck)
