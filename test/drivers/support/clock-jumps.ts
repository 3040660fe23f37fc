// The wall clock of a client is set an hour ahead and two hours back, as by an operator or a bad NTP server, while it holds and waits.
import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import type { Locks } from 'holdfast'
import { makeFolder } from '../../support/servers/places.js'
import { shim } from '../../support/servers/shims.js'
import { until } from '../../support/until.js'

export interface ClockTask {
  /** Exports `make`, which takes `args` and gives a driver. */
  readonly module: string
  readonly args: readonly unknown[]
  readonly held: string
  readonly awaited: string
  readonly ttl: number
}

export type FromClockChild =
  | { readonly is: 'held' }
  | { readonly is: 'lost' }
  | { readonly is: 'renewed'; readonly wall: number }
  | { readonly is: 'granted'; readonly token: number; readonly stillHeld: boolean }

const hour = 3_600_000
const patient = { within: 60_000 }

/** @param direct of the same store, with a true clock */
export async function survivesClockJumps(
  t: TestContext,
  direct: Locks,
  { module, args }: Pick<ClockTask, 'module' | 'args'>,
): Promise<void> {
  const folder = makeFolder('clock')
  const file = join(folder.path, 'offset')
  const set = (ms: number) => {
    const bytes = Buffer.alloc(8)
    bytes.writeBigInt64LE(BigInt(ms))
    writeFileSync(file, bytes)
  }
  set(0)
  // Renewed every two seconds.
  const task: ClockTask = { module, args, held: 'clock held', awaited: 'clock awaited', ttl: 6_000 }
  const mine = await direct.mutex(task.awaited).acquire()
  const env = { ...process.env, LD_PRELOAD: await shim('clock'), HOLDFAST_CLOCK: file }
  const child = fork(new URL('./clock-child.js', import.meta.url), [JSON.stringify(task)], { env })
  const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  t.after(async () => {
    child.kill('SIGKILL')
    await gone
    await folder.remove()
  })
  const heard: FromClockChild[] = []
  child.on('message', (message: FromClockChild) => void heard.push(message))
  const waits = async () => (await direct.inspect(task.awaited)).waiters.length === 1
  await until(waits, { ...patient, what: 'the child to wait' })
  for (const offset of [hour, -hour]) {
    set(offset)
    const renewed = (message: FromClockChild) =>
      message.is === 'renewed' && Math.abs(message.wall - offset - Date.now()) < hour / 4
    await until(() => heard.some(renewed), { ...patient, what: `a renewal with the clock ${offset} ms off` })
    assert.equal(await direct.mutex(task.held).tryAcquire(), undefined)
    assert.ok(await waits())
  }
  assert.equal(await mine.release(), 'released')
  const granted = await until(() => heard.find((message) => message.is === 'granted'), patient)
  assert.ok(granted.is === 'granted' && granted.token > mine.token && granted.stillHeld)
  assert.ok(!heard.some(({ is }) => is === 'lost'))
}
