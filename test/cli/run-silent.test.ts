// A store that accepts connections and does not answer: the run ends when it is told to, wherever it is in its wait.
// Second tier because a store that does not answer has to be waited for.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { after, test } from 'node:test'
import { createLocks } from 'holdfast'
import { target } from '../../src/cli/connect.js'
import { leakCheck } from '../support/leaks.js'
import { startRedis } from '../support/servers/redis.js'
import { until } from '../support/until.js'
import { bench, kill, type Running } from './support/cli.js'

const server = await startRedis()
const b = bench(server.url)
const { driver, close } = await target(server.url).connect()
const locks = createLocks(driver)
const lease = await locks.mutex('x').acquire()

after(async () => {
  await lease.release()
  await locks.close()
  await close()
  await server.stop()
  b.close()
})

interface Started {
  readonly run: Running
  /** Clock reading before it was started. */
  readonly begun: number
}

function started(...args: readonly string[]): Started {
  const begun = performance.now()
  return { begun, run: b.start(...args) }
}

/**
 * Signals the run after this many ms, and requires that the signal ends it. A run that is older than `own` ms may have ended by itself: the
 * lock was not free, or the store did not answer.
 */
async function interrupted({ run, begun }: Started, ms: number, own: number, told: RegExp): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, ms))
  kill(run.pid, 'SIGHUP')
  const late = performance.now() - begun >= own
  const { code, stdout, stderr } = await run.ended
  assert.ok(code === 129 || (late && (code === 69 || code === 75)), `${code}: ${stderr}`)
  assert.equal(stdout, '')
  if (code === 129) assert.match(stderr, told)
}

/** Does the process handle HUP by now? Node by itself does not. */
function handlesHup({ pid }: Running): boolean {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    const [, mask = '0'] = /^SigCgt:\s*(\w+)$/m.exec(status) ?? []
    return (BigInt(`0x${mask}`) & 1n) === 1n
  } catch {
    // It has ended by itself.
    return true
  }
}

test('HUP after the wait has ended, while the store is asked for the holder', async () => {
  const runs = [2_100, 3_000].map((ms) => ({
    ms,
    one: started('run', 'x', '--wait', '3s', '--', 'echo', 'ran'),
  }))
  const waiting = () => runs.every(({ one }) => one.run.stderr().includes('waiting'))
  await until(waiting, { within: 60_000, what: 'the runs to wait' })
  // They have waited for a second by now, and ask for the holder for two seconds after their three.
  server.pause()
  const paused = performance.now()
  // A run that learned the holder just before the end of its wait does not ask again.
  const own = ({ begun }: Started) => (paused - begun < 2_500 ? 4_500 : 3_000)
  const told = /^holdfast: waiting .* for "x".*\n(holdfast: waiting .*the store cannot be asked.*\n)?$/
  await Promise.all(runs.map(({ ms, one }) => interrupted(one, ms, own(one), told)))
  server.resume()
})

test('HUP while a single attempt is not answered', async () => {
  server.pause()
  const runs = [0, 500, 3_000].map((ms) => ({
    ms,
    one: started('run', 'x', '--no-wait', '--', 'echo', 'ran'),
  }))
  const ready = () => runs.every(({ one }) => handlesHup(one.run))
  await until(ready, { within: 60_000, what: 'the runs to handle signals' })
  // It gives up when a request has had no answer for two seconds.
  await Promise.all(runs.map(({ ms, one }) => interrupted(one, ms, 2_000, /^$/)))
  server.resume()
})

/** A store that accepts connections, and says nothing on them. */
const connecting: Readonly<Record<string, (port: number) => string>> = {
  redis: (port) => `redis://127.0.0.1:${port}`,
  'redis+sentinel': (port) => `redis+sentinel://127.0.0.1:${port}/main`,
  'redis+cluster': (port) => `redis+cluster://127.0.0.1:${port}`,
  redlock: (port) => `redlock://127.0.0.1:${port},127.0.0.2:${port},127.0.0.3:${port}`,
  postgres: (port) => `postgres://app:pw@127.0.0.1:${port}/app`,
  mysql: (port) => `mysql://app:pw@127.0.0.1:${port}/app`,
  etcd: (port) => `etcd://127.0.0.1:${port}`,
  consul: (port) => `consul://127.0.0.1:${port}`,
  zookeeper: (port) => `zookeeper://127.0.0.1:${port}`,
}

for (const [name, toUrl] of Object.entries(connecting))
  test(`HUP while the connection to ${name} is not answered`, async (t) => {
    const sockets: Socket[] = []
    const silent = createServer((socket) => void sockets.push(socket.on('error', () => undefined)))
    silent.listen(0, '0.0.0.0')
    await once(silent, 'listening')
    t.after(async () => {
      const closed = once(silent.close(), 'close')
      for (const socket of sockets) socket.destroy()
      await closed
    })
    const run = b.start(
      'run',
      'x',
      '--on',
      toUrl((silent.address() as AddressInfo).port),
      '--',
      'echo',
      'ran',
    )
    await until(() => sockets.length > 0, { within: 60_000, what: 'the run to connect' })
    kill(run.pid, 'SIGHUP')
    const { code, stdout, stderr } = await run.ended
    assert.deepEqual([code, stdout], [129, ''], stderr)
    assert.doesNotMatch(stderr, /killed/)
  })

after(leakCheck)
