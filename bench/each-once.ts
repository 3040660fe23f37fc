/**
 * Many tasks of several clients want one lock, each once: by default, where a grant is passed on inside the client with one request; with
 * `fair`; and by default without passing on. Entering the queue counts: it costs requests, wherever a measurement begins.
 */
import { createLocks, type DriverFactory, type Lease } from 'holdfast'
import type { Comparison } from './figure.js'
import { spread } from './spread.js'
import type { Scale } from './suite.js'

const clients = 4
const tasks = 32

interface Way {
  readonly library: string
  readonly settings: string
  readonly fair: boolean
  readonly driver: DriverFactory
}

export interface Counted {
  /** Requests this process has sent to the store so far. */
  requests(): number | Promise<number>
}

export async function eachOnce(
  suite: string,
  driver: DriverFactory,
  counted: Counted,
  { effort }: Scale,
): Promise<Comparison> {
  const ways: readonly Way[] = [
    { library: 'holdfast', settings: 'default', fair: false, driver },
    { library: 'holdfast', settings: 'fair', fair: true, driver },
    {
      library: 'holdfast',
      settings: 'default, every grant from the queue',
      fair: false,
      driver: withoutPassing(driver),
    },
  ]
  const found = ways.map(() => ({ whole: [] as number[], after: [] as number[], requests: [] as number[] }))
  for (let round = -2; round < effort.rounds; round++) {
    for (const i of round % 2 === 0 ? [0, 1, 2] : [2, 1, 0]) {
      const way = ways[i] as Way
      const one = await serve(way, `each once ${round} ${i}`, counted)
      if (round < 0) continue
      found[i]?.whole.push(one.whole)
      found[i]?.after.push(one.after)
      found[i]?.requests.push(one.requests)
    }
  }
  return {
    suite,
    what: `${clients * tasks} tasks of ${clients} clients want one lock, each once`,
    columns: [
      'grants per second from the first call',
      'grants per second from the first release',
      'requests each, entering included',
    ],
    rows: ways.map(({ library, settings }, i) => ({
      library,
      settings,
      values: [found[i]?.whole, found[i]?.after, found[i]?.requests].map((values) => spread(values ?? [])),
    })),
    note: 'The middle column begins when all that a way puts into the queue beforehand is there: with `fair` all of them, else one of each client.',
  }
}

/** The driver as it was before the store could mint a token for the next holder of the same process: each grant goes back to the store. */
function withoutPassing(driver: DriverFactory): DriverFactory {
  return (env) => {
    const made = driver(env)
    return {
      ...made,
      async acquire(claim, wait) {
        const grant = await made.acquire(claim, wait)
        if (grant !== undefined) Object.defineProperty(grant, 'nextToken', { value: undefined })
        return grant
      },
    }
  }
}

async function serve(
  { fair, driver }: Way,
  name: string,
  { requests }: Counted,
): Promise<{ readonly whole: number; readonly after: number; readonly requests: number }> {
  const all = Array.from({ length: clients }, () => createLocks(driver))
  const holder = createLocks(driver)
  const options = { fair, wait: 120_000, ttl: 600_000 }
  try {
    for (const locks of [holder, ...all]) await (await locks.mutex('warm').acquire(options)).release()
    const held = await holder.mutex(name).acquire(options)
    const before = await requests()
    let last = 0
    const once = async (lease: Lease) => {
      last = performance.now()
      await lease.release()
    }
    const start = performance.now()
    const waits = all.flatMap((locks) =>
      Array.from({ length: tasks }, () => locks.mutex(name).acquire(options).then(once)),
    )
    await settled(requests)
    const pause = performance.now()
    const entering = pause - start
    await held.release()
    await Promise.all(waits)
    const sent = (await requests()) - before
    const n = clients * tasks
    // The pause in which nothing happens any more is not part of the work.
    const took = last - pause
    return { whole: n / ((took + entering - quiet) / 1000), after: n / (took / 1000), requests: sent / n }
  } finally {
    for (const locks of [holder, ...all]) await locks.close()
  }
}

/** How long no request must leave for the queue to count as complete, in ms. */
const quiet = 300

async function settled(requests: Counted['requests']): Promise<void> {
  let [seen, since] = [-1, performance.now()]
  while (performance.now() - since < quiet) {
    const now = await requests()
    if (now !== seen) [seen, since] = [now, performance.now()]
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
}
