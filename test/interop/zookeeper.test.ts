// One queue with the real Curator (Java) and the real kazoo (Python).
// Second tier because the programs of others seldom change, and start slowly.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { createLocks, type DriverFactory, type Locks } from 'holdfast'
import { type ZookeeperOptions, zookeeper } from '../../src/drivers/zookeeper/index.js'
import { quick } from '../drivers/zookeeper/support/clients.js'
import { leakCheck } from '../support/leaks.js'
import { makeFolder } from '../support/servers/places.js'
import { startZookeeper } from '../support/servers/zookeeper.js'
import { until } from '../support/until.js'
import { curator, kazoo, type Other, tidy } from './zookeeper/others.js'

const server = await startZookeeper({ config: ['maxSessionTimeout=60000'] })
const chroot = '/locks'
/** Programs in Java and Python take their time on a busy machine. */
const patient = { within: 60_000 }
const open = (more: Partial<ZookeeperOptions> = {}): Locks =>
  createLocks(
    zookeeper({
      servers: server.address,
      chroot,
      ...quick,
      sessionTimeout: 30_000,
      ...more,
    } as ZookeeperOptions) as DriverFactory,
  )

const others: Other[] = []
const begun = async (other: Promise<Other>): Promise<Other> => {
  const started = await other
  others.push(started)
  return started
}

const waiters = async (locks: Locks, name: string) => (await locks.inspect(name)).waiters.length

/** Ours and theirs exclude each other, in either order. */
async function excludeEachOther(ours: Locks, other: Other, name: string): Promise<void> {
  const lease = await ours.mutex(name).acquire({ note: 'ours' })
  assert.equal(await other.ask('try 200'), 'busy')
  const waiting = other.ask('acquire')
  await until(async () => (await waiters(ours, name)) === 1, patient)
  await lease.release()
  assert.equal(await waiting, 'acquired')
  assert.equal(await ours.mutex(name).tryAcquire(), undefined)
  const [holder] = (await ours.inspect(name)).holders
  assert.ok(holder !== undefined && holder.token > lease.token)
  const next = ours.mutex(name).acquire()
  await until(async () => (await waiters(ours, name)) === 1, patient)
  assert.equal(await other.ask('release'), 'released')
  const second = await next
  assert.ok(second.token > holder.token)
  await second.release()
}

describe('Curator', () => {
  test('and we exclude each other', async () => {
    const ours = open()
    await excludeEachOther(ours, await begun(curator(server.address, `${chroot}/c`)), 'c')
    await ours.close()
  })

  test('takes our readers and permits for mutexes', async () => {
    const ours = open()
    const other = others[0] as Other
    for (const lock of [ours.readWrite('c').read, ours.semaphore('c', { permits: 2 })]) {
      const lease = await lock.acquire()
      assert.equal(await other.ask('try 200'), 'busy')
      await lease.release()
      assert.equal(await other.ask('try 60000'), 'acquired')
      assert.equal(await lock.tryAcquire(), undefined)
      await other.ask('release')
    }
    await ours.close()
  })
})

describe('kazoo', () => {
  test('and we exclude each other when our places are named as its own', async () => {
    const ours = open({ names: 'kazoo' })
    await excludeEachOther(ours, await begun(kazoo(server.address, `${chroot}/k1`, 'plain')), 'k1')
    const lease = await ours.readWrite('k1').write.acquire()
    assert.equal(await (others.at(-1) as Other).ask('try 200'), 'busy')
    await lease.release()
    await ours.close()
  })

  test('and we exclude each other when it is told our names', async () => {
    const ours = open()
    await excludeEachOther(ours, await begun(kazoo(server.address, `${chroot}/k2`, 'patterns')), 'k2')
    await ours.close()
  })

  test('shows in `inspect` with the identifier it was given', async () => {
    const ours = open()
    const other = others.at(-1) as Other
    await other.ask('acquire')
    const [holder] = (await ours.inspect('k2')).holders
    assert.equal(holder?.client, 'kazoo')
    await assert.rejects(ours.mutex('k2').acquire({ wait: 10_000 }), { message: /held by kazoo/ })
    await other.ask('release')
    await ours.close()
  })
})

describe('a mixed crowd', () => {
  test('is served in the order in which it came', async () => {
    const name = 'crowd'
    const path = `${chroot}/${name}`
    const ours = open()
    const crowd = [
      await begun(curator(server.address, path)),
      await begun(kazoo(server.address, path, 'curator')),
      await begun(kazoo(server.address, path, 'curator')),
    ] as const
    const served: number[] = []
    const waits: Promise<unknown>[] = []
    const lease = await ours.mutex(name).acquire()
    const stand = async (i: number, wait: () => Promise<unknown>) => {
      waits.push(wait())
      await until(async () => (await waiters(ours, name)) === i + 1, patient)
    }
    const theirs = (i: number, other: Other) => async () => {
      assert.equal(await other.ask('acquire'), 'acquired')
      served.push(i)
      await other.ask('release')
    }
    const mine = (i: number) => () => ours.mutex(name).run(() => void served.push(i), { fair: true })
    await stand(0, theirs(0, crowd[1]))
    await stand(1, mine(1))
    await stand(2, theirs(2, crowd[0]))
    await stand(3, mine(3))
    await stand(4, theirs(4, crowd[2]))
    await stand(5, mine(5))
    await lease.release()
    await Promise.all(waits)
    assert.deepEqual(served, [0, 1, 2, 3, 4, 5])
    await ours.close()
  })

  test('never has two inside', async () => {
    const path = `${chroot}/crowd`
    const folder = makeFolder('count')
    const file = join(folder.path, 'count')
    writeFileSync(file, '0')
    const crowd = others.slice(-3)
    const ours = [open(), open()]
    const rounds = 40
    const counting = crowd.map((other) => other.ask(`count ${rounds} ${file}`))
    const mine = ours.map(async (locks) => {
      for (let i = 0; i < rounds; i++) {
        await locks.mutex('crowd').run(
          async () => {
            const seen = Number(readFileSync(file, 'utf8'))
            await new Promise(setImmediate)
            writeFileSync(file, String(seen + 1))
          },
          { wait: 120_000 },
        )
      }
    })
    await Promise.all([...mine, ...counting])
    assert.equal(Number(readFileSync(file, 'utf8')), rounds * 5, path)
    await folder.remove()
    for (const locks of ours) await locks.close()
  })
})

after(async () => {
  for (const other of others) await other.stop()
  await tidy()
  await server.stop()
})
after(leakCheck)
