/**
 * The unmodified Redis driver, including its adapter for ioredis and its Lua scripts, over a server that is simulated below the level
 * of commands. The server restarts without its data or with older data, is flushed, sets its clock back, forgets its scripts, loses messages.
 */

import type { DriverFactory } from 'holdfast'
import { redis } from 'holdfast/redis'
import { makeNetwork, type Remote } from '../../wire.js'
import type { World } from '../../world.js'
import type { SimulatedStore, StoreKind } from '../store.js'
import { type Command, type ServerMessage, SimulatedIoredis } from './client.js'
import { type Machine, ServerError, SimulationError } from './machine.js'
import { watchNewcomers } from './newcomers.js'

/** A mistake in the scripts: the original text and its replacement. */
export interface ScriptMistake {
  readonly is: string
  readonly breaks: readonly string[]
  readonly instead: readonly (readonly [right: string, wrong: string])[]
}

/** The longest ttl of a plan; it determines for how long a server that may have forgotten grants nothing. */
const maxTtl = 1_000
/** Of the default prefix. */
const bootKey = 'hf:boot'

/** A mistake in the driver as a process sees it. */
export interface DriverMistake {
  readonly is: string
  breaking(factory: DriverFactory): DriverFactory
}

/** `strict`: a process that meets an empty server for the first time takes it for one that has lost its data. */
export function redisStore(
  machine: Machine,
  mistake?: ScriptMistake | DriverMistake,
  strict = true,
): StoreKind {
  return {
    name: mistake === undefined ? `redis${strict ? '' : '-detected'}` : `redis that ${mistake.is}`,
    abilities: ['exclusive', 'shared', 'permits'],
    faults: [
      ...(['cut', 'cutAll', 'freeze', 'slow', 'restart', 'restartOlder', 'flush', 'clockBack'] as const),
      'forgetScripts',
    ],
    shared: true,
    caching: true,
    liveWithin: 60_000,
    make: (world) => makeStore(world, machine, mistake, strict),
  }
}

function makeStore(
  world: World,
  machine: Machine,
  mistake: ScriptMistake | DriverMistake | undefined,
  strict: boolean,
): SimulatedStore {
  const server = machine.server(mistake && 'instead' in mistake ? mistake.instead : undefined)
  const channels = new Map<string, Set<Remote<ServerMessage>>>()
  const network = makeNetwork<Command, ServerMessage>(world, { onMessage: heard, left })
  const drivers: { close(): void }[] = []
  const breaks = new Map<number, number[]>()
  let run = newRun()
  let started = wallAt(0) - 86_400_000_000
  let setBack = 0
  let flushed = 0
  const newcomers = watchNewcomers((token) => (token - wallAt(0)) / 1000)

  function newRun(): string {
    return Array.from({ length: 40 }, () => Math.floor(world.chance() * 16).toString(16)).join('')
  }
  function wallAt(ms: number): number {
    return 1_700_000_000_000_000 + Math.floor(ms * 1000)
  }
  const wall = () => wallAt(world.now) - setBack * 1000

  function heard(from: Remote<ServerMessage>, { id, name, args }: Command): void {
    try {
      from.send({ id, reply: carryOut(from, name, args) })
    } catch (error) {
      if (!(error instanceof ServerError)) throw error
      from.send({ id, error: error.message })
    }
  }

  function carryOut(from: Remote<ServerMessage>, name: string, args: readonly string[]) {
    if (name === 'EVAL' || name === 'EVALSHA') {
      const [script = '', count = '0', ...rest] = args
      const keys = rest.slice(0, Number(count))
      if (name === 'EVAL') server.tell(info())
      // Only the script that meets a server has the marker as its only key.
      if (!strict && keys.length === 1 && keys[0] === bootKey && rest[1] === '-' && !isBarred())
        newcomers.met(from.process.id, world.now)
      const { reply, published } = server.run(name, script, keys, rest.slice(keys.length), wall())
      for (const [channel, text] of published) {
        for (const remote of channels.get(channel) ?? []) remote.send({ channel, text })
      }
      return reply
    }
    if (name === 'INFO') return info()
    const [channel = ''] = args
    const listening = channels.get(channel) ?? new Set()
    channels.set(channel, listening)
    if (name === 'SUBSCRIBE') listening.add(from)
    else if (name === 'UNSUBSCRIBE') listening.delete(from)
    else throw new SimulationError(`the simulated Redis: there is no command ${name}`)
    server.listeners(channel, listening.size)
    return [name.toLowerCase(), channel, listening.size]
  }

  /** By a marker that is from another life of the server, or that bars explicitly. */
  function isBarred(): boolean {
    const { reply } = server.run('EVAL', "return redis.call('GET', KEYS[1])", [bootKey], [], wall())
    const [, till, boot] = /^(\d+) (\S+) /.exec(String(reply ?? '')) ?? []
    return till !== undefined && (boot !== run.slice(0, 16) || Number(till) > wall())
  }

  function info(): string {
    return [
      '# Server',
      `run_id:${run}`,
      `master_replid2:${'0'.repeat(40)}`,
      `uptime_in_seconds:${Math.floor((wall() - started) / 1_000_000)}`,
      'maxmemory:0',
      'maxmemory_policy:noeviction',
      'aof_enabled:0',
      'cmdstat_time:calls=1',
      ...(flushed > 0 ? [`cmdstat_flushall:calls=${flushed}`] : []),
    ].join('\r\n')
  }

  function left(from: Remote<ServerMessage>): void {
    for (const [channel, listening] of channels) {
      if (listening.delete(from)) server.listeners(channel, listening.size)
    }
  }

  function restart(recall: boolean): void {
    if (recall) server.recall()
    else server.flush()
    flushed = 0
    server.forgetScripts()
    run = newRun()
    started = wall()
    newcomers.lost(world.now)
    network.restart()
  }

  return {
    driver(process) {
      const noticed: number[] = []
      breaks.set(process.id, noticed)
      const client = new SimulatedIoredis(process, network, () => noticed.push(world.now))
      drivers.push({ close: () => client.disconnect() })
      const driver = redis({ client, maxTtl, quarantine: strict ? 'strict' : 'detected' })
      return mistake && 'breaking' in mistake ? mistake.breaking(driver) : driver
    },
    faults: {
      cut: (_, process) => network.cut(process),
      cutAll: () => network.cut(),
      freeze: (ms) => network.freeze(ms),
      slow: (ms) => network.slow(200, ms),
      restart: () => restart(false),
      restartOlder: (ms) => {
        server.save()
        world.at(world.now + ms, () => restart(true))
      },
      flush: () => {
        server.flush()
        flushed++
        newcomers.lost(world.now)
      },
      clockBack: (ms) => {
        setBack += ms * 10
      },
      forgetScripts: () => server.forgetScripts(),
    },
    killed: (process) => network.cut(process),
    left: () => server.busy(wall()),
    breaks: (process) => breaks.get(process) ?? [],
    excuses: newcomers.excuses,
    end() {
      for (const driver of drivers) driver.close()
      server.end()
    },
  }
}
