// A process that uses the locks of a directory. Arguments: the directory, the name of the bare server's socket.
import { connect } from 'node:net'
import { createLocks, type Lease } from 'holdfast'
import { local } from 'holdfast/local'
import { type Bare, connectBare } from '../floors/request-reply.js'
import { somebodyWaits, spin, type Turn } from '../hand-over.js'
import { stamp } from '../stamp.js'
import { serve } from '../worker-process.js'

const [directory = '', socketName = ''] = process.argv.slice(2)
// No argument can begin with the zero byte of an abstract name.
const barePath = socketName.replace(/^@/, '\0')
const locks = createLocks(local({ directory }))
let bare: Bare | undefined
let relaying: Promise<readonly number[]> | undefined
let waitingSince = 0
let reported = (): void => undefined
locks.on('waiting', () => {
  waitingSince = stamp()
  reported()
})

let lease: Lease | undefined
let granting: Promise<number> | undefined

const handlers = {
  /** Acquires `name` and keeps it. Also opens a bare connection, which ends only with the process. */
  async hold(name: string): Promise<void> {
    lease = await locks.mutex(name).acquire()
    connect({ path: barePath }).on('error', () => undefined)
  },

  /** Queues for `name`; resolves once the store has confirmed it. */
  async standInLine(name: string): Promise<void> {
    const standing = new Promise<void>((resolve) => {
      reported = resolve
    })
    granting = locks
      .mutex(name)
      .acquire({ wait: 60_000 })
      .then((granted) => {
        const at = stamp()
        lease = granted
        return at
      })
    await standing
  },

  /** When the queued request was granted. Releases it. */
  async granted(): Promise<number> {
    const at = (await granting) ?? Number.NaN
    await lease?.release()
    return at
  },

  /** Acquires and releases `name` `times` times. */
  async takeTurns(name: string, times: number): Promise<readonly Turn[]> {
    const turns: Turn[] = []
    for (let i = 0; i < times; i++) {
      waitingSince = Number.POSITIVE_INFINITY
      const lease = await locks.mutex(name).acquire()
      const granted = stamp()
      const awaited = await somebodyWaits(locks, name, i === times - 1)
      spin()
      const released = stamp()
      const done = lease.release()
      turns.push({ token: lease.token, waitingSince, granted, released, awaited })
      await done
    }
    return turns
  },

  /** Times of bare round trips, in ms, each after a pause like that of a holder. */
  async roundTrips(times: number, request: readonly unknown[]): Promise<readonly number[]> {
    bare ??= await connectBare(barePath)
    const took: number[] = []
    for (let i = 0; i < times; i++) {
      spin()
      const sent = stamp()
      await bare.ask(request)
      took.push(stamp() - sent)
    }
    return took
  },

  /** Records the arrival of each of `times` relayed lines. `relayed` returns the times. */
  async listen(times: number): Promise<void> {
    const arrived: number[] = []
    await new Promise<void>((listening) => {
      relaying = new Promise((resolve) => {
        const open = connectBare(barePath, () => {
          arrived.push(stamp())
          if (arrived.length < times) return
          resolve(open.then((subscriber) => subscriber.close()).then(() => arrived))
        })
        void open.then((subscriber) => subscriber.ask(['listen'])).then(() => listening())
      })
    })
  },

  relayed: async (): Promise<readonly number[]> => (await relaying) ?? [],

  /** Sends `times` lines to the listener, each after a pause like that of a holder; resolves with the times of sending. */
  async relay(times: number, request: readonly unknown[]): Promise<readonly number[]> {
    bare ??= await connectBare(barePath)
    const sent: number[] = []
    for (let i = 0; i < times; i++) {
      spin()
      sent.push(stamp())
      await bare.ask(['relay', ...request])
    }
    return sent
  },
}

export type LocalMember = typeof handlers

serve(handlers, async () => {
  await bare?.close()
  await locks.close()
})
