/**
 * Makes legal histories: clients over a store that serves first come, first served by the table of `admits`, with delays
 * between what the store does and what the clients hear, kills, pauses beyond the deadline, tries, cancellations,
 * renewals, and a guarded counter. One seed, one history.
 */
import { admits, type Mode } from 'holdfast/driver'
import type { Event } from 'holdfast/verify'

export interface SimulationOptions {
  readonly seed: number
  readonly steps: number
  readonly clients?: number
  /** Names that begin with `rw` are read and written, those with `sem` have 5 permits, others are mutexes. */
  readonly names?: readonly string[]
}

const ttl = 30e6

export function randomFrom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let x = Math.imul(state ^ (state >>> 15), 1 | state)
    x = (x + Math.imul(x ^ (x >>> 7), 61 | x)) ^ x
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32
  }
}

interface Ask {
  readonly attempt: string
  readonly name: string
  readonly mode: Mode
  readonly wait?: number
  grant?: { token: number; until: number }
  busy?: boolean
  arrived?: boolean
}

interface Client {
  pid: number
  id: string
  count: number
  state: 'idle' | 'asking' | 'waiting' | 'held' | 'releasing' | 'released'
  ask: Ask
  access?: { op: 'read' | 'write'; phase: 'sent' | 'answered'; outcome?: Partial<Event> }
  seen?: number
  pausedUntil: number
}

interface Store {
  readonly holds: Map<string, { mode: Mode; expires: number }>
  queue: Ask[]
  lastToken: number
  newest: number
  value: number
  seq: number
}

type DraftEvent = { -readonly [K in keyof Event]: Event[K] }

export function simulate(options: SimulationOptions): DraftEvent[] {
  return new Simulation(options).run()
}

class Simulation {
  readonly options: SimulationOptions
  readonly random: () => number
  readonly names: readonly string[]
  readonly stores = new Map<string, Store>()
  readonly events: DraftEvent[] = []
  readonly clients: Client[]
  t = 0
  pids = 100
  draining = false

  constructor(options: SimulationOptions) {
    this.options = options
    this.random = randomFrom(options.seed)
    this.names = options.names ?? ['a', 'b', 'rw', 'sem']
    this.clients = Array.from({ length: options.clients ?? 5 }, () => this.newClient())
    for (const name of this.names) {
      this.stores.set(name, { holds: new Map(), queue: [], lastToken: 0, newest: 0, value: 0, seq: 0 })
    }
  }

  run(): DraftEvent[] {
    for (let i = 0; i < this.options.steps; i++) this.step()
    this.draining = true
    while (this.clients.some((client) => client.state !== 'idle')) this.step()
    this.t += 2 * ttl
    for (const [name, store] of this.stores) {
      this.serve(store)
      this.push(this.clients[0]!, {
        op: 'standing',
        phase: 'info',
        name,
        holders: store.holds.size,
        waiters: store.queue.length,
      })
    }
    return this.events
  }

  newClient(): Client {
    const pid = ++this.pids
    const ask = { attempt: '', name: '', mode: { kind: 'exclusive' } } as const
    return { pid, id: `client-${pid}`, count: 0, state: 'idle', ask, pausedUntil: 0 }
  }

  push(client: Client, event: Omit<Event, 't' | 'pid' | 'client'>): void {
    this.events.push({ t: Math.round(this.t), pid: client.pid, client: client.id, ...event })
  }

  step(): void {
    this.t += 1 + this.random() * 1e6
    const index = Math.floor(this.random() * this.clients.length)
    const client = this.clients[index]!
    if (client.pausedUntil > this.t) return
    const fate = this.random()
    if (fate < 0.005 && !this.draining) this.kill(client, index)
    else if (fate < 0.015 && client.state === 'held' && !this.draining) this.pause(client)
    else this.advance(client)
  }

  kill(client: Client, index: number): void {
    const fault = { op: 'fault', kind: 'kill', attempt: `kill-${client.pid}`, target: client.pid } as const
    this.push({ ...client, id: 'nemesis', pid: 1 }, { ...fault, phase: 'invoke' })
    this.t += 1000
    const store = this.stores.get(client.ask.name)
    if (store !== undefined) this.forget(store, client.ask)
    this.push({ ...client, id: 'nemesis', pid: 1 }, { ...fault, phase: 'ok' })
    this.clients[index] = this.newClient()
  }

  pause(client: Client): void {
    const fault = { op: 'fault', kind: 'pause', attempt: `pause-${this.t}`, target: client.pid } as const
    this.push({ ...client, id: 'nemesis', pid: 1 }, { ...fault, phase: 'invoke' })
    client.pausedUntil = this.t + this.random() * 2 * ttl
  }

  forget(store: Store, ask: Ask): void {
    store.holds.delete(ask.attempt)
    store.queue = store.queue.filter((other) => other !== ask)
    this.serve(store)
  }

  serve(store: Store): void {
    for (const [attempt, hold] of store.holds) if (hold.expires <= this.t) store.holds.delete(attempt)
    for (let head = store.queue[0]; head !== undefined; head = store.queue[0]) {
      if (
        !admits(
          [...store.holds.values()].map((hold) => hold.mode),
          head.mode,
        )
      )
        return
      store.queue.shift()
      this.grant(store, head)
    }
  }

  grant(store: Store, ask: Ask): void {
    store.holds.set(ask.attempt, { mode: ask.mode, expires: this.t + ttl })
    ask.grant = { token: ++store.lastToken, until: Math.round(this.t + ttl * 0.98) }
  }

  advance(client: Client): void {
    const { ask } = client
    if (client.state === 'idle') {
      if (!this.draining && this.random() < 0.5) this.ask(client)
      return
    }
    const store = this.stores.get(ask.name)!
    if (client.state === 'asking') this.arrive(client, store)
    else if (client.state === 'waiting') this.hear(client, store)
    else if (client.state === 'held') this.hold(client, store)
    else if (client.state === 'releasing') {
      this.forget(store, ask)
      client.state = 'released'
    } else {
      this.push(client, {
        op: 'release',
        phase: 'ok',
        name: ask.name,
        attempt: ask.attempt,
        kind: 'released',
      })
      client.state = 'idle'
    }
  }

  ask(client: Client): void {
    const name = this.names[Math.floor(this.random() * this.names.length)]!
    const attempt = `${client.id}:${++client.count}`
    const mode = this.modeFor(name)
    const wait = this.random() < 0.2 ? 0 : undefined
    client.ask = { attempt, name, mode, ...(wait === 0 && { wait }) }
    client.state = 'asking'
    delete client.access
    delete client.seen
    const amount = mode.kind === 'permits' ? { permits: mode.take, of: mode.of } : {}
    const common = { op: 'acquire', phase: 'invoke', name, attempt, mode: mode.kind, fair: true } as const
    this.push(client, { ...common, ...amount, ...(wait === 0 && { wait }) })
  }

  modeFor(name: string): Mode {
    if (name.startsWith('rw')) return { kind: this.random() < 0.7 ? 'shared' : 'exclusive' }
    if (name.startsWith('sem')) return { kind: 'permits', take: 1 + Math.floor(this.random() * 3), of: 5 }
    return { kind: 'exclusive' }
  }

  arrive(client: Client, store: Store): void {
    const { ask } = client
    this.serve(store)
    const free =
      store.queue.length === 0 &&
      admits(
        [...store.holds.values()].map((hold) => hold.mode),
        ask.mode,
      )
    if (free) this.grant(store, ask)
    else if (ask.wait === 0) ask.busy = true
    else {
      store.queue.push(ask)
      this.push(client, { op: 'acquire', phase: 'info', name: ask.name, attempt: ask.attempt })
    }
    client.state = 'waiting'
  }

  hear(client: Client, store: Store): void {
    const { ask } = client
    const { name, attempt, grant } = ask
    if (grant === undefined) this.serve(store)
    if (ask.grant !== undefined && ask.grant.until > this.t) {
      const { token, until } = ask.grant
      this.push(client, { op: 'acquire', phase: 'ok', name, attempt, token, until })
      client.state = 'held'
    } else if (ask.busy || ask.grant !== undefined || this.draining || this.random() < 0.05) {
      const kind = ask.busy ? 'busy' : 'cancelled'
      this.push(client, { op: 'acquire', phase: 'fail', name, attempt, kind })
      this.forget(store, ask)
      client.state = 'idle'
    }
  }

  hold(client: Client, store: Store): void {
    const { ask, access } = client
    const { name, attempt } = ask
    const { token, until } = ask.grant!
    if (access !== undefined) return this.access(client, store)
    if (this.t >= until) {
      // Half of those who were paused write once more before they look at the clock.
      if (ask.mode.kind === 'exclusive' && this.random() < 0.5)
        return this.begin(client, client.seen === undefined ? 'read' : 'write')
      this.push(client, { op: 'lost', phase: 'info', name, attempt, token })
      client.state = 'idle'
      return
    }
    const choice = this.random()
    if (choice < 0.2 && store.holds.has(attempt)) {
      store.holds.set(attempt, { mode: ask.mode, expires: this.t + ttl })
      ask.grant!.until = Math.round(this.t + ttl * 0.98)
      this.push(client, { op: 'renew', phase: 'ok', name, attempt, token, until: ask.grant!.until })
    } else if (choice < 0.6 && ask.mode.kind === 'exclusive') {
      this.begin(client, client.seen === undefined ? 'read' : 'write')
    } else {
      this.push(client, { op: 'release', phase: 'invoke', name, attempt, token })
      client.state = 'releasing'
    }
  }

  begin(client: Client, op: 'read' | 'write'): void {
    const { name, attempt, grant } = client.ask
    const value = op === 'write' ? { value: client.seen! + 1 } : {}
    this.push(client, { op, phase: 'invoke', name, attempt, token: grant!.token, ...value })
    client.access = { op, phase: 'sent' }
  }

  /** The resource remembers the newest token it saw, and applies nothing older. */
  access(client: Client, store: Store): void {
    const { name, attempt, grant } = client.ask
    const access = client.access!
    const { token } = grant!
    if (access.phase === 'sent') {
      access.phase = 'answered'
      const stale = token < store.newest
      store.newest = Math.max(store.newest, token)
      if (stale) access.outcome = { phase: 'fail', kind: 'stale' }
      else if (access.op === 'read') access.outcome = { phase: 'ok', value: store.value }
      else {
        store.value = client.seen! + 1
        access.outcome = { phase: 'ok', value: store.value, seq: ++store.seq }
      }
      return
    }
    this.push(client, { op: access.op, phase: 'ok', name, attempt, token, ...access.outcome })
    const { value } = access.outcome ?? {}
    if (access.op === 'read' && value !== undefined) client.seen = value
    else delete client.seen
    delete client.access
  }
}
