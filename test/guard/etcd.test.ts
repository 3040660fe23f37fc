import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { StaleTokenError } from 'holdfast'
import { etcdGateway, guardedTxn } from 'holdfast/guard'
import { proveGuard } from 'holdfast/guard/testing'
import { leakCheck } from '../support/leaks.js'
import { type EtcdServer, startEtcd } from '../support/servers/etcd.js'

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

  test('a fence key that is empty, or has what is no token, lets nobody in', async () => {
    const send = etcdGateway(server.url)
    for (const [found, message] of [
      ['', /^TypeError: emptied\/fence is empty where the newest token belongs/],
      [' ', /^TypeError: emptied\/fence is empty where the newest token belongs/],
      ['none', /^TypeError: emptied\/fence has "none" where the newest token belongs/],
    ] as const) {
      await send({ success: [put('emptied/fence', found)] })
      const fence = { name: 'stock', token: 5 }
      const operations = [put('emptied', 'stale')]
      await assert.rejects(guardedTxn(send, { fence, fenceKey: 'emptied/fence', operations }), message)
    }
    assert.equal(await read('emptied'), undefined)
    await send({ success: [put('emptied/fence', '0')] })
    await guardedTxn(send, { fence: { name: 'stock', token: 5 }, fenceKey: 'emptied/fence', operations: [] })
    assert.equal(await read('emptied/fence'), '0000000000000005')
  })

  test('a fence key that was written by hand follows what its error says', async () => {
    const send = etcdGateway(server.url)
    const write = (token: number) =>
      guardedTxn(send, {
        fence: { name: 'stock', token },
        fenceKey: 'hand/fence',
        operations: [put('hand', `${token}`)],
      })
    await send({ success: [put('hand/fence', '7')] })
    const remedy =
      'write that token there as 16 digits, such as 0000000000001234 for 1234, or 0 if there was none'
    await assert.rejects(write(9), {
      name: 'TypeError',
      message: `hand/fence has "7" where the newest token belongs; ${remedy}`,
    })
    await send({ success: [put('hand/fence', '0000000000000007')] })
    await assert.rejects(write(6), { code: 'STALE_TOKEN', newest: 7 })
    await write(9)
    assert.equal(await read('hand'), '9')
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
