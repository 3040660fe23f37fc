// A URL with a password, given by mistake where options or a client belong: the error does not repeat the password.
import '../support/background.js'
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createLocks } from '../../src/create-locks.js'
import { consul } from '../../src/drivers/consul/index.js'
import { etcd } from '../../src/drivers/etcd/index.js'
import { local } from '../../src/drivers/local/index.js'
import { mysql } from '../../src/drivers/mysql/index.js'
import { postgres } from '../../src/drivers/postgres/index.js'
import { redis } from '../../src/drivers/redis/index.js'
import { redlock } from '../../src/drivers/redlock/index.js'
import { zookeeper } from '../../src/drivers/zookeeper/index.js'
import { etcdGateway, guardedConsulTxn } from '../../src/guard/index.js'
import { leakCheck } from '../support/leaks.js'

const urls = [
  'redis://me:hunter2@h:6379',
  'http://:hunter2@h:99999',
  'https://me:hun/ter2@hunter2@h',
  'me:hunter2@h:1:2',
  'postgres://h/d?user=me&password=hunter2&sslmode=require',
  'consul://h?token=hunter2',
  `redis://me:${'hunter2'.repeat(20)}@h`,
]
const transaction = { fence: { name: 'a', token: 1 }, fenceKey: 'k', operations: [] }

const takers: Readonly<Record<string, (url: never) => unknown>> = {
  'createLocks()': (url) => createLocks(url),
  'redis()': (url) => createLocks(redis(url)),
  'redis({ client })': (client) => createLocks(redis({ client })),
  'redlock()': (url) => createLocks(redlock(url)),
  'redlock({ clients })': (url) => createLocks(redlock({ clients: [url, url, url] })),
  'mysql()': (url) => createLocks(mysql(url)),
  'mysql({ pool })': (pool) => createLocks(mysql({ pool })),
  'postgres()': (url) => createLocks(postgres(url)),
  'postgres({ pool })': (pool) => createLocks(postgres({ pool })),
  'local()': (url) => local(url),
  'etcd()': (url) => etcd(url),
  'etcd({ endpoints })': (endpoints) => etcd({ endpoints }),
  'consul()': (url) => consul(url),
  'consul({ url })': (url) => consul({ url }),
  'zookeeper()': (url) => zookeeper(url),
  'zookeeper({ servers })': (servers) => zookeeper({ servers }),
  'guardedConsulTxn({ url })': (url) => guardedConsulTxn({ url }, transaction),
  'etcdGateway()': (url) => etcdGateway(url)({}),
}

/** The message of an error and of what caused it. */
function messages(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return `${error.message}\n${error.cause === undefined ? '' : messages(error.cause)}`
}

for (const [name, take] of Object.entries(takers)) {
  test(`${name} does not repeat the password of a URL`, async () => {
    for (const url of urls) {
      const error = await new Promise((resolve) => resolve(take(url as never))).then(
        () => undefined,
        (refusal: unknown) => refusal,
      )
      assert.doesNotMatch(messages(error), /hunter2/, url.slice(0, 40))
    }
  })
}

for (const url of ['http://me:hunter2@127.0.0.1:1', 'https://hunter2@127.0.0.1:1']) {
  test(`a guard over HTTP says where to put the login of ${url.replace('hunter2', '…')}`, async () => {
    const why = { name: 'TypeError', message: /has a login in it, which fetch refuses; .* send/ }
    await assert.rejects(async () => guardedConsulTxn({ url }, transaction), why)
    await assert.rejects(async () => etcdGateway(url)({}), why)
  })
}

after(leakCheck)
