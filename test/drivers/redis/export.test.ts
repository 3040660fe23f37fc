// A lease that moves to another process although the store may still execute an earlier request.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Redis } from 'ioredis'
import { leakCheck } from '../../support/leaks.js'
import { startRedis } from '../../support/servers/redis.js'
import { peer } from './support/peer.js'

const server = await startRedis()
const raw = new Redis(server.port, '127.0.0.1')
after(async () => {
  raw.disconnect()
  await server.stop()
})

interface Command {
  readonly name: string
  readonly args: readonly string[]
  readonly promise: Promise<unknown>
  reject(error: Error): void
}

test('a lease is not exported while a shorter extend without an answer may still arrive', async (t) => {
  const { locks, client } = peer(t, server.port)
  const other = peer(t, server.port).locks
  const lease = await locks.mutex('held').acquire({ ttl: 600_000, autoRenew: false })
  await lease.extend()
  const send = client.sendCommand.bind(client)
  let late: Command | undefined
  // Its connection breaks with the next command on the way: it arrives, but much later.
  client.sendCommand = (command) => {
    client.sendCommand = send
    late = command as unknown as Command
    late.reject(new Error('Connection is closed.'))
    return late.promise
  }
  await assert.rejects(lease.extend(60_000), { code: 'UNAVAILABLE' })
  assert.ok(late !== undefined)
  const exporting = locks.export(lease)
  await assert.rejects(
    exporting.then(async (ticket) => {
      const adopted = await other.adopt(ticket, { autoRenew: false })
      await raw.call(late?.name ?? '', ...(late?.args ?? []))
      const left = (await other.inspect('held')).holders[0]?.expiresIn ?? 0
      assert.ok(adopted.remaining() <= left, `counts with ${adopted.remaining()} ms of ${left}`)
    }),
    { code: 'BACKEND', message: /"held" cannot be exported/ },
  )
  assert.ok(lease.isHeld && lease.remaining() <= 60_000)
  assert.equal(await lease.release(), 'released')
  const next = await locks.mutex('held').acquire({ ttl: 600_000 })
  const goesOn = await other.adopt(await locks.export(next))
  assert.equal(await goesOn.release(), 'released')
})

test('a lease is exported with the ttl of a shorter extend that was answered', async (t) => {
  const { locks } = peer(t, server.port)
  const lease = await locks.mutex('shorter').acquire({ ttl: 600_000, autoRenew: false })
  await lease.extend(60_000)
  const adopted = await peer(t, server.port).locks.adopt(await locks.export(lease))
  assert.ok(adopted.ttl === 60_000 && adopted.remaining() <= 60_000)
})

after(leakCheck)
