import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { StaleTokenError } from 'holdfast'
import { etcdGateway, guardedTxn } from 'holdfast/guard'
import { proveGuard } from 'holdfast/guard/testing'
import { leakCheck } from '../support/leaks.js'
import { type EtcdServer, startEtcd } from '../support/servers/etcd.js'
import { isNoToken, noTokens } from './support/no-tokens.js'

const base64 = (text: string) => Buffer.from(text).toString('base64')

describe('the guard in etcd', () => {
  let server: EtcdServer
  before(async () => {
    server = await startEtcd()
  })
  after(() => server.stop())

  const read = async (key: string) => {
    const { kvs } = (await server.ask('/v3/kv/range', { key: base64(key) })) as { kvs?: { value?: string }[] }
    const value = kvs?.[0]?.value
    return value === undefined ? undefined : Buffer.from(value, 'base64').toString()
  }
  const put = (key: string, value: string) => ({ request_put: { key: base64(key), value: base64(value) } })

  test('the kit proves it', async () => {
    const send = etcdGateway(server.url)
    await proveGuard(
      (id) => ({
        write: (value, fence) =>
          guardedTxn(send, { fence, fenceKey: `${id}/fence`, operations: [put(id, value)] }),
        read: () => read(id),
      }),
      { rounds: 15 },
    )
  })

  test('and catches one that looks before it writes', async () => {
    const send = etcdGateway(server.url)
    const broken = proveGuard((id) => ({
      async write(value, { name, token }) {
        const newest = Number((await read(`${id}/fence`)) ?? 0)
        if (newest > token) throw new StaleTokenError(name, token, newest)
        await send({ success: [put(id, value), put(`${id}/fence`, String(token))] })
      },
      read: () => read(id),
    }))
    await assert.rejects(broken, { rule: 'the newest token wins when all write at once' })
  })

  test('several operations are one step, with their responses; a stale token is reported with the newest', async () => {
    const send = etcdGateway(server.url)
    const at = (token: number) => ({ fence: { name: 'stock', token }, fenceKey: 'stock/fence' })
    for (const token of [5, 5, 7]) {
      const responses = await guardedTxn(send, {
        ...at(token),
        operations: [put('stock', `${token}`), { request_range: { key: base64('stock') } }],
      })
      assert.equal(responses.length, 2)
      assert.match(JSON.stringify(responses[1]), new RegExp(base64(`${token}`)))
    }
    await assert.rejects(guardedTxn(send, { ...at(6), operations: [put('stock', 'late')] }), {
      code: 'STALE_TOKEN',
      token: 6,
      newest: 7,
    })
    assert.equal(await read('stock'), '7')
  })

  test('a fence key that has no token lets nobody in', async () => {
    const send = etcdGateway(server.url)
    for (const found of ['', ...noTokens]) {
      await send({ success: [put('emptied/fence', found)] })
      const fence = { name: 'stock', token: 5 }
      const operations = [put('emptied', 'stale')]
      const txn = guardedTxn(send, { fence, fenceKey: 'emptied/fence', operations })
      await assert.rejects(txn, isNoToken('emptied/fence', found))
    }
    assert.equal(await read('emptied'), undefined)
    await send({ success: [put('emptied/fence', '0')] })
    await guardedTxn(send, { fence: { name: 'stock', token: 5 }, fenceKey: 'emptied/fence', operations: [] })
    assert.equal(await read('emptied/fence'), '0000000000000005')
  })

  test('a fence key that was written by hand is compared as a number, whatever its length', async () => {
    const send = etcdGateway(server.url)
    const write = (token: number) =>
      guardedTxn(send, {
        fence: { name: 'stock', token },
        fenceKey: 'hand/fence',
        operations: [put('hand', `${token}`)],
      })
    for (const [found, newest] of [
      ['00000000000000070', 70],
      ['7', 7],
      ['0000000000000007', 7],
      ['000000000000000000012', 12],
    ] as const) {
      await send({ success: [put('hand/fence', found)] })
      await assert.rejects(write(newest - 1), { code: 'STALE_TOKEN', newest }, found)
      await write(newest + 1)
      assert.equal(await read('hand'), `${newest + 1}`)
    }
  })

  test('fifty writes at once under fifty leases leave the newest', async () => {
    const send = etcdGateway(server.url)
    const write = (token: number) =>
      guardedTxn(send, {
        fence: { name: 'stock', token },
        fenceKey: 'many/fence',
        operations: [put('many', `${token}`)],
      })
    const results = await Promise.allSettled(Array.from({ length: 50 }, (_, i) => write(i + 1)))
    for (const one of results)
      if (one.status === 'rejected') assert.equal(one.reason.code, 'STALE_TOKEN', String(one.reason))
    assert.equal(results.at(-1)?.status, 'fulfilled')
    assert.equal(await read('many'), '50')
  })

  test('a rival that writes the fence key before every attempt ends it after the last one, with an error that says so', async () => {
    const gateway = etcdGateway(server.url)
    const fence = { name: 'stock', token: 1_000_000 }
    for (const [attempts, sent] of [
      [7, 7],
      [undefined, 100],
    ]) {
      let rounds = 0
      const send = async (body: object) => {
        assert.ok(++rounds <= 200, 'it goes on after 200 attempts')
        await gateway({ success: [put('rival/fence', `${rounds}`)] })
        return gateway(body)
      }
      const operations = [put('rival', 'written')]
      const given = attempts === undefined ? {} : { attempts }
      const txn = guardedTxn(send, { fence, fenceKey: 'rival/fence', operations, ...given })
      await assert.rejects(txn, { code: 'VERSION_CONFLICT', attempts: sent, message: /"rival\/fence"/ })
      assert.equal(rounds, sent)
    }
    assert.equal(await read('rival'), undefined)
    for (const attempts of [0, 1.5, Number.NaN, Number.POSITIVE_INFINITY]) {
      const txn = guardedTxn(gateway, { fence, fenceKey: 'rival/fence', operations: [], attempts })
      await assert.rejects(txn, { name: 'RangeError', message: /attempts must be an integer of at least 1/ })
    }
  })

  test('a reply that is no transaction of etcd is an error that leaves the outcome open', async () => {
    const fence = { name: 'stock', token: 5 }
    const txn = guardedTxn(async () => ({}), { fence, fenceKey: 'a', operations: [] })
    await assert.rejects(txn, /^TypeError: a: the reply .* whether it was is unknown/)
  })

  test('a refusal of etcd is reported', async () => {
    const operations = [{ request_put: { key: '' } }]
    const txn = guardedTxn(etcdGateway(server.url), {
      fence: { name: 'a', token: 1 },
      fenceKey: 'a',
      operations,
    })
    await assert.rejects(txn, /etcd answered 400: .*key is not provided/)
  })
})

after(leakCheck)
