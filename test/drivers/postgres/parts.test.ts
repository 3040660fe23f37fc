// The parts that need no server: what errors mean, when a push is trusted, which options are refused.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Pool } from 'pg'
import { systemClock } from '../../../src/core/clock.js'
import type { ConnectionEvents } from '../../../src/drivers/postgres/client.js'
import { toFailure } from '../../../src/drivers/postgres/failure.js'
import { migration, postgres } from '../../../src/drivers/postgres/index.js'
import { lockKey } from '../../../src/drivers/postgres/session/key.js'
import { createSubscriber, parseNotification } from '../../../src/drivers/postgres/subscriber.js'
import { leakCheck } from '../../support/leaks.js'
import { until } from '../../support/until.js'

const coded = (code: string) => Object.assign(new Error(`it said ${code}`), { code })

test('an error of the network is passing, and its statement may have been carried out', () => {
  for (const code of ['EPIPE', 'ECONNRESET', 'ECONNREFUSED', 'CONNECTION_CLOSED', '57P01', '08006', '']) {
    const { transient, ambiguous } = toFailure(code === '' ? new Error('Connection terminated') : coded(code))
    assert.deepEqual([transient, ambiguous], [true, true], code)
  }
})

test('a refusal is known not to have been carried out; some pass, some stay', () => {
  for (const [code, stays] of [
    ['40001', false],
    ['40P01', false],
    ['53300', false],
    ['55P03', false],
    ['57P03', false],
    ['25006', false],
    ['42501', true],
    ['42883', true],
    ['28P01', true],
    ['XX000', true],
    ['P0001', true],
  ] as const) {
    const { transient, ambiguous, error } = toFailure(coded(code))
    assert.deepEqual([transient, ambiguous], [!stays, false], code)
    assert.match(error.message, new RegExp(code))
  }
  assert.equal(toFailure(coded('POOL_ENDED')).transient, false)
})

test('of a message nothing but what it is about is read', () => {
  assert.deepEqual(parseNotification('g abc 9007199254740991 200 1 1000 1 a name'), {
    is: 'turn',
    attempt: 'abc',
  })
  assert.deepEqual(parseNotification('k a key of words'), { is: 'cell', key: 'a key of words' })
  for (const text of ['', 'g', 'somebody else', 'g'.repeat(8_000)]) {
    const push = parseNotification(text)
    assert.ok(push === undefined || (push.is === 'turn' && push.attempt === ''), text)
  }
})

test('a channel whose connection ends as it says that it listens is not up', async () => {
  let opened = 0
  let rises = 0
  let risesBefore: number | undefined
  const open = async ({ closed }: ConnectionEvents) => {
    const first = ++opened === 1
    if (!first) risesBefore = rises
    const query = async () => ''
    return { pid: 1, busy: 0, query, script: async () => void (first && closed()), destroy: () => undefined }
  }
  const subscriber = createSubscriber({
    ...{ clock: systemClock(), channel: 'heard', database: { ended: false, open }, main: undefined },
    ...{
      onNotification: () => undefined,
      onUp: () => void rises++,
      onDown: () => undefined,
      isNeeded: () => opened === 1,
    },
  })
  subscriber.open()
  await until(() => opened === 2)
  assert.equal(risesBefore, 0)
  await until(() => subscriber.channel === 'heard')
  assert.equal(rises, 1)
  await subscriber.close()
})

test('keys of advisory locks are 64 bits, apart by namespace', () => {
  assert.match(lockKey('holdfast', 'x'), /^-?\d{1,19}$/)
  assert.notEqual(lockKey('a', 'x'), lockKey('b', 'x'))
  assert.notEqual(lockKey('a', 'bx'), lockKey('ab', 'x'))
  assert.equal(lockKey('a', 'x'), lockKey('a', 'x'))
})

test('bad options are refused with the value and the remedy, before any I/O', () => {
  const pool = new Pool()
  const refused: readonly (readonly [object, RegExp])[] = [
    [{}, /pool must be a Pool of pg or an instance of postgres\.js, got undefined/],
    [{ pool: { query() {} } }, /a single pg Client cannot be shared/],
    [{ pool, strategy: 'transaction' }, /call inTransaction\(client, name\)/],
    [{ pool, strategy: 'table' }, /strategy must be 'row' or 'session', got "table"/],
    [{ pool, schema: 'a;b' }, /schema must be a name of letters/],
    [{ pool, connections: 0 }, /connections must be a whole number from 1 to 100, got 0/],
    [{ pool, commandTimeout: '1s' }, /commandTimeout must be a number, got "1s"/],
    [{ pool, namespace: 'another' }, /namespace "another" with strategy 'row'.*give each its own schema/s],
    [
      { pool, strategy: 'session', namespace: 'a\u0001b' },
      /namespace must be a text that is not empty and has no control/,
    ],
    [{ pool, create: 1 }, /create must be true or false, got 1/],
    [{ pool, listen: {} }, /listen must be a Pool of pg/],
  ]
  for (const [options, message] of refused) assert.throws(() => postgres(options as never), message)
  assert.throws(() => postgres(undefined as never), /takes options such as/)
  assert.throws(() => migration({ role: 'a"b' }), /role must be a name of letters/)
})

after(leakCheck)
