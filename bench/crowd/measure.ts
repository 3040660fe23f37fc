/** Many waiters on one name, in one process or in several: what it costs when they come, wait, are served, and give up. */
import { setTimeout as sleep } from 'node:timers/promises'
import { createLocks, type Locks } from 'holdfast'
import { stamp } from '../stamp.js'
import { type Member, startWorker } from '../worker-process.js'
import type { CrowdMember } from '../workers/crowd-member.js'
import { type Crowded, openStore, type StoreName } from './stores.js'

export interface Crowd {
  readonly waiters: number
  readonly processes: number
  readonly fair: boolean
}

export interface Seen extends Crowd {
  /** Of those in the store's queue, after `entering` ms. */
  readonly queued: number
  readonly entering: number
  /** Requests for each that came. */
  readonly toEnter: number
  /** While nothing happens: requests a second, and percent of a core, of all processes together. */
  readonly idle: number
  readonly busy: number
  /** Grants from the release of the first holder on, how long they took in ms, and requests for each. */
  readonly grants: number
  readonly took: number
  readonly toPass: number
  /** Longest ms until another name was answered while all gave up, and until all had. */
  readonly another: number
  readonly left: number
  readonly errors: readonly string[]
}

const handOvers = 200
/** ms: for all to be in the queue; of observation while nothing happens; for the hand-overs. */
const timeout = { entering: 60_000, still: 3_000, passing: 30_000 }

export async function measureCrowd(name: StoreName, store: Crowded, crowd: Crowd): Promise<Seen> {
  const { processes } = crowd
  const module = new URL('../workers/crowd-member.js', import.meta.url)
  const members = Array.from({ length: processes }, () =>
    startWorker<CrowdMember>(module, [name, store.address]),
  )
  const own = openStore(name, store.address)
  const locks = createLocks(own.driver, { ttl: 600_000 })
  try {
    await Promise.all(members.map((member) => member.ask('open')))
    return await watch(store, members, locks, crowd)
  } finally {
    await Promise.all(members.map((member) => member.stop()))
    await locks.close()
    await own.close()
  }
}

type Members = readonly Member<CrowdMember>[]

async function watch(store: Crowded, members: Members, locks: Locks, crowd: Crowd): Promise<Seen> {
  const { waiters, processes, fair } = crowd
  const name = `crowd ${waiters} ${processes} ${fair}`
  const look = async () => {
    const all = await Promise.all(members.map((member) => member.ask('look')))
    const sent = all.reduce((sum, { sent }) => sum + sent, 0)
    const busy = all.reduce((sum, { busy }) => sum + busy, 0)
    const requests = (await store.served?.()) ?? sent
    const granted = all.flatMap(({ granted }) => granted).sort((a, b) => a - b)
    return { at: stamp(), requests, busy, granted, errors: all.flatMap(({ errors }) => errors) }
  }
  const held = await locks.mutex(name).acquire()
  const before = await look()
  await Promise.all(members.map((member) => member.ask('enter', name, waiters / processes, fair)))
  const { queued, looks } = await inQueue(locks, name, fair ? waiters : processes)
  const entered = await look()
  await sleep(500)
  const quiet = await look()
  await sleep(timeout.still)
  const waited = await look()
  const seconds = (waited.at - quiet.at) / 1000
  const released = stamp()
  await held.release()
  let passed = await look()
  while (passed.granted.length < handOvers && stamp() - released < timeout.passing) {
    await sleep(20)
    passed = await look()
  }
  const grants = Math.min(passed.granted.length, handOvers)
  const left = await Promise.all(members.map((member) => member.ask('leave')))
  return {
    ...crowd,
    queued,
    entering: entered.at - before.at,
    toEnter: (entered.requests - before.requests - looks) / waiters,
    idle: (waited.requests - quiet.requests) / seconds,
    busy: ((waited.busy - quiet.busy) / seconds / 1000) * 100,
    grants,
    took: (passed.granted[grants - 1] ?? Number.NaN) - released,
    toPass: (passed.requests - waited.requests) / passed.granted.length,
    another: Math.max(...left.map(({ another }) => another)),
    left: Math.max(...left.map(({ all }) => all)),
    errors: passed.errors,
  }
}

async function inQueue(locks: Locks, name: string, most: number): Promise<{ queued: number; looks: number }> {
  const end = stamp() + timeout.entering
  for (let looks = 1; ; looks++) {
    const { waiters, unlisted = 0 } = await locks.inspect(name)
    const queued = waiters.length + unlisted
    if (queued >= most || stamp() > end) return { queued, looks }
    await sleep(50)
  }
}
