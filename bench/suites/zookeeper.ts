/** One ZooKeeper server: ours beside a bare connection that does the same writes, and beside Curator and kazoo. */
import { createLocks, type DriverFactory, type Lease, type Locks } from 'holdfast'
import { zookeeper } from 'holdfast/zookeeper'
import { startZookeeper, type ZookeeperServer } from '../../test/support/servers/zookeeper.js'
import { compareLibraries, pairWorker } from '../comparison.js'
import { type Counted, eachOnce } from '../each-once.js'
import { atLeast, type Comparison, type Figure, type Result } from '../figure.js'
import { type ZookeeperWire, zookeeperWire } from '../floors/zookeeper-wire.js'
import { type Rates, ratio, takeTurns } from '../rounds.js'
import { spread } from '../spread.js'
import type { Scale } from '../suite.js'
import { handThroughBare } from '../zookeeper/bare-line.js'
import { openOthers } from '../zookeeper/others.js'

const suite = 'zookeeper'
const atOnce = 64
const chroot = '/bench'
const warmUp = 3
/** Clients of a queue that is handed through: each has its own connection. */
const members = 4

export async function measureZookeeper(scale: Scale): Promise<readonly Result[]> {
  await using server = await startZookeeper()
  const driver: DriverFactory = zookeeper({ servers: server.address, chroot, sessionTimeout: 10_000 })
  const open = () => createLocks(driver)
  const locks = open()
  const wire = await zookeeperWire(server.port)
  try {
    const free = await measureFree(locks, wire, scale)
    return [
      speed('acquire + release', free, 'pair', { 'requests each': 3 }),
      speed(`the same, ${atOnce} names at once`, free, 'many'),
      await measureHandOffs(open, server.port, scale),
      await eachOnce(suite, driver, countPackets(server), scale),
      await compare(locks, server.address, scale),
    ]
  } finally {
    wire.close()
    await locks.close()
  }
}

/** Asking for the count is a packet itself. */
function countPackets(server: ZookeeperServer): Counted {
  let asked = 0
  return { requests: async () => (await server.received()) - ++asked }
}

type Free = Rates<'pair' | 'pairBare' | 'many' | 'manyBare'>

async function measureFree(locks: Locks, wire: ZookeeperWire, { effort }: Scale): Promise<Free> {
  const names = Array.from({ length: atOnce }, (_, i) => `many ${i}`)
  for (const path of [chroot, `${chroot}/bare`, ...names.map((name) => `${chroot}/bare ${name}`)])
    await wire.make(path)
  const ours = async (name: string) => {
    const lease = await locks.mutex(name).acquire()
    await lease.release()
  }
  const bare = async (parent: string) => wire.remove(await wire.enter(parent))
  return takeTurns(
    {
      pair: async (n) => {
        for (let i = 0; i < n; i++) await ours('one')
      },
      pairBare: async (n) => {
        for (let i = 0; i < n; i++) await bare(`${chroot}/bare`)
      },
      // Counted in batches.
      many: async (n) => {
        for (let i = 0; i < n; i++) await Promise.all(names.map(ours))
      },
      manyBare: async (n) => {
        for (let i = 0; i < n; i++) await Promise.all(names.map((name) => bare(`${chroot}/bare ${name}`)))
      },
    },
    effort,
  )
}

function speed(
  what: string,
  rates: Free,
  of: 'pair' | 'many',
  counts?: Readonly<Record<string, number>>,
): Figure {
  const pairs = of === 'many' ? atOnce : 1
  const perSecond = (own: readonly number[]) => spread(own.map((rate) => rate * pairs))
  const quotient = ratio(rates[of], rates[`${of}Bare`])
  return {
    suite,
    what,
    unit: 'per second',
    ours: perSecond(rates[of]),
    floor: { what: 'a bare connection', value: perSecond(rates[`${of}Bare`]), ratio: quotient },
    aim: atLeast(quotient.median, 0.8, '×'),
    ...(counts && { counts }),
  }
}

/** A long queue of several clients, handed through; the floor is the same queue over as many bare connections. */
async function measureHandOffs(open: () => Locks, port: number, scale: Scale): Promise<Figure> {
  const waiters = Math.min(200, scale.waiters)
  const rounds = scale.effort.rounds
  const clients = Array.from({ length: members }, open)
  const wires = await Promise.all(clients.map(() => zookeeperWire(port)))
  const ours: number[] = []
  const bare: number[] = []
  // The first few rounds warm up: a queue is long enough for the compiler to run in the middle of it.
  for (let round = -warmUp; round < rounds; round++) {
    const turns: [number[], () => Promise<number>][] = [
      [ours, () => handThrough(clients, `line ${round}`, waiters)],
      [bare, () => handThroughBare(wires, `${chroot}/bare line ${round}`, waiters)],
    ]
    for (const [rates, measure] of round % 2 === 0 ? turns : turns.toReversed()) {
      const rate = await measure()
      if (round >= 0) rates.push(rate)
    }
  }
  for (const locks of clients) await locks.close()
  for (const wire of wires) wire.close()
  const quotient = ratio(ours, bare)
  return {
    suite,
    what: `hand-offs through a line of ${waiters}`,
    unit: 'per second',
    ours: spread(ours),
    floor: { what: 'the same line of bare connections', value: spread(bare), ratio: quotient },
    counts: { 'requests each': 2, 'events each': 1 },
    aim: atLeast(quotient.median, 0.8, '×'),
  }
}

/** Hand-offs per second, from the first release to the last grant. */
async function handThrough(clients: readonly Locks[], name: string, waiters: number): Promise<number> {
  const [first] = clients
  if (first === undefined) throw new Error('there is no client')
  const holder = await first.mutex(name).acquire()
  let last = 0
  const pass = async (lease: Lease) => {
    last = performance.now()
    await lease.release()
  }
  const waits = Array.from({ length: waiters }, (_, i) =>
    (clients[i % clients.length] ?? first).mutex(name).acquire({ fair: true, wait: 60_000 }).then(pass),
  )
  const inLine = async () => (await first.inspect(name)).waiters.length
  while ((await inLine()) < waiters) await new Promise((resolve) => setTimeout(resolve, 20))
  const begin = performance.now()
  await holder.release()
  await Promise.all(waits)
  return waiters / ((last - begin) / 1000)
}

async function compare(locks: Locks, server: string, scale: Scale): Promise<Comparison> {
  const others = await openOthers(server)
  const ours = pairWorker(async () => (await locks.mutex('one').acquire()).release())
  const all = others.names.map((library) => ({
    library,
    settings: 'defaults',
    rate: (pairs: number) => others.rate(library, pairs),
  }))
  const note =
    'The server does not wait for its disk here, so that the clients are compared and not the disk.'
  try {
    return await compareLibraries(
      suite,
      [{ library: 'holdfast', settings: 'defaults', rate: ours }, ...all],
      scale,
      note,
    )
  } finally {
    await others.close()
  }
}
