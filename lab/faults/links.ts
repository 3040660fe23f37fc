/** A proxy between every worker and every server, and faults of the connections through it. */
import { startProxy, type TcpProxy } from '../../test/support/proxy.js'
import type { Act, Fault, Undo } from './store.js'

export interface Links {
  /** The proxy's port for a server's own. */
  through(worker: number, port: number): number
  /** Faults of all connections of one worker. */
  readonly faults: Fault[]
  /** Faults between one worker and one of several servers. */
  readonly single: Fault[]
  /**
   * Cuts one worker off from one server: nothing gets through any more, or connections break and new ones are refused. @returns a function
   * that undoes it
   */
  cutOff(worker: number, port: number, how: 'silent' | 'refused'): () => Promise<void> | void
  readonly workers: number
  close(): Promise<void>
}

interface Action {
  readonly kind: string
  readonly weight: number
  readonly begin: (proxy: TcpProxy, act: Act) => Undo
}

/** A fault with a duration: `begin`, and how to undo it. */
const lasting = (
  kind: string,
  weight: number,
  begin: (proxy: TcpProxy, act: Act) => unknown,
  end: Ends,
): Action => ({
  kind,
  weight,
  begin: (proxy, act) => {
    begin(proxy, act)
    return () => end(proxy)
  },
})
type Ends = (proxy: TcpProxy) => Promise<void> | void

const up: Ends = (proxy) => proxy.up.pass()
const down: Ends = (proxy) => proxy.down.pass()
const nothing: Ends = () => undefined
const actions: readonly Action[] = [
  lasting(
    'black hole',
    1,
    (proxy) => proxy.blackHole(),
    (proxy) => proxy.heal(),
  ),
  lasting('requests lost', 1, (proxy) => proxy.up.drop(), up),
  lasting('replies lost', 2, (proxy) => proxy.down.drop(), down),
  lasting('requests late', 1, (proxy, act) => proxy.up.delay(late(act)), up),
  lasting('replies late', 2, (proxy, act) => proxy.down.delay(late(act)), down),
  lasting('replies held back', 1, (proxy) => proxy.down.hold(), down),
  lasting('reset', 1, (proxy) => proxy.reset(), nothing),
  lasting(
    'half-closed',
    1,
    (proxy, { amount }) => (amount < 0.5 ? proxy.up : proxy.down).close(),
    (proxy) => proxy.reset(),
  ),
  lasting('refused', 1, refuse, (proxy) => proxy.accept()),
  { kind: 'reset again and again', weight: 1, begin: (proxy, { lasts }) => storm(proxy, lasts) },
]

function refuse(proxy: TcpProxy): void {
  proxy.refuse()
  proxy.reset()
}

const late = ({ amount, ttl }: Act) => Math.round(2 * amount * ttl)

function storm(proxy: TcpProxy, lasts: number): Undo {
  const timer = setInterval(() => proxy.reset(), Math.max(20, lasts / 10))
  return () => clearInterval(timer)
}

export async function openLinks(workers: number, ports: readonly number[]): Promise<Links> {
  const proxies: TcpProxy[][] = []
  for (let worker = 0; worker < workers; worker++) {
    proxies.push(await Promise.all(ports.map((port) => startProxy({ port }))))
  }
  const all = proxies.map((_, worker) => `link ${worker}`)
  const one = proxies.flatMap((own, worker) => own.map((_, server) => `link ${worker}.${server}`))
  return {
    through: (worker, port) => proxies[worker]?.[ports.indexOf(port)]?.port ?? port,
    faults: faultsOn(all, (n) => proxies[n] ?? []),
    single: faultsOn(one, (n, m) => [proxies[n]?.[m] ?? []].flat()),
    cutOff: (worker, port, how) => {
      const proxy = proxies[worker]?.[ports.indexOf(port)]
      if (proxy === undefined) throw new RangeError(`worker ${worker} has no connection to port ${port}`)
      if (how === 'refused') {
        refuse(proxy)
        return () => proxy.accept()
      }
      proxy.blackHole()
      return () => proxy.heal()
    },
    workers,
    close: async () => {
      for (const proxy of proxies.flat()) await proxy.stop()
    },
  }
}

function faultsOn(
  subjects: readonly string[],
  proxiesOf: (n: number, m: number) => readonly TcpProxy[],
): Fault[] {
  return actions.map(({ kind, weight, begin }) => ({
    kind: `connections: ${kind}`,
    subjects,
    weight,
    begin: (about) => {
      const undo = proxiesOf(about.n, about.m).map((proxy) => begin(proxy, about))
      return async () => {
        for (const one of undo) await one?.()
      }
    },
  }))
}
