// A store that accepts connections and does not answer: the run ends when it is told to, wherever it is in its wait.
// Second tier because a store that does not answer has to be waited for.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
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

after(leakCheck)
