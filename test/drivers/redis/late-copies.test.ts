// Requests that a client sent twice, and whose second copy arrives after a later request was answered.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { Redis } from 'ioredis'
import { cancel } from '../../../src/drivers/redis/scripts/verbs.js'
import { leakCheck } from '../../support/leaks.js'
import { startRedis } from '../../support/servers/redis.js'
import { lasts, type Recorded, survivesLateCopies, undoesLongerCopies } from '../support/late-copies.js'
import { peer } from './support/peer.js'

const server = await startRedis()
const raw = new Redis(server.port, '127.0.0.1')
after(async () => {
  raw.disconnect()
  await server.stop()
})

interface Command {
  readonly name: string
  readonly args: readonly (string | Buffer)[]
}

/** Another connection sends what an ioredis client has sent. */
function record(t: TestContext): Recorded & { readonly sent: readonly Command[] } {
  const { locks, client } = peer(t, server.port)
  const sent: Command[] = []
  const send = client.sendCommand.bind(client)
  client.sendCommand = (command, stream) => {
    const { name, args } = command as unknown as Command
    if (name === 'evalsha' || name === 'eval') sent.push({ name, args: [...args] })
    return send(command, stream)
  }
  const take = () => {
    const copies = sent.splice(0)
    return async () => {
      for (const { name, args } of copies) await raw.call(name, ...args).catch(() => undefined)
    }
  }
  return { locks, take, sent }
}

survivesLateCopies('redis', record)
undoesLongerCopies('redis', record)

test('redis: a late copy of a shorter extend is recognised however many attempts of the lock have ended since', async (t) => {
  const { locks, take, sent } = record(t)
  const lease = await locks.mutex('ended').acquire({ ttl: 600_000, autoRenew: false })
  take()
  await lease.extend(200_000)
  const [{ args } = assert.fail()] = sent
  const again = take()
  await lease.extend(600_000)
  // As waiters do whose connection broke: each is remembered for three minutes.
  const keys = Number(args[1])
  const common = args.slice(1, 2 + keys + 5)
  for (let i = 1; i <= 90; i++)
    await raw.call('EVAL', cancel.text, ...common, i.toString(16).padStart(32, '0'), '180000000')
  await again()
  await lasts(locks, lease, 600_000)
  await lease.release()
})

test('redis: a late copy of an acquire of several locks does not shorten an extended hold', async (t) => {
  const { locks, take } = record(t)
  const names = ['one', 'two']
  const lease = await locks
    .all(names.map((name) => locks.mutex(name)))
    .acquire({ ttl: 200_000, autoRenew: false })
  const again = take()
  await lease.extend(600_000)
  await again()
  for (const one of lease.leases) await lasts(locks, one, 600_000)
})

after(leakCheck)
