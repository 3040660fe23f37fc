// A process in which many wait for one name. Arguments: the store, and its address.
import { createLocks } from 'holdfast'
import { openStore, type StoreName } from '../crowd/stores.js'
import { stamp } from '../stamp.js'
import { serve } from '../worker-process.js'

const [store = '', address = ''] = process.argv.slice(2)
const client = openStore(store as StoreName, address)
const locks = createLocks(client.driver, { ttl: 60_000, wait: Number.POSITIVE_INFINITY })

let stop = new AbortController()
let granted: number[] = []
const errors = new Map<string, number>()
let lanes: Promise<unknown>[] = []

async function lane(name: string, fair: boolean, { signal }: AbortController): Promise<void> {
  while (!signal.aborted) {
    try {
      const lease = await locks.mutex(name).acquire({ fair, signal })
      granted.push(stamp())
      await lease.release()
    } catch (error) {
      if (signal.aborted) return
      const text = error instanceof Error ? error.message : String(error)
      errors.set(text, (errors.get(text) ?? 0) + 1)
    }
  }
}

/** When the lock was granted here; requests sent, and ms of processor, so far. */
interface Look {
  readonly granted: readonly number[]
  readonly sent: number
  readonly busy: number
  readonly errors: readonly string[]
}

const handlers = {
  async open(): Promise<void> {
    await locks.mutex(`warm ${process.pid}`).run(() => undefined)
  },

  /** From now on so many want the lock, again and again. */
  enter(name: string, waiters: number, fair: boolean): void {
    stop = new AbortController()
    granted = []
    errors.clear()
    lanes = Array.from({ length: waiters }, () => lane(name, fair, stop))
  },

  look(): Look {
    const { user, system } = process.cpuUsage()
    return {
      granted,
      sent: client.sent(),
      busy: (user + system) / 1000,
      errors: [...errors].map(([text, count]) => `${count} × ${text}`),
    }
  },

  /** All give up at once. Milliseconds until another name is answered meanwhile, and until all have gone. */
  async leave(): Promise<{ readonly another: number; readonly all: number }> {
    const began = stamp()
    stop.abort()
    const other = locks
      .mutex(`another ${process.pid}`)
      .run(() => undefined)
      .then(() => stamp() - began)
    await Promise.all(lanes)
    const all = stamp() - began
    return { another: await other, all }
  },
}

export type CrowdMember = typeof handlers

serve(handlers, async () => {
  await locks.close()
  await client.close()
})
