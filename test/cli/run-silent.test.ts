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

/** Signals the run after so many ms, and requires that it ends of the signal. */
async function interrupted(run: Running, ms: number, told: RegExp): Promise<void> {
  let over = false
  void run.ended.then(() => {
    over = true
  })
  await new Promise((resolve) => setTimeout(resolve, ms))
  // On a busy machine it may have come to its own end before.
  const expected = over ? 69 : 129
  kill(run.pid, 'SIGHUP')
  const { code, stdout, stderr } = await run.ended
  assert.deepEqual([code, stdout], [expected, ''], stderr)
  if (expected === 129) assert.match(stderr, told)
}

/** Does the process handle HUP by now? Node by itself does not. */
function handlesHup({ pid }: Running): boolean {
  const [, mask = '0'] = /^SigCgt:\s*(\w+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return (BigInt(`0x${mask}`) & 1n) === 1n
}

test('HUP after the wait has ended, while the store is asked for the holder', async () => {
  const runs = [2_100, 3_000].map((ms) => ({
    ms,
    run: b.start('run', 'x', '--wait', '3s', '--', 'echo', 'ran'),
  }))
  const waiting = () => runs.every(({ run }) => run.stderr().includes('waiting'))
  await until(waiting, { within: 60_000, what: 'the runs to wait' })
  // They have waited for a second by now, and ask for the holder for two seconds after their three.
  server.pause()
  const told = /^holdfast: waiting .* for "x".*\n(holdfast: waiting .*the store cannot be asked.*\n)?$/
  await Promise.all(runs.map(({ ms, run }) => interrupted(run, ms, told)))
  server.resume()
})

test('HUP while a single attempt is not answered', async () => {
  server.pause()
  const runs = [0, 500, 3_000].map((ms) => ({
    ms,
    run: b.start('run', 'x', '--no-wait', '--', 'echo', 'ran'),
  }))
  const ready = () => runs.every(({ run }) => handlesHup(run))
  await until(ready, { within: 60_000, what: 'the runs to handle signals' })
  await Promise.all(runs.map(({ ms, run }) => interrupted(run, ms, /^$/)))
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
