// A process of its own, started with --expose-gc: the tests' leak check keeps stacks, and with them what they refer to.
import { createLocks } from 'holdfast'
import { memory } from 'holdfast/memory'
import { until } from '../support/until.js'

const collect = globalThis.gc ?? (() => process.exit(3))
const locks = createLocks(memory(), { leakWarning: true })
const told: unknown[] = []
locks.on('leaked', (event) => told.push(event))
const heard: unknown[] = []
process.on('warning', ({ message, ...more }) => {
  const { code, detail } = more as { code?: string; detail?: string }
  heard.push({ message, code, detail })
})

async function forgetful(name: string): Promise<number> {
  const lease = await locks.mutex(name).acquire({ note: 'forgotten' })
  return lease.token
}

async function once(run: () => Promise<unknown>): Promise<void> {
  await run()
}

await once(async () => (await locks.mutex('released').acquire()).release())
await once(() => locks.mutex('run').run(() => undefined))
await once(async () => {
  await forgetful('lost')
  await locks.forceRelease('lost')
})
const kept = await locks.mutex('kept').acquire()
const token = await forgetful('forgotten')
await until(() => {
  collect()
  return told.length > 0 && heard.length > 0
})
// Whatever else could be found has been by the time another object is.
let collected = false
const registry = new FinalizationRegistry(() => {
  collected = true
})
registry.register({}, undefined)
await until(() => {
  collect()
  return collected
})
await kept.release()
await locks.close()
console.log(JSON.stringify({ token, told, heard }))
