// A process that locks in PostgreSQL, and one end of a bare NOTIFY. Argument: the server's URL.
import { createLocks } from 'holdfast'
import { postgres } from 'holdfast/postgres'
import { Client, Pool } from 'pg'
import { somebodyWaits, spin, type Turn } from '../hand-over.js'
import { stamp } from '../stamp.js'
import { serve } from '../worker-process.js'

const [url = ''] = process.argv.slice(2)
const pool = new Pool({ connectionString: url })
const locks = createLocks(postgres({ pool }))
const bare = new Client(url)
const heard: number[] = []
let waitingSince = Number.POSITIVE_INFINITY
let reported = (): void => undefined
locks.on('waiting', () => {
  waitingSince = Math.min(waitingSince, stamp())
})
bare.on('notification', ({ payload }) => {
  heard.push(stamp() - Number(payload))
  reported()
})

const handlers = {
  async open(): Promise<void> {
    await bare.connect()
    await locks.mutex(`warm ${process.pid}`).run(() => undefined)
  },

  /** Acquires and releases `name` `times` times. */
  async takeTurns(name: string, times: number): Promise<readonly Turn[]> {
    const turns: Turn[] = []
    for (let i = 0; i < times; i++) {
      waitingSince = Number.POSITIVE_INFINITY
      const lease = await locks.mutex(name).acquire({ wait: 60_000 })
      const granted = stamp()
      const awaited = await somebodyWaits(locks, name, i === times - 1)
      // As long as the bare client works before it notifies.
      spin(2)
      const released = stamp()
      turns.push({ token: lease.token, waitingSince, granted, released, awaited })
      await lease.release()
    }
    return turns
  },

  async listen(channel: string): Promise<void> {
    await bare.query(`listen ${channel}`)
  },

  /** The other end receives each notification before the next is sent. */
  async notify(channel: string): Promise<void> {
    spin(2)
    await bare.query('select pg_notify($1, $2)', [channel, String(stamp())])
  },

  /** Milliseconds from sending to receipt, for all notifications since the last call; waits until there are `count`. */
  async heard(count: number): Promise<readonly number[]> {
    while (heard.length < count) {
      await new Promise<void>((resolve) => {
        reported = resolve
      })
    }
    return heard.splice(0)
  },
}

export type PostgresMember = typeof handlers

serve(handlers, async () => {
  await locks.close()
  await Promise.all([pool.end(), bare.end()])
})
