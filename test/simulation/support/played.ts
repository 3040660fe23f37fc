// Plays schedules as `npm run simulate` does, in a process of its own: in that of a test Node's runner follows every promise, and a
// schedule costs a quarter more.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

const main = fileURLToPath(new URL('../../../lab/simulation/main.js', import.meta.url))

type Store = 'memory' | 'table' | 'minting' | 'redis'

/** @throws AssertionError with the story of a schedule that broke a promise of `store`, or when there were not as many as `runs` */
export async function nothingFound(store: Store, runs: number, seed = 1): Promise<void> {
  await countsOf(store, runs, seed)
}

/**
 * The same.
 * @returns how often a kept lock was used again, given to others, and of these to single attempts
 */
export async function countsOf(store: Store, runs: number, seed = 1): Promise<readonly number[]> {
  // What a world leaves behind dies young, and there is much of it: with more room it is swept less often.
  const young = '--max-semi-space-size=32'
  const args = ['--enable-source-maps', young, main, store, '--runs', `${runs}`, '--seed', `${seed}`]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  const end = () => child.kill()
  process.once('exit', end)
  let said = ''
  child.stdout.setEncoding('utf8').on('data', (text) => {
    said += text
  })
  const [code] = await once(child, 'close')
  process.off('exit', end)
  assert.equal(code, 0, said)
  const [what, count] = [store.padEnd(60), runs.toLocaleString('en').padStart(9)]
  const [, counts] = / {2}nothing found(?:; (.*))?\n$/.exec(said) ?? []
  assert.ok(said.startsWith(`ok  ${what} ${count} schedules `) && / {2}nothing found.*\n$/.test(said), said)
  return (counts?.match(/\d+/g) ?? []).map(Number)
}
