/**
 * Where a scene with Redis is played: real servers of its own, and players. A player is a client with its own connections, which can be
 * cut, and its lock; servers cannot distinguish it from a process. Where it has to die or be paused it is a process: see
 * `child.ts`.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { Redis } from 'ioredis'
import { startProxy, type TcpProxy } from '../../test/support/proxy.js'
import { type RedisOptions, type RedisServer, startMany } from '../../test/support/servers/redis.js'
import { until } from '../../test/support/until.js'
import type { SceneHistory, SentEntry } from './history.js'
import { type OnceLock, sceneTimeout, type Way } from './lock.js'

export interface RedisClientOfScene {
  /** For `fault`. */
  readonly pid: number
  readonly lock: OnceLock
  /** To the first server. */
  readonly client: Redis
  /** One for each server. */
  readonly clients: readonly Redis[]
  readonly cables: readonly TcpProxy[]
}

/** A player that is a process. */
export interface Child {
  readonly pid: number
  /** Resolves when it has the lock. */
  holds(): Promise<unknown>
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>
  /** Resolves when it has stopped itself. */
  standsStill(): Promise<void>
  /** SIGCONT; resolves with the result of its write. */
  goOn(): Promise<string>
}

/** Orders of a child. */
export interface Part {
  readonly role: 'hold' | 'pause'
  readonly way: string
  readonly ports: readonly number[]
  readonly ttl: number
}

/** Messages of a child. */
export type Message = SentEntry | { readonly wrote: string } | { readonly ready: true }

export class RedisSceneContext implements AsyncDisposable {
  readonly way: Way
  readonly history: SceneHistory
  readonly servers: readonly RedisServer[]
  readonly #stack: (() => unknown)[] = []
  #players = 0

  private constructor(history: SceneHistory, way: Way, servers: readonly RedisServer[]) {
    this.history = history
    this.way = way
    this.servers = servers
  }

  static async open(
    history: SceneHistory,
    way: Way,
    count: number,
    options?: RedisOptions,
  ): Promise<RedisSceneContext> {
    const { servers, stop } = await startMany(count, options)
    const stage = new RedisSceneContext(history, way, servers)
    stage.keep(stop)
    return stage
  }

  /** The first one. */
  get server(): RedisServer {
    return this.servers[0] as RedisServer
  }

  /** Undone at the end, the newest first. */
  keep(undo: () => unknown): void {
    this.#stack.push(undo)
  }

  async cable(server: RedisServer = this.server): Promise<TcpProxy> {
    const cable = await startProxy({ port: server.port })
    this.keep(() => cable.stop())
    return cable
  }

  /** One that has used locks before: connected, scripts loaded, servers known. */
  async player(name: string): Promise<RedisClientOfScene> {
    const player = await this.newcomer(name, this.servers)
    for (const time of [1, 2])
      await (await player.lock.take(`rehearsal ${player.pid}.${time}`, 1_000, sceneTimeout))?.release()
    return player
  }

  /** One that has not. */
  async newcomer(name: string, onto: readonly RedisServer[]): Promise<RedisClientOfScene> {
    const pid = ++this.#players
    const cables = await Promise.all(onto.map((server) => this.cable(server)))
    const clients = cables.map(({ port }) => connect(port))
    this.keep(() => clients.map((client) => client.disconnect()))
    await answering(clients)
    const lock = this.way.open(clients, this.history.recorder(name, pid))
    this.keep(() => lock.close())
    return { pid, lock, client: clients[0] as Redis, clients, cables }
  }

  child(name: string, role: Part['role'], ttl: number, ports: readonly number[]): Child {
    const part: Part = { role, way: this.way.title, ports, ttl }
    // What runs in a server's folder ends with the server, also when it is paused and nobody is left to kill it.
    const child = fork(new URL('./child.js', import.meta.url), [JSON.stringify(part)], {
      cwd: this.server.folder,
    })
    const pid = child.pid ?? 0
    // Not 'exit', which may come before its last output.
    const gone = once(child, 'close')
    let holding = () => {}
    const holds = new Promise<void>((resolve) => {
      holding = resolve
    })
    let reply = (_: string) => {}
    const wrote = new Promise<string>((resolve) => {
      reply = resolve
    })
    child.on('message', (message: Message) => {
      if ('wrote' in message) return reply(message.wrote)
      if ('ready' in message) return
      this.history.take(name, pid, message)
      if (message.op === 'acquire' && message.phase === 'ok') holding()
    })
    const early = gone.then(() => Promise.reject(new Error(`the process of ${name} ended too early`)))
    early.catch(() => undefined)
    const kill = async () => {
      child.kill('SIGKILL')
      await gone
    }
    this.keep(kill)
    const stopped = () => /^\d+ \(.*\) T/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
    return {
      pid,
      kill,
      holds: () => Promise.race([holds, early]),
      async standsStill() {
        await Promise.race([until(stopped, { within: sceneTimeout, what: `${name} to stand still` }), early])
      },
      goOn() {
        child.kill('SIGCONT')
        return Promise.race([wrote, early])
      },
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const undo of this.#stack.reverse()) await undo()
  }
}

/** Resolves when each of them is connected, also again, to a server that answers. */
export async function answering(clients: readonly Redis[]): Promise<void> {
  await Promise.all(clients.map((client) => client.ping()))
}

export function connect(port: number): Redis {
  const client = new Redis(port, '127.0.0.1', { retryStrategy: (times) => Math.min(20 * times, 200) })
  client.on('error', () => undefined)
  return client
}
