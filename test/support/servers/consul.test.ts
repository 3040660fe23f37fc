// A started Consul server accepts sessions: it is in the catalog, and does not only have a leader.
// Second tier because the servers of the tests seldom change.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { leakCheck } from '../leaks.js'
import { type ConsulServer, startConsul, startConsulCluster } from './consul.js'

const takesSession = async (server: ConsulServer) => {
  const made = (await server.ask('PUT', '/v1/session/create', '{}')) as { readonly ID: string }
  assert.match(made.ID, /^[0-9a-f-]{36}$/)
}

test('a single server takes sessions at once, however many start at the same time', async () => {
  const started = Array.from({ length: 8 }, async () => {
    await using server = await startConsul()
    await takesSession(server)
  })
  await Promise.all(started)
})

test('so does one again after a restart, and each of a cluster', async () => {
  await using single = await startConsul()
  await single.restart()
  await takesSession(single)
  await using cluster = await startConsulCluster(3)
  for (const server of cluster.servers) await takesSession(server)
})

test('so does one with access rules, for the token of its configuration', async () => {
  const config = 'acl{enabled=true\ndefault_policy="deny"\ntokens{master="root"\nagent="root"}}'
  await using server = await startConsul({ config })
  const answer = await fetch(`${server.url}/v1/session/create`, {
    method: 'PUT',
    headers: { 'X-Consul-Token': 'root' },
  })
  assert.equal(answer.status, 200, await answer.text())
})

after(leakCheck)
