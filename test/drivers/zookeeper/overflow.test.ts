// The overflow of the server's sequence numbers, on a real server whose data put it close to the limit.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { promisify } from 'node:util'
import { createLocks, type DriverFactory } from 'holdfast'
import { check, memoryRecorder, printViolation, recordLocks } from 'holdfast/verify'
import { zookeeper } from '../../../src/drivers/zookeeper/index.js'
import { leakCheck } from '../../support/leaks.js'
import { classPath, javaPrograms } from '../../support/servers/java.js'
import { checkout, makeFolder } from '../../support/servers/places.js'
import { startZookeeper, zookeeperJars } from '../../support/servers/zookeeper.js'
import { until } from '../../support/until.js'
import { quick } from './support/clients.js'

const run = promisify(execFile)
const name = 'full'

/** Writes data into the folder of a server, by which the next place gets the number `next`. */
async function almostFull(data: string, next: number): Promise<void> {
  const [programs, jars] = [await javaPrograms(), await classPath('zookeeper', zookeeperJars)]
  const folder = makeFolder('almost-full')
  const source = join(checkout, 'test/interop/zookeeper/AlmostFull.java')
  await run(join(programs, 'javac'), ['-nowarn', '-cp', jars, '-d', folder.path, source])
  const args = ['AlmostFull', data, '/holdfast', `/holdfast/${name}`, String(next)]
  await run(join(programs, 'java'), ['-cp', `${jars}:${folder.path}`, ...args], { cwd: folder.path })
  await folder.remove()
}

/** The numbers of the places there are now, by the server. */
async function numbers(ask: (word: string) => Promise<string>): Promise<number[]> {
  return [...(await ask('dump')).matchAll(/-lock-(-?\d+)/g)].map(([, digits]) => Number(digits))
}

test('when the numbers are exhausted there is one holder at a time, everybody is served, and the numbers restart', async () => {
  const server = await startZookeeper({
    prepare: (data) => almostFull(data, 2147483640),
    config: ['maxSessionTimeout=60000'],
  })
  const recorder = memoryRecorder()
  const clients = Array.from({ length: 3 }, () =>
    createLocks(zookeeper({ servers: server.address, ...quick, sessionTimeout: 30_000 }) as DriverFactory),
  )
  // Everybody is in the queue before the first goes: if the line were empty for a moment, the numbers would begin again before their end.
  const door = createLocks(
    zookeeper({ servers: server.address, ...quick, sessionTimeout: 30_000 }) as DriverFactory,
  )
  const first = await door.mutex(name).acquire()
  const seen = new Set<number>()
  let troubles = 0
  const work = clients.flatMap((locks) => {
    locks.on('waiting', ({ blocked }) => {
      if (/are exhausted/.test(blocked.error?.message ?? '')) troubles++
    })
    const lock = recordLocks(locks, recorder).mutex(name)
    return [0, 1].map(async () => {
      for (let i = 0; i < 8; i++) {
        const section = async () => {
          for (const number of await numbers(server.ask)) seen.add(number)
        }
        await lock.run(section, { wait: 120_000, fair: true })
      }
    })
  })
  await until(async () => (await door.inspect(name)).waiters.length === work.length, {
    within: 60_000,
  })
  await first.release()
  await Promise.all(work)
  // Order is not promised across the end of the numbers.
  const violations = check(recorder.history(), {
    falseBusy: false,
    fifo: false,
    liveness: { within: 120_000 },
  })
  assert.equal(violations.slice(0, 3).map(printViolation).join('\n\n'), '')
  assert.ok(seen.has(2147483647), 'the end was reached')
  assert.ok(troubles > 0, 'somebody met a tie')
  const lease = await (clients[0] as (typeof clients)[number]).mutex(name).acquire()
  const [number = -1] = await numbers(server.ask)
  assert.ok(number >= 0 && number < 1_000, `the count goes on at ${number}`)
  await lease.release()
  for (const locks of [door, ...clients]) await locks.close()
  await server.stop()
})

after(leakCheck)
