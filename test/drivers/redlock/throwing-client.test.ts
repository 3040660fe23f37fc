// A client that throws instead of rejecting, as a wrapper that guards against a failing server does, while the servers lack the scripts.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createLocks } from 'holdfast'
import { redlock } from 'holdfast/redlock'
import { Redis } from 'ioredis'
import { leakCheck } from '../../support/leaks.js'
import { startMany } from '../../support/servers/redis.js'
import { meet } from './support/scene.js'

const { servers, stop } = await startMany(3)
after(stop)
await meet({ servers, ports: servers.map(({ port }) => port), prefix: 'hf:' })

/** Throws whatever is to be evaluated while `isOpen`. */
function guarded(port: number): { readonly client: Redis; isOpen: boolean } {
  const client = new Redis(port)
  const circuit = { client, isOpen: false }
  const send: unknown = client.eval
  const guard = (...args: unknown[]): unknown => {
    if (circuit.isOpen) throw new Error('the circuit is open')
    return Reflect.apply(send as () => unknown, client, args)
  }
  Object.assign(client, { eval: guard })
  return circuit
}

test('a vote that the client refuses by throwing is over: however many there were, the next one is sent', async (t) => {
  const circuits = servers.map(({ port }) => guarded(port))
  const clients = circuits.map(({ client }) => client)
  const locks = createLocks(redlock({ clients, commandTimeout: 60_000, maxTtl: 600_000 }), { ttl: 600_000 })
  t.after(async () => {
    await locks.close()
    for (const client of clients) client.disconnect()
  })
  await locks.mutex('before').run(() => undefined)
  for (const server of servers) await server.cli('SCRIPT', 'FLUSH')
  for (const circuit of circuits) circuit.isOpen = true
  const refused = (name: string) => assert.rejects(locks.mutex(name).tryAcquire(), /the circuit is open/)
  for (let n = 0; n < 300; n += 50)
    await Promise.all(Array.from({ length: 50 }, (_, i) => refused(`${n + i}`)))
  for (const circuit of circuits) circuit.isOpen = false
  const lease = await locks.mutex('x').tryAcquire()
  assert.ok(lease?.isHeld)
  assert.equal(await lease.release(), 'released')
})

after(leakCheck)
