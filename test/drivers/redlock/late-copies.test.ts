// Requests that a client sent twice, and whose second copy arrives after a later request was answered.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { createLocks, type Locks } from 'holdfast'
import { redlock } from 'holdfast/redlock'
import { Redis } from 'ioredis'
import * as scripts from '../../../src/drivers/redlock/scripts.js'
import type { Script } from '../../../src/drivers/redlock/state.js'
import { leakCheck } from '../../support/leaks.js'
import { startMany } from '../../support/servers/redis.js'
import { lasts, type Recorded } from '../support/late-copies.js'

const { servers, stop } = await startMany(3)
const raw = servers.map(({ port }) => new Redis(port, '127.0.0.1'))
after(async () => {
  for (const one of raw) one.disconnect()
  await stop()
})

interface Command {
  readonly name: string
  readonly args: readonly (string | Buffer)[]
}

/** Other connections send what the clients have sent to each server. */
function record(t: TestContext): Recorded {
  const sent: (Command & { readonly to: number })[] = []
  const clients = servers.map(({ port }, to) => {
    const client = new Redis(port, '127.0.0.1')
    const send = client.sendCommand.bind(client)
    client.sendCommand = (command, stream) => {
      const { name, args } = command as unknown as Command
      if (name === 'evalsha' || name === 'eval') sent.push({ name, args: [...args], to })
      return send(command, stream)
    }
    return client
  })
  const locks = createLocks(redlock({ clients })) as unknown as Locks
  t.after(async () => {
    await locks.close()
    for (const client of clients) client.disconnect()
  })
  const take = () => {
    const copies = sent.splice(0)
    return async () => {
      for (const { name, args, to } of copies) await raw[to]?.call(name, ...args).catch(() => undefined)
    }
  }
  return { locks, take }
}

/** Much longer than these tests: no lease ends meanwhile. */
const short = 20_000
const long = 25_000

const kinds = { 'an exclusive lock': 'write', 'a reader': 'read' } as const

for (const [kind, side] of Object.entries(kinds)) {
  test(`redlock: a late copy of the acquire or of a renewal of ${kind} does not shorten an extended hold`, async (t) => {
    const { locks, take } = record(t)
    const lease = await locks.readWrite(kind)[side].acquire({ ttl: short, autoRenew: false })
    const acquired = take()
    await lease.extend(short)
    const renewed = take()
    await lease.extend(long)
    await acquired()
    await renewed()
    await lasts(locks, lease, long, long - short)
    await lease.extend(short)
    await lasts(locks, lease, short, long - short)
    await lease.release()
  })
}

for (const [kind, side] of Object.entries(kinds)) {
  test(`redlock: a late copy of a shorter extend of ${kind} does not shorten a hold extended since`, async (t) => {
    const { locks, take } = record(t)
    const name = `${kind}, shorter`
    const lease = await locks.readWrite(name)[side].acquire({ ttl: long, autoRenew: false })
    const copies: (() => Promise<void>)[] = []
    for (let round = 0; round < 3; round++) {
      take()
      await lease.extend(short)
      copies.push(take())
      await lasts(locks, lease, short, long - short)
      await lease.extend(long)
      for (const again of copies) await again()
      await lasts(locks, lease, long, long - short)
    }
    assert.equal(await lease.release(), 'released')
    for (const again of copies) await again()
    assert.deepEqual((await locks.inspect(name)).holders, [])
  })

  test(`redlock: nor if the servers lost the votes of ${kind} and gave them anew`, async (t) => {
    const { locks, take } = record(t)
    const name = `${kind}, given anew`
    const lease = await locks.readWrite(name)[side].acquire({ ttl: long, autoRenew: false })
    take()
    await lease.extend(short)
    const again = take()
    for (const one of raw) await one.del(...(await one.keys(`*${name}*`)))
    await lease.extend(long)
    await again()
    await lasts(locks, lease, long, long - short)
    await lease.release()
  })
}

test('redlock: a vote given already keeps the number of a later request for it', async () => {
  const [server] = raw
  assert.ok(server)
  await server.set('marker', 'boot')
  const ask = (script: Script, args: readonly string[]) =>
    server.eval(script.text, 2, 'vote', 'marker', 'boot', 'attempt', ...args) as Promise<string | unknown[]>
  const [seconds, micros] = await server.time()
  const ballot = `${seconds}${String(micros).padStart(6, '0')}`
  const vote = (term: string, rejoin: string) => ['1', 'x', term, ballot, rejoin, '60000', 'by', '-', '0', '']
  assert.equal(String(await ask(scripts.vote, vote('20000000', '0')))[0], 'y')
  assert.equal(String(await ask(scripts.vote, vote('25000000 7', '1')))[0], 'y')
  assert.equal(String(await ask(scripts.renew, ['10000000 6', '60000']))[0], 'y')
  const inspected = (await server.eval(scripts.inspect.text, 1, 'vote')) as string[]
  assert.ok(Number(inspected[6]) > 20_000_000, `the vote ends in ${inspected[6]} µs, not in 25 s`)
})

after(leakCheck)
