/**
 * The lock and the guarded data in one etcd: the write is executed only if the lease still holds, in the same transaction, so
 * no pause of the holder can come in between. Needs etcd at ETCD_URL.
 */
import assert from 'node:assert/strict'
import { createLocks, StaleTokenError } from 'holdfast'
import { etcd } from 'holdfast/etcd'

const endpoint = process.env['ETCD_URL'] ?? 'http://127.0.0.1:2379'
const store = etcd({ endpoints: endpoint })
const locks = createLocks(store)

const base64 = (text: string) => Buffer.from(text).toString('base64')
const put = (value: string) => ({
  success: [{ request_put: { key: base64('config/limit'), value: base64(value) } }],
})

const lease = await locks.mutex('config').acquire()
await store.guardTxn(lease, put('100'))

// An operator force-releases the lock while the holder is busy with something else.
const operator = createLocks(etcd({ endpoints: endpoint }))
await operator.forceRelease('config')
await assert.rejects(store.guardTxn(lease, put('7')), StaleTokenError)
console.log('the write of a lease that was taken away was refused by etcd itself')

const next = await operator.mutex('config').acquire()
assert.ok(next.token > lease.token)
await next.release()
await locks.close()
await operator.close()
