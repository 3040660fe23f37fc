// The keys that guards write to: what a client would send as another key, such as "undefined", is refused before anything is sent.
import '../support/background.js'
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import {
  fenceKey,
  guardedCommands,
  guardedConsulTxn,
  guardedMulti,
  guardedPut,
  guardedSet,
  guardedTxn,
} from 'holdfast/guard'
import { leakCheck } from '../support/leaks.js'

const fence = { name: 'stock', token: 5 }
const sent = () => assert.fail('it was sent')
const redis = { call: sent }
const consul = { url: 'http://127.0.0.1:1', send: sent }
const zookeeper = { read: sent, multi: sent }
const objects = { head: sent, put: sent }

/** Each with the name of what it is given. */
const guards: Readonly<Record<string, readonly [what: string, write: (key: never) => Promise<unknown>]>> = {
  guardedCommands: [
    'fenceKey',
    (fenceKey) => guardedCommands(redis, { fence, fenceKey, keys: ['a'], commands: [['GET', 'a']] }),
  ],
  'guardedSet with a fence key': [
    'fenceKey',
    (fenceKey) => guardedSet(redis, { key: 'a', value: 1, fence, fenceKey }),
  ],
  guardedTxn: ['fenceKey', (fenceKey) => guardedTxn(sent, { fence, fenceKey, operations: [] })],
  guardedConsulTxn: ['fenceKey', (fenceKey) => guardedConsulTxn(consul, { fence, fenceKey, operations: [] })],
  guardedMulti: ['fencePath', (fencePath) => guardedMulti(zookeeper, { fence, fencePath, operations: [] })],
  guardedPut: ['key', (key) => guardedPut(objects, { key, body: 'x', fence })],
}

const wrong: readonly [key: unknown, complaint: string][] = [
  ['', 'must not be empty'],
  [5, 'must be a string, got 5'],
  [null, 'must be a string, got null'],
  [{}, 'must be a string, got '],
  ['a\ud800', 'has half a surrogate pair'],
]

for (const [name, [what, write]] of Object.entries(guards))
  test(`${name}: a ${what} that is no key is refused`, async () => {
    for (const [key, complaint] of wrong)
      await assert.rejects(write(key as never), (error: Error) => {
        assert.ok(error instanceof TypeError || error instanceof RangeError, String(error))
        assert.ok(error.message.startsWith(`${what} `) && error.message.includes(complaint), error.message)
        return true
      })
  })

test('keys, paths and bodies of another kind are refused, too', async () => {
  const key = 5 as never
  const texts = /must be a string, got 5/
  await assert.rejects(guardedSet(redis, { key, value: 1, fence, fenceKey: 'f' }), texts)
  await assert.rejects(guardedSet(redis, { key, value: 1, fence }), texts)
  assert.throws(() => fenceKey(key), texts)
  const commands = [['GET', 'a']]
  await assert.rejects(guardedCommands(redis, { fence, fenceKey: 'f', keys: [key], commands }), texts)
  const path = guardedMulti(zookeeper, { fence, fencePath: 'stock', operations: [] })
  await assert.rejects(path, /fencePath "stock" is not the path of a node; it begins with \//)
  for (const body of [undefined, null, 5, { amount: 1 }] as never[])
    await assert.rejects(
      guardedPut(objects, { key: 'a', body, fence }),
      /body must be a string or a Uint8Array/,
    )
})

after(leakCheck)
