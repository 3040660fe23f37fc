// What tokens can do that may only read the locks, or that may also write sessions, on a Consul with ACLs.
// Second tier because it starts an agent with ACLs.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { leakCheck } from '../../support/leaks.js'
import { startConsul } from '../../support/servers/consul.js'
import { until } from '../../support/until.js'
import { once } from '../support/asking.js'
import { claim } from '../support/session-store.js'
import { driverOf, locksOf } from './support/scene.js'

const config = 'acl{enabled=true\ndefault_policy="deny"\ntokens{master="root"\nagent="root"}}'
const server = await startConsul({ config })
after(() => server.stop())

interface Answer {
  readonly status: number
  readonly text: string
}

async function ask(token: string | undefined, method: string, path: string, body?: unknown): Promise<Answer> {
  const headers = { connection: 'close', ...(token && { 'x-consul-token': token }) }
  const answer = await fetch(`${server.url}${path}`, {
    method,
    headers,
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  return { status: answer.status, text: await answer.text() }
}

async function tokenFor(name: string, rules: string): Promise<string> {
  const policy = await ask('root', 'PUT', '/v1/acl/policy', { Name: name, Rules: rules })
  const { ID } = JSON.parse(policy.text) as { ID: string }
  const token = await ask('root', 'PUT', '/v1/acl/token', { Policies: [{ ID }] })
  return (JSON.parse(token.text) as { SecretID: string }).SecretID
}

const keys = (policy: string) => `key_prefix "holdfast/" { policy = "${policy}" }`
const sessions = (policy: string) => `session_prefix "" { policy = "${policy}" }`
const app = await tokenFor('app', `${keys('write')}\n${sessions('write')}`)

/** The key that the session of the holder of this lock has. */
async function lockOf(token: string, name: string): Promise<{ Key: string; Session: string }> {
  const { text } = await ask(token, 'GET', `/v1/kv/holdfast/${name}/?recurse`)
  const held = (JSON.parse(text) as { Key: string; Session?: string }[]).find(({ Session }) => Session)
  assert.ok(held)
  return held as { Key: string; Session: string }
}

test('a token that may only read keys and sessions, and none at all, take, release and end no lock', async (t) => {
  const reader = await tokenFor('reader', `${keys('read')}\n${sessions('read')}`)
  const { locks } = locksOf(t, server.url, { token: app })
  const lease = await locks.mutex('a').acquire({ ttl: 60_000 })
  const { Key, Session } = await lockOf(reader, 'a')
  const { text } = await ask(reader, 'GET', '/v1/session/list')
  assert.ok((JSON.parse(text) as { ID: string }[]).some(({ ID }) => ID === Session))
  for (const token of [reader, undefined]) {
    const refused = [
      await ask(token, 'PUT', `/v1/kv/${Key}`, {}),
      await ask(token, 'PUT', `/v1/kv/${Key}?release=${Session}`),
      await ask(token, 'DELETE', '/v1/kv/holdfast/?recurse'),
      await ask(token, 'PUT', `/v1/session/destroy/${Session}`),
      await ask(token, 'PUT', `/v1/session/renew/${Session}`),
      await ask(token, 'PUT', '/v1/session/create', { TTL: '10s' }),
      await ask(token, 'PUT', '/v1/txn', [{ KV: { Verb: 'delete', Key } }]),
    ]
    for (const { status, text } of refused) {
      assert.ok(status === 403 || status === 409, `${status}`)
      assert.match(text, /Permission denied/)
    }
  }
  assert.ok((await lease.extend()) > 0)
  const narrow = driverOf(t, server.url, { token: reader })
  await assert.rejects(narrow.acquire(claim('b'), once()), { code: 'BACKEND', message: /Permission denied/ })
  assert.equal((await narrow.inspect('a')).holders[0]?.token, lease.token)
  assert.equal(await lease.release(), 'released')
})

test('a token without sessions sees who holds what, but not the sessions', async (t) => {
  const reader = await tokenFor('keys-only', keys('read'))
  const { locks } = locksOf(t, server.url, { token: app })
  const lease = await locks.mutex('seen').acquire({ ttl: 60_000, note: 'a note' })
  const { Session } = await lockOf(reader, 'seen')
  assert.equal((await ask(reader, 'GET', '/v1/session/list')).text.trim(), '[]')
  assert.equal((await ask(reader, 'GET', `/v1/session/info/${Session}`)).text.trim(), '[]')
  await lease.release()
})

test('a token that may write sessions can end every lock, whatever else it may not do: the holder is notified', async (t) => {
  const writer = await tokenFor('sessions', sessions('write'))
  const { locks } = locksOf(t, server.url, { token: app })
  const others = locksOf(t, server.url, { token: app }).locks
  const lease = await locks.mutex('ended').acquire({ ttl: 10_000 })
  const { Session } = await lockOf(app, 'ended')
  assert.equal((await ask(writer, 'PUT', `/v1/session/destroy/${Session}`)).status, 200)
  const next = await others.mutex('ended').acquire({ ttl: 10_000, wait: 60_000 })
  assert.ok(next.token > lease.token)
  // At its next renewal.
  await until(() => lease.signal.aborted, { within: 60_000 })
  assert.equal(lease.signal.reason.name, 'LeaseLostError')
  assert.equal(await next.release(), 'released')
})

after(leakCheck)
