/**
 * One simulated schedule, step by step: clients made of the real core over a network and a store of the simulation.
 * Long because the whole life of a schedule is read in one go.
 */
import { createHash } from 'node:crypto'
import type { DriverFactory, Locks } from 'holdfast'
import {
  check,
  type Event,
  type History,
  historyOf,
  type Recorder,
  recorded,
  type Violation,
} from 'holdfast/verify'
import { Engine, locksOver } from '../../test/support/inside.js'
import { chance } from '../faults/chance.js'
import { makeGuard } from '../faults/guard.js'
import { makeNetwork, type Network } from './network.js'
import type { Scenario, SimFault, Task } from './scenario.js'
import { type Client, perform } from './task.js'
import { makeTwin, type Request, type StoreMistake, type Twin } from './twin.js'
import { type WireMistake, wireDriver } from './wire-driver.js'
import { clientClock, nobody, World } from './world.js'

export interface Mistakes {
  readonly store?: StoreMistake
  readonly wire?: WireMistake
}

export interface Outcome {
  readonly scenario: Scenario
  readonly violations: readonly Violation[]
  /** What no rule is for: an error nobody expects, a timer that is left. */
  readonly troubles: readonly string[]
  readonly steps: number
  readonly acquisitions: number
}

/** By then everybody must have ended, and some time later everything must be free, in ms of the world. */
const longest = 40_000
const aftermath = 3_000
const bound = 8_000

export class Run {
  readonly scenario: Scenario
  readonly #world = new World()
  readonly #events: Event[] = []
  readonly #clients: Client[]
  readonly #network: Network
  readonly #twin: Twin
  readonly #guard = makeGuard()
  readonly #troubles: string[] = []
  /** Tasks under way, by client. */
  readonly #open: Set<number>[]
  #phase: 'running' | 'closing' | 'over' = 'running'
  #closed = 0
  #endsAt = longest
  readonly #lastAt: number

  constructor(scenario: Scenario, mistakes: Mistakes = {}) {
    this.scenario = scenario
    this.#lastAt = scenario.tasks.reduce((last, { at }) => Math.max(last, at), 0)
    const world = this.#world
    const dice = chance(scenario.seed ^ 0x5eed)
    const owners = new Map<string, number>()
    this.#twin = makeTwin(
      world,
      (attempt) => this.#network.push(owners.get(attempt) ?? 0, attempt),
      mistakes.store,
    )
    this.#network = makeNetwork(world, dice.fork(), (request, client) => {
      const known = request as Request
      if (known.verb === 'acquire') owners.set(known.ask.attempt, client)
      return this.#twin.handle(known)
    })
    this.#clients = scenario.rates.map((rate, n) => this.#client(n, rate, dice.fork(), mistakes))
    this.#open = scenario.rates.map(() => new Set())
    for (const [i, task] of scenario.tasks.entries()) this.#begin(task, i)
    for (const fault of scenario.faults) world.schedule(fault.at, nobody, () => this.#inflict(fault))
  }

  get over(): boolean {
    return this.#phase === 'over'
  }

  /** One thing happens. Let the promises that hang on it settle before the next. */
  step(): void {
    const world = this.#world
    const more = world.step()
    if (this.#phase === 'running' && (!more || world.now > longest || this.#idle())) this.#close()
    else if (this.#phase === 'closing' && (!more || world.now > this.#endsAt)) this.#phase = 'over'
  }

  outcome(): Outcome {
    const { faults } = this.scenario
    const history = this.history()
    const violations = check(history, {
      liveness: { within: bound },
      falseBusy: { lag: 2_000 },
      ...(faults.length > 0 && { fifo: false as const }),
    })
    const { steps } = this.#world
    return {
      scenario: this.scenario,
      violations,
      troubles: this.#left(),
      steps,
      acquisitions: history.acquisitions.length,
    }
  }

  history(): History {
    return historyOf(this.#events)
  }

  /** The same for the same scenario, whatever else runs in this process. */
  fingerprint(): string {
    const names = new Map<string, number>()
    const hash = createHash('sha1')
    for (const { attempt = '', ...event } of this.#events) {
      if (!names.has(attempt)) names.set(attempt, names.size)
      hash.update(JSON.stringify({ ...event, attempt: names.get(attempt) }))
    }
    return hash.digest('hex')
  }

  #client(n: number, rate: number, dice: ReturnType<typeof chance>, mistakes: Mistakes): Client {
    const clock = clientClock(this.#world, n, 1_000_000 * (n + 1), rate)
    const connection = this.#network.connect(n)
    const factory: DriverFactory = (env) => wireDriver(connection, env, mistakes.wire)
    let ids = 0
    const env = { clock, id: () => `${n}-${++ids}`, random: () => dice.next(), by: `client:${n}` }
    const journal = this.#recorder(n, rate)
    return {
      clock,
      journal,
      locks: recorded(locksOver(new Engine(factory, undefined, env)) as Locks, journal),
    }
  }

  #recorder(n: number, rate: number): Recorder {
    const events = this.#events
    const client = `client-${n}`
    const now = () => BigInt(Math.round(this.#world.now * 1e6))
    const write: Recorder['write'] = ({ until, ...entry }, at = now()) => {
      const t = Number(at)
      const event = { ...entry, t, pid: n, client }
      // Told in milliseconds of a clock that is fast or slow.
      events.push(until === undefined ? event : { ...event, until: t + (Number(until) - t) / rate })
    }
    return { client, now, write, fault: () => () => undefined, close: () => undefined }
  }

  #idle(): boolean {
    if (this.#world.now < this.#lastAt) return false
    for (const [n, tasks] of this.#open.entries()) if (tasks.size > 0 && !this.#world.isDead(n)) return false
    return true
  }

  #begin(task: Task, i: number): void {
    const client = this.#clients[task.client]
    const open = this.#open[task.client]
    if (client === undefined || open === undefined) return
    open.add(i)
    this.#world.schedule(task.at, task.client, () => {
      perform(client, task, this.#guard)
        .catch((error) => this.#troubles.push(`task ${i}: ${error instanceof Error ? error.stack : error}`))
        .finally(() => open.delete(i))
    })
  }

  #close(): void {
    this.#phase = 'closing'
    this.#endsAt = this.#world.now + aftermath
    for (const [n, { locks }] of this.#clients.entries()) {
      if (this.#world.isDead(n)) continue
      locks.close().then(
        () => this.#closed++,
        (error) => this.#troubles.push(`close: ${error}`),
      )
    }
    // So that there is time to pass.
    this.#world.schedule(this.#endsAt + 1, nobody, () => undefined)
  }

  #inflict({ kind, client: n, lasts }: SimFault): void {
    const world = this.#world
    const client = this.#clients[n]
    if (client === undefined || world.isDead(n)) return
    const until = world.now + lasts
    const target = kind === 'server silent' ? {} : { target: n }
    const about = { op: 'fault', kind, attempt: `fault ${kind} ${world.now}`, ...target } as const
    const write = (phase: 'invoke' | 'ok') =>
      this.#events.push({ ...about, phase, t: Math.round(world.now * 1e6), pid: -1, client: 'nemesis' })
    write('invoke')
    if (kind === 'kill') {
      world.kill(n)
      write('ok')
      return
    }
    world.schedule(until, nobody, () => {
      if (kind === 'sleep') client.clock.slept(lasts)
      write('ok')
    })
    if (kind === 'stall' || kind === 'sleep') world.stall(n, lasts)
    if (kind === 'requests lost') this.#network.lose(n, 'up', until)
    if (kind === 'replies lost') this.#network.lose(n, 'down', until)
    if (kind === 'late') this.#network.delay(n, lasts / 2, until)
    if (kind === 'reset') this.#network.reset(n)
    if (kind === 'server silent') this.#network.silence(until)
  }

  #left(): string[] {
    const found = [...this.#troubles]
    const living = this.#clients.filter((_, n) => !this.#world.isDead(n)).length
    if (this.#closed < living) found.push(`${living - this.#closed} clients did not close`)
    for (const [n] of this.#clients.entries()) {
      const timers = this.#world.pending(n)
      if (timers > 0 && !this.#world.isDead(n)) found.push(`client ${n} left ${timers} timers behind`)
    }
    for (const { name, line, held } of this.#twin.rows.values()) {
      const holding = held.filter((hold) => hold.expires > this.#world.now).length
      if (line.length > 0 || holding > 0)
        found.push(`'${name}' is left with ${holding} holders and ${line.length} waiters`)
    }
    return found
  }
}
