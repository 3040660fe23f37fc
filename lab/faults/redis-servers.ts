/** Faults of Redis servers, for every driver that uses them. */
import type { RedisServer } from '../../test/support/servers/redis.js'
import { until } from '../../test/support/until.js'
import { clockReading } from './lost-tokens.js'
import type { Act, Fault } from './store.js'

/** Start-up options of lab servers, needed for all these faults. */
export const labServer = {
  preload: ['clock', 'power'],
  args: ['--enable-debug-command', 'yes'],
} as const

const ignore = () => undefined

/** Commands that make a server misbehave. A server that is down or frozen does not execute them, which is fine. */
const order = (server: RedisServer, ...args: (string | number)[]) => server.cli(...args).then(ignore, ignore)

/** Repeats until the server executes it: otherwise the fault would outlast its time. A server that is down restarts without the fault. */
async function hears(server: RedisServer, ...args: (string | number)[]): Promise<void> {
  const heard = () =>
    !server.running ||
    server.cli(...args).then(
      () => true,
      () => false,
    )
  await until(heard, {
    within: 30_000,
    every: 50,
    what: `the server on port ${server.port} to hear ${args[0]}`,
  })
}

export function subjectNames(servers: readonly RedisServer[]): string[] {
  return servers.map((_, n) => `server ${n}`)
}

/** Data survive all of these; nothing is forgotten and no clock moves. */
export function harmlessFaults(servers: readonly RedisServer[]): Fault[] {
  const subjects = subjectNames(servers)
  const at = (n: number) => servers[n] as RedisServer
  const told = (kind: string, ...args: (string | number)[]): Fault => ({
    kind: `server: ${kind}`,
    subjects,
    lasts: [0.05, 0.1],
    begin: async ({ n }) => {
      await order(at(n), ...args)
      return undefined
    },
  })
  return [
    {
      kind: 'server: pause',
      subjects,
      weight: 2,
      begin: ({ n }) => {
        at(n).pause()
        return () => at(n).resume()
      },
    },
    told('kill subscriptions', 'CLIENT', 'KILL', 'TYPE', 'pubsub'),
    told('kill connections', 'CLIENT', 'KILL', 'TYPE', 'normal'),
    told('forget scripts', 'SCRIPT', 'FLUSH'),
    {
      kind: 'server: busy',
      subjects,
      lasts: [0.1, 1.5],
      begin: ({ n, lasts }) => {
        void order(at(n), 'DEBUG', 'SLEEP', lasts / 1000)
        return undefined
      },
    },
    {
      kind: 'server: answers nobody',
      subjects,
      lasts: [0.1, 1.5],
      begin: async ({ n, lasts }) => {
        await order(at(n), 'CLIENT', 'PAUSE', lasts, 'ALL')
        // The server counts by its wall clock: if that is set back meanwhile, the server is silent for longer, and so the fault lasts longer.
        return () => hears(at(n), 'PING')
      },
    },
    {
      kind: 'server: no memory left',
      subjects,
      lasts: [0.1, 1],
      begin: async ({ n }) => {
        await order(at(n), 'CONFIG', 'SET', 'maxmemory', 1)
        return () => hears(at(n), 'CONFIG', 'SET', 'maxmemory', 0)
      },
    },
  ]
}

export interface RestartOptions {
  readonly kind: string
  readonly keepData: boolean
  readonly apart?: number
}

export function restart(
  servers: readonly RedisServer[],
  { kind, keepData, apart = 0 }: RestartOptions,
): Fault {
  return {
    kind: `server: ${kind}`,
    subjects: subjectNames(servers),
    lasts: [0.05, 1],
    apart,
    begin: async ({ n }) => {
      await servers[n]?.kill9()
      return () => servers[n]?.restart({ keepData })
    },
  }
}

export function powerCut(servers: readonly RedisServer[], apart: number): Fault {
  return {
    kind: 'server: power cut',
    subjects: subjectNames(servers),
    lasts: [0.05, 1],
    apart,
    begin: async ({ n }) => {
      await servers[n]?.powerCut()
      return () => servers[n]?.restart()
    },
  }
}

export function flush(servers: readonly RedisServer[], apart: number): Fault {
  return {
    kind: 'server: flush all data',
    subjects: subjectNames(servers),
    lasts: [0.05, 0.1],
    apart,
    begin: async ({ n }) => {
      await order(servers[n] as RedisServer, 'FLUSHALL')
      return undefined
    },
  }
}

/** Each server's clock offset, and the latest time it has shown, both in ms of this process. */
const clocks = new WeakMap<RedisServer, { offset: number; latest: number }>()

/** Keeps jumps from adding up: a jump back ends no more than `most` ms behind the latest time the clock has shown. */
function jump(server: RedisServer, ms: number, most: number, note?: Act['note']): void {
  const clock = clocks.get(server) ?? { offset: 0, latest: 0 }
  const shows = performance.now() + clock.offset
  const latest = Math.max(clock.latest, shows)
  const by = Math.ceil(Math.max(ms, latest - most - shows))
  const offset = clock.offset + by
  clocks.set(server, { offset, latest })
  const read = (ahead: number) => note?.(clockReading, Date.now() + ahead)
  read(clock.offset)
  // The note of a clock that is behind comes first: what is granted meanwhile may be from either.
  if (by < 0) read(offset)
  server.clockJump(by)
  if (by >= 0) read(offset)
}

/** The clocks of all servers go back together, as after a mistake in the time source that they share. Permanent. */
export function clocksBack(servers: readonly RedisServer[]): Fault {
  return {
    kind: 'servers: clocks back',
    subjects: ['clocks'],
    lasts: [0.05, 0.1],
    apart: 2_000,
    begin: ({ amount, ttl }) => {
      for (const server of servers) jump(server, -Math.round((0.5 + 9.5 * amount) * ttl), 10 * ttl)
      return undefined
    },
  }
}

/** `by`: -1 back, 1 ahead, by up to ten ttls. Permanent. */
export function clockJump(servers: readonly RedisServer[], by: -1 | 1): Fault {
  return {
    kind: by < 0 ? 'server: clock back' : 'server: clock ahead',
    subjects: subjectNames(servers),
    lasts: [0.05, 0.1],
    apart: 2_000,
    begin: ({ n, amount, ttl, note }) => {
      const server = servers[n]
      if (server !== undefined) jump(server, by * Math.round((0.5 + 9.5 * amount) * ttl), 10 * ttl, note)
      return undefined
    },
  }
}
