import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { StaleTokenError } from 'holdfast'
import { guardedConsulTxn } from 'holdfast/guard'
import { proveGuard } from 'holdfast/guard/testing'
import { leakCheck } from '../support/leaks.js'
import { type ConsulServer, startConsul } from '../support/servers/consul.js'
import { isNoToken, noTokens } from './support/no-tokens.js'

const base64 = (text: string) => Buffer.from(text).toString('base64')

describe('the guard in Consul', () => {
  let server: ConsulServer
  before(async () => {
    server = await startConsul()
  })
  after(() => server.stop())

  const read = async (key: string) => {
    const response = await fetch(`${server.url}/v1/kv/${key}?raw&consistent`)
    const text = await response.text()
    return response.status === 404 ? undefined : text
  }
  const set = (Key: string, value: string) => ({ Verb: 'set', Key, Value: base64(value) })

  test('the kit proves it', async () => {
    await proveGuard(
      (id) => ({
        write: (value, fence) =>
          guardedConsulTxn(
            { url: server.url },
            { fence, fenceKey: `${id}/fence`, operations: [set(id, value)], attempts: 20 },
          ),
        read: () => read(id),
      }),
      { rounds: 20 },
    )
  })

  test('and catches one that looks before it writes', async () => {
    const broken = proveGuard((id) => ({
      async write(value, { name, token }) {
        const newest = Number((await read(`${id}/fence`)) ?? 0)
        if (newest > token) throw new StaleTokenError(name, token, newest)
        const body = JSON.stringify([{ KV: set(id, value) }, { KV: set(`${id}/fence`, String(token)) }])
        await (await fetch(`${server.url}/v1/txn`, { method: 'PUT', body })).arrayBuffer()
      },
      read: () => read(id),
    }))
    await assert.rejects(broken, { rule: 'the newest token wins when all write at once' })
  })

  test('an operation that Consul refuses undoes all of it and is reported by its number', async () => {
    const at = (token: number) => ({ fence: { name: 'stock', token }, fenceKey: 'stock/7 ä/fence' })
    await guardedConsulTxn({ url: server.url }, { ...at(5), operations: [set('stock', '1')] })
    const missing = { Verb: 'check-index', Key: 'stock', Index: 1 }
    const refused = guardedConsulTxn(
      { url: server.url },
      { ...at(6), operations: [set('stock', '2'), missing] },
    )
    await assert.rejects(refused, /operation 1 was refused by Consul: .*index/)
    assert.equal(await read('stock'), '1')
    // The token of the refused one was not kept either.
    await guardedConsulTxn({ url: server.url }, { ...at(5), operations: [set('stock', '3')] })
    await guardedConsulTxn({ url: server.url }, { ...at(7), operations: [set('stock', '4')] })
    await assert.rejects(
      guardedConsulTxn({ url: server.url }, { ...at(6), operations: [set('stock', 'late')] }),
      {
        code: 'STALE_TOKEN',
        newest: 7,
      },
    )
    assert.equal(await read('stock'), '4')
  })

  test('a fence key that has no token lets nobody in', async () => {
    const write = () =>
      guardedConsulTxn(
        { url: server.url },
        { fence: { name: 'a', token: 5 }, fenceKey: 'emptied/fence', operations: [set('emptied', 'stale')] },
      )
    for (const found of ['', ...noTokens]) {
      await server.ask('PUT', '/v1/kv/emptied/fence', found)
      await assert.rejects(write(), isNoToken('emptied/fence', found))
    }
    assert.equal(await read('emptied'), undefined)
    await server.ask('PUT', '/v1/kv/emptied/fence', '0')
    await write()
    assert.equal(await read('emptied/fence'), '5')
  })

  test('a fence key with path steps is refused: the key read would differ from the key written', async () => {
    for (const fenceKey of ['a/../b', '..', './a']) {
      const fence = { name: 'a', token: 1 }
      const send = () => Promise.reject(new Error('was sent'))
      await assert.rejects(
        guardedConsulTxn({ url: server.url, send }, { fence, fenceKey, operations: [] }),
        /is not a key that Consul accepts in a URL/,
      )
    }
  })

  test('any other reply of Consul is reported', async () => {
    const wrong = {
      fence: { name: 'a', token: 1 },
      fenceKey: 'a',
      operations: [{ Verb: 'no such verb', Key: 'a' }],
    }
    await assert.rejects(guardedConsulTxn({ url: server.url }, wrong), /no such verb|Consul answered 4/)
  })
})

after(leakCheck)
