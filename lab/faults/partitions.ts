/** Cuts one member of a group off from the others: alone, or together with the clients connected to it, which do not notice. */
import type { MemberCables } from '../../test/support/servers/member-cables.js'
import type { Links } from './links.js'
import type { Act, Fault } from './store.js'

/** A member that can be cut off. */
export interface Apart {
  readonly port: number
  readonly pid: number
  pause(): void
  resume(): void
}

export interface Parted<Member extends Apart> {
  readonly servers: readonly Member[]
  readonly cables: MemberCables
  readonly links: Links
}

type Heal = () => Promise<void> | void

export interface Cut {
  readonly kind: string
  readonly weight?: number
  /** @returns a function that undoes it */
  begin(server: Apart, act: Act): Heal
  /** Its connections to workers are affected, too. */
  readonly clients: boolean
}

/** The three ways. */
export function listCuts<Member extends Apart>({ servers, cables, links }: Parted<Member>): Cut[] {
  const ports = servers.map(({ port }) => port)
  const apart = (server: Apart) => cables.isolate(ports.indexOf(server.port), server.pid)
  return [
    { kind: 'cut off from the others', clients: false, begin: (server) => apart(server) },
    {
      kind: 'cut off with its clients',
      clients: true,
      weight: 2,
      begin: (server, act) => both(apart(server), sides(links, ports, server.port, act)),
    },
    {
      kind: 'paused, and cut off with its clients as it wakes',
      clients: true,
      begin: (server, act) => both(wakesApart(server, apart, act), sides(links, ports, server.port, act)),
    },
  ]
}

/** The member wakes up cut off: it finds its clients' requests in its buffers, and nothing the others have sent since the cut. */
function wakesApart(server: Apart, apart: (server: Apart) => Heal, { lasts }: Act): Heal {
  server.pause()
  let heal: Heal = () => undefined
  const timer = setTimeout(() => {
    heal = apart(server)
    server.resume()
  }, lasts / 2)
  return () => {
    clearTimeout(timer)
    server.resume()
    return heal()
  }
}

/** Minimum interval between two partitions, in ms. A member that was cut off has to rejoin; cutting off another one sooner leaves no majority. */
const rest = 3_000

/**
 * For groups that agree and elect a leader.
 *
 * @param lasts as shares of the ttl: the longest leaves time for an election and for the expiry of an unrenewed queue entry
 */
export function partitions<Member extends Apart>(
  group: Parted<Member> & { leader(): Promise<Member> },
  lasts: readonly [least: number, most: number],
): Fault[] {
  const { servers, leader, links } = group
  const follower = async ({ amount }: Act) => {
    const present = await leader()
    const followers = servers.filter((one) => one !== present)
    return followers[Math.floor(amount * followers.length)] ?? present
  }
  const whom = { follower, leader } as const
  return Object.entries(whom).flatMap(([who, find]) =>
    listCuts(group).map(({ kind, weight = 1, clients, begin }) => ({
      kind: `${who}: ${kind}`,
      subjects: ['servers'],
      also: clients ? linkNames(links, servers.length) : [],
      lasts,
      apart: rest,
      family: 'partition',
      weight,
      begin: async (act: Act) => begin(await find(act), act),
    })),
  )
}

/** Reserves the links, so that nothing else cuts or heals what a partition needs. */
export function linkNames({ workers }: Links, servers: number): string[] {
  const each = Array.from({ length: workers }, (_, n) => n)
  const single = Array.from({ length: servers }, (_, m) => m)
  return each.flatMap((n) => [`link ${n}`, ...single.map((m) => `link ${n}.${m}`)])
}

/** Some workers are on the member's side: they reach no other server, and stay where they hold a lock. The other workers do not reach the member. */
function sides(
  { workers, cutOff }: Links,
  ports: readonly number[],
  port: number,
  { amount, lasts, workerPool }: Act,
): Heal {
  const isWith = withIt(workers, amount)
  for (let n = 0; n < workers; n++) if (isWith(n)) workerPool.send(n, { do: 'stay', ms: lasts })
  const how = digits(amount, 6) < 0.5 ? 'silent' : 'refused'
  const healed = Array.from({ length: workers }, (_, n) =>
    ports.filter((one) => (one === port) !== isWith(n)).map((one) => cutOff(n, one, how)),
  )
  return both(...healed.flat())
}

/** Selects the workers on the side of the member that is cut off: at least one, and not all if there are several. */
export function withIt(workers: number, amount: number): (worker: number) => boolean {
  const size = 1 + Math.floor(digits(amount, 2) * Math.max(1, workers - 1))
  const first = Math.floor(digits(amount, 4) * workers)
  return (worker) => (worker - first + workers) % workers < size
}

/** Derives another number in [0, 1) from the same one. */
const digits = (amount: number, from: number) => (amount * 10 ** from) % 1

function both(...heals: readonly Heal[]): Heal {
  return async () => {
    for (const heal of heals) await heal()
  }
}
