/** One process of a storm: four concurrent tasks acquire, work and release, and count the outcomes. */
import { createLocks } from 'holdfast'
import { names, openClient, type StoreName } from './store.js'

export interface Counted {
  /** Sections entered, of all kinds. */
  readonly acquisitions: number
  /** Of these, those that incremented the counter. */
  readonly counted: number
  /** Errors thrown, by code of holdfast and of the server. */
  readonly errors: Readonly<Record<string, number>>
}

export interface Task {
  readonly store: StoreName
  readonly port: number
  readonly n: number
}

const { store, port, n }: Task = JSON.parse(process.argv[2] ?? '')
const client = openClient(store, port, n)
const locks = createLocks(client.driver, { ttl: 30_000, wait: Number.POSITIVE_INFINITY })
const errors: Record<string, number> = {}
let acquisitions = 0
let counted = 0
let over = false

process.on('message', (order: 'begin' | 'end') => {
  if (order === 'end') over = true
  else void work()
})
process.on('disconnect', () => process.exit(0))
await locks.mutex('warm').run(() => undefined)
process.send?.('ready')

async function work(): Promise<void> {
  await Promise.all([0, 1, 2, 3].map(lane))
  await locks.close()
  await client.close()
  const told: Counted = { acquisitions, counted, errors }
  process.send?.(told, () => process.disconnect())
}

async function lane(offset: number): Promise<void> {
  for (let turn = n + offset; !over; turn++) await once(turn).catch(countError)
}

async function once(turn: number): Promise<void> {
  const name = names[turn % names.length] ?? ''
  const inside = () => void acquisitions++
  switch (turn % 7) {
    case 0:
      return locks.readWrite('shelf').read.run(inside)
    case 1:
      return locks.semaphore('seats', { permits: 4 }).run(inside)
    case 2:
      return locks.readWrite('shelf').write.run(inside)
    case 3: {
      const lease = await locks.mutex(name).tryAcquire()
      if (lease === undefined) return
      inside()
      await lease.release()
      return
    }
    default:
      return locks.mutex(name).run(async () => {
        inside()
        await client.count(name)
        counted++
      })
  }
}

function countError(error: { code?: unknown; cause?: { code?: unknown } }): void {
  const codes = [error.code, error.cause?.code].filter((one) => one !== undefined).join(' ')
  const key = codes || String(error)
  errors[key] = (errors[key] ?? 0) + 1
}
