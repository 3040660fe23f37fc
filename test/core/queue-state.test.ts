// Every order of calls, cancellations, replies, releases and losses of a few callers, over the transitions of the local
// queue. The search chooses each event of the store and of the event loop; each state is visited once.
import '../support/background.js'
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { exclusive, type Mode, shared } from '../../src/core/mode.js'
import * as queue from '../../src/core/queue-state.js'
import { conclude } from '../../src/core/reply-outcome.js'
import { leakCheck } from '../support/leaks.js'

after(leakCheck)

const rules = { ...queue, conclude }
type Rules = typeof rules

interface Caller extends queue.Entry {
  readonly id: number
  readonly once: boolean
  /** How the call ended; it must be one thing. */
  readonly ends: ('held' | 'refused' | 'gone' | 'failed')[]
}

interface Hold {
  readonly id: number
  readonly mode: Mode
  readonly revoked: boolean
  readonly note: string | undefined
  readonly watchdog: { ttl: number; lockDelay: number; autoRenew: boolean; extending: boolean }
}

type Request = queue.Request<Caller> & { readonly id: number }
type Kind = 'writer' | 'reader' | 'try' | 'fair'

/** One process with its queue, and the store that it asks. */
class World {
  readonly state: queue.QueueState<Caller, Request, Hold> = queue.emptyQueue()
  readonly callers: Caller[] = []
  /** What the store has granted, to whom here: a hold, or one that is on its way back. */
  readonly granted = new Map<Hold, Mode>()
  /** Callers in the queue, by arrival. */
  readonly lined: Caller[] = []
  readonly wrong: string[] = []
  readonly #rules: Rules
  #ids = 0

  constructor(rules: Rules) {
    this.#rules = rules
  }

  call(kind: Kind): void {
    const mode = kind === 'reader' ? shared : exclusive
    const terms = { fair: kind === 'fair', ttl: 1_000, lockDelay: 0, autoRenew: true, note: undefined }
    const caller: Caller = { id: this.callers.length, once: kind === 'try', mode, terms, ends: [] }
    this.callers.push(caller)
    const next = this.#rules.enqueue(this.state, caller, caller.once)
    if (next === 'refused') return this.#end(caller, 'refused')
    if (next !== 'queued') return this.#begin(next)
    this.lined.push(caller)
    for (;;) {
      const beside = this.#rules.pumpConcurrent(this.state)
      if (beside === undefined) return
      this.#begin(beside)
    }
  }

  cancel(caller: Caller): void {
    this.#end(caller, 'gone')
    this.#leaveLine(caller, false)
    const left = this.#rules.cancel(this.state, caller)
    if (left?.owner !== undefined) this.#leaveLine(left.owner, true)
    this.#pump()
  }

  report(request: Request): void {
    request.reported = true
  }

  /** @param waiting false: the owner has gone, and nobody has said so yet */
  reply(request: Request, reply: 'grant' | 'late' | 'nothing' | 'failure', waiting: boolean): void {
    const owner = this.#rules.arrived(this.state, request)
    const granted = reply === 'grant' || reply === 'late'
    if (owner !== undefined && !waiting) this.#end(owner, 'gone')
    if (reply === 'failure') {
      if (owner !== undefined && waiting) this.#end(owner, 'failed')
      return this.#pump()
    }
    const facts = {
      ...{ owned: owner !== undefined, granted, waiting, usable: reply === 'grant' },
      ...{ newest: true, refusedByCache: false },
    }
    const outcome = this.#rules.conclude(request, facts)
    if (owner === undefined) {
      if (outcome !== 'nothing') this.wrong.push(`${outcome} for nobody`)
    } else if (outcome === 'deliver') this.#deliver(owner, request.claim.mode)
    else if (outcome === 'ask-again') this.#ask(this.#rules.askAgain(this.state, owner))
    else if (outcome === 'refuse') this.#end(owner, 'refused')
    else if (outcome === 'too-late') this.#end(owner, 'failed')
    else if (outcome === 'time-out' && waiting) this.#end(owner, 'gone')
    this.#pump()
  }

  release(hold: Hold, how: 'now' | 'after a rest' | 'to the store'): void {
    const heir = this.#rules.findSuccessor(this.state, hold)
    if (heir === undefined || how === 'to the store') return this.#giveBack(hold)
    if (how === 'now') return this.#handOver(hold, heir)
    this.#rules.holdBack(this.state, hold)
  }

  rested(hold: Hold, pass: boolean): void {
    if (this.state.heldBack !== hold) return
    const heir = pass ? this.#rules.findSuccessor(this.state, hold) : undefined
    if (heir === undefined) return this.#giveBack(hold)
    this.#handOver(hold, heir)
    this.#pump()
  }

  lose(hold: Hold): void {
    this.#giveBack(hold)
  }

  #giveBack(hold: Hold): void {
    this.#rules.removeHold(this.state, hold)
    this.granted.delete(hold)
    this.#pump()
  }

  #handOver(hold: Hold, heir: Caller): void {
    this.#rules.handedOver(this.state, hold, heir)
    this.granted.delete(hold)
    this.#leaveLine(heir, true)
    this.#deliver(heir, hold.mode)
  }

  #deliver(caller: Caller, mode: Mode): void {
    if (caller.mode.kind !== mode.kind) this.wrong.push(`caller ${caller.id} was granted ${mode.kind}`)
    const hold: Hold = {
      ...{ id: ++this.#ids, mode, revoked: false },
      note: undefined,
      watchdog: { ttl: 1_000, lockDelay: 0, autoRenew: true, extending: false },
    }
    this.#rules.held(this.state, hold)
    this.granted.set(hold, mode)
    this.#end(caller, 'held')
  }

  #begin(ask: queue.Ask<Caller>): void {
    if (ask.turn && queue.isTaken(this.state))
      this.wrong.push('a turn begins while an exclusive hold is alive')
    this.#ask(ask)
  }

  #ask(ask: queue.Ask<Caller>): void {
    const { entry: owner, once, turn } = ask
    if (turn && this.state.turn !== undefined) this.wrong.push('two turns')
    this.#leaveLine(owner, true)
    if (turn && this.lined.some(({ id }) => id < owner.id)) this.wrong.push('a caller overtook the queue')
    const claim = { mode: owner.mode, ttl: 1_000 }
    const request: Request = { id: ++this.#ids, claim, once, owner, reassigned: false, reported: false }
    this.#rules.asked(this.state, request, ask)
  }

  #pump(): void {
    for (let next = this.#rules.pump(this.state); next; next = this.#rules.pump(this.state)) this.#begin(next)
  }

  #leaveLine(caller: Caller, inTurn: boolean): void {
    const place = this.lined.indexOf(caller)
    if (inTurn && place > 0) this.wrong.push(`caller ${caller.id} was served before ${this.lined[0]?.id}`)
    if (place >= 0) this.lined.splice(place, 1)
  }

  #end(caller: Caller, how: Caller['ends'][number]): void {
    caller.ends.push(how)
    if (caller.ends.length > 1) this.wrong.push(`caller ${caller.id} ended as ${caller.ends.join(' and ')}`)
  }

  /** May the store grant this now? */
  admits(mode: Mode): boolean {
    const modes = [...this.granted.values()]
    return modes.length === 0 || (mode.kind === 'shared' && modes.every(({ kind }) => kind === 'shared'))
  }

  violations(): string[] {
    const { queue: queued, asking, turn, holds, writer, heldBack } = this.state
    const found = [...this.wrong]
    const modes = [...holds].map(({ mode }) => mode.kind)
    if (modes.includes('exclusive') && modes.length > 1) found.push('an exclusive hold is not alone')
    if (heldBack !== undefined && holds.size > 0) found.push('somebody holds what is being handed over')
    const exclusiveHold = [...holds].find(({ mode }) => mode.kind === 'exclusive')
    if (writer !== exclusiveHold) found.push('the writer is not the exclusive hold')
    if (turn !== undefined && ![...asking].includes(turn)) found.push('the turn has been answered')
    if (turn !== undefined && turn.owner === undefined) found.push('the turn is nobody’s')
    if (queued.size > 0 && turn === undefined && !queue.isTaken(this.state))
      found.push('the queue stands still')
    const owners = [...asking].flatMap(({ owner }) => owner ?? [])
    for (const caller of this.callers) {
      const places = [...queued, ...owners].filter((one) => one === caller).length
      if (places !== (caller.ends.length === 0 ? 1 : 0))
        found.push(`caller ${caller.id} is in ${places} places`)
    }
    for (const hold of this.granted.keys())
      if (![...holds].includes(hold) && hold !== heldBack)
        found.push('a grant is held by nobody and was not given back')
    return found
  }

  /** What can happen next, each as a function of a world in this state. */
  events(kinds: readonly Kind[], most: number): [what: string, happen: (world: World) => void][] {
    const found: [string, (world: World) => void][] = []
    if (this.callers.length < most) for (const kind of kinds) found.push([kind, (world) => world.call(kind)])
    for (const { id, ends } of this.callers)
      if (ends.length === 0) found.push([`cancel ${id}`, (world) => world.cancel(at(world.callers, id))])
    for (const [i, request] of [...this.state.asking].entries()) {
      const { owner, claim, once, reassigned, reported } = request
      const answer = (...reply: [Parameters<World['reply']>[1], boolean]) =>
        found.push([`${reply} to ${i}`, (world) => world.reply(at([...world.state.asking], i), ...reply)])
      if (this.admits(claim.mode)) {
        answer('grant', owner !== undefined)
        if (owner !== undefined) answer('grant', false)
        if (owner !== undefined && !reassigned) answer('late', true)
      }
      if (once || owner === undefined || reassigned) answer('nothing', owner !== undefined)
      answer('failure', owner !== undefined)
      if (!reported && claim.mode.kind === 'shared')
        found.push([`report ${i}`, (world) => world.report(at([...world.state.asking], i))])
    }
    for (const [i] of [...this.state.holds].entries()) {
      const hold = (world: World) => at([...world.state.holds], i)
      found.push([`lose ${i}`, (world) => world.lose(hold(world))])
      for (const how of ['now', 'after a rest', 'to the store'] as const)
        found.push([`release ${i} ${how}`, (world) => world.release(hold(world), how)])
    }
    const resting = (world: World) => world.state.heldBack as Hold
    if (this.state.heldBack !== undefined)
      for (const pass of [true, false])
        found.push([`rested ${pass}`, (world) => world.rested(resting(world), pass)])
    return found
  }

  /** Equal for states from which the same can happen. */
  key(): string {
    const { queue: queued, asking, turn, holds, writer, heldBack } = this.state
    const requests = [...asking].map((one) => [
      ...[one.owner?.id, one.once, one.reassigned, one.reported, one.claim.mode.kind, one === turn],
    ])
    const held = [...holds].map((hold) => [hold.mode.kind, hold === writer])
    const callers = this.callers.map(({ mode, once, terms, ends }) => [mode.kind, once, terms.fair, ends])
    return JSON.stringify([[...queued].map(({ id }) => id), requests, held, heldBack?.mode.kind, callers])
  }
}

function at<T>(all: readonly T[], i: number): T {
  const one = all[i]
  assert.ok(one !== undefined)
  return one
}

/** Looks at every state that a few callers can reach. Returns what is wrong first, with the way to it. */
function explore(rules: Rules, kinds: readonly Kind[], most: number): { states: number; wrong?: string } {
  const seen = new Set<string>()
  type Path = readonly [string, (world: World) => void][]
  let paths: Path[] = [[]]
  while (paths.length > 0) {
    const longer: Path[] = []
    for (const path of paths) {
      const replay = () => {
        const world = new World(rules)
        for (const [, happen] of path) happen(world)
        return world
      }
      const world = replay()
      const key = world.key()
      if (seen.has(key)) continue
      seen.add(key)
      const wrong = [...world.violations(), ...stuck(world)]
      if (wrong.length > 0)
        return { states: seen.size, wrong: `${wrong[0]} after ${path.map(([what]) => what).join(', ')}` }
      for (const event of replay().events(kinds, most)) longer.push([...path, event])
    }
    paths = longer
  }
  return { states: seen.size }
}

/** From here on the store grants what it can and holders release: then everybody is served. Uses `world` up. */
function stuck(world: World): string[] {
  for (let steps = 0; steps < 100; steps++) {
    const { state } = world
    const hold = [...state.holds][0]
    const request = [...state.asking].find(({ claim }) => world.admits(claim.mode))
    if (state.heldBack !== undefined) world.rested(state.heldBack, true)
    else if (hold !== undefined) world.release(hold, 'now')
    else if (request !== undefined) world.reply(request, 'grant', request.owner !== undefined)
    else break
  }
  const wrong = world.violations()
  if (wrong.length > 0) return wrong
  const waiting = world.callers.filter(({ ends }) => ends.length === 0)
  if (waiting.length > 0) return [`caller ${waiting[0]?.id} is never served`]
  return queue.isEmpty(world.state) && world.granted.size === 0 ? [] : ['something is left behind']
}

for (const { kinds, most, atLeast } of [
  { kinds: ['writer'], most: 5, atLeast: 2_500 },
  { kinds: ['writer', 'reader'], most: 4, atLeast: 20_000 },
  { kinds: ['writer', 'reader', 'try', 'fair'], most: 3, atLeast: 15_000 },
] as const)
  test(`${most} callers (${kinds.join(', ')}): whatever happens, one owner, first come, first served, and each call ends once`, (t) => {
    const { states, wrong } = explore(rules, kinds, most)
    assert.equal(wrong, undefined)
    t.diagnostic(`${states} states`)
    assert.ok(states >= atLeast, `only ${states} states`)
  })

/** Broken on purpose: the enumeration has to notice each. */
const mistakes: Readonly<Record<string, [complaint: RegExp, Partial<Rules>]>> = {
  'the last in the queue inherits': [
    /served before/,
    {
      findSuccessor: ((state, hold) =>
        queue.findSuccessor(state, hold) && [...state.queue].at(-1)) as Rules['findSuccessor'],
    },
  ],
  'an heir stays in the queue': [
    /ended as held and held/,
    { handedOver: (state, hold) => queue.removeHold(state, hold) },
  ],
  'the first waiter inherits, whatever it asked for': [
    /was granted exclusive/,
    { findSuccessor: ((state) => [...state.queue][0]) as Rules['findSuccessor'] },
  ],
  'the grant is handed over twice': [
    /not alone|held by nobody/,
    { handedOver: (state, _, heir) => void state.queue.delete(heir) },
  ],
  'the heir of a turn is forgotten': [
    /nobody’s/,
    {
      cancel: ((state, entry) => {
        const left = queue.cancel(state, entry)
        if (left !== undefined) left.owner = undefined
        return left
      }) as Rules['cancel'],
    },
  ],
  'a reader takes over the turn of a writer': [
    /was granted exclusive/,
    {
      cancel: ((state, entry) => {
        const left = queue.cancel(state, entry)
        const [next] = state.queue
        if (left === undefined || left.owner !== undefined || next === undefined) return left
        state.queue.delete(next)
        left.owner = next
        return left
      }) as Rules['cancel'],
    },
  ],
  'an abandoned turn stays the turn': [
    /nobody’s/,
    {
      cancel: ((state, entry) => {
        const { turn } = state
        const left = queue.cancel(state, entry)
        state.turn ??= turn
        return left
      }) as Rules['cancel'],
    },
  ],
  'a caller that has gone stays the owner': [
    /is in 1 places/,
    { cancel: ((state, entry) => void state.queue.delete(entry)) as Rules['cancel'] },
  ],
  'a turn begins beside a hold': [
    /while an exclusive hold is alive/,
    { pump: ((state) => queue.pump({ ...state, writer: undefined, heldBack: undefined })) as Rules['pump'] },
  ],
  'nobody is sent after an answer': [/stands still/, { pump: () => undefined }],
  'the turn is kept after its answer': [
    /has been answered/,
    {
      arrived: ((state, request) => {
        const { turn } = state
        const owner = queue.arrived(state, request)
        state.turn = turn
        return owner
      }) as Rules['arrived'],
    },
  ],
  'a hold that is over still keeps others out': [
    /writer is not/,
    { removeHold: (state, hold) => void state.holds.delete(hold) },
  ],
  'a resting hold keeps nobody out': [
    /stands still/,
    { holdBack: (state, hold) => queue.removeHold(state, hold) },
  ],
  'a late grant is delivered': [
    /ended as/,
    { conclude: (request, reply) => conclude(request, { ...reply, waiting: true }) },
  ],
  'a grant without an owner is delivered': [
    /for nobody/,
    { conclude: (request, reply) => conclude(request, { ...reply, owned: true }) },
  ],
  'a request taken over ends with its first owner': [
    /is in 0 places/,
    {
      conclude: (request, reply) => {
        const outcome = conclude(request, reply)
        return outcome === 'ask-again' ? 'nothing' : outcome
      },
    },
  ],
  'a newcomer overtakes the queue': [
    /two turns|overtook/,
    {
      enqueue: ((state, entry, once) => {
        const next = queue.enqueue(state, entry, once)
        if (next !== 'queued' || queue.isTaken(state)) return next
        state.queue.delete(entry)
        return { entry, once, turn: true }
      }) as Rules['enqueue'],
    },
  ],
  'one that asks again has two turns': [
    /two turns/,
    { askAgain: (_, entry) => ({ entry, once: false, turn: true }) },
  ],
}

for (const [mistake, [complaint, broken]] of Object.entries(mistakes))
  test(`the enumeration notices when ${mistake}`, () => {
    const { wrong = '' } = explore({ ...rules, ...broken }, ['writer', 'reader', 'fair'], 3)
    assert.match(wrong, complaint)
  })

test('a single attempt that a cache may have refused is sent once more while its caller waits', () => {
  const refused = { owned: true, granted: false, usable: false, newest: true }
  const outcome = (once: boolean, refusedByCache: boolean, waiting: boolean) =>
    conclude({ once, reassigned: false }, { ...refused, refusedByCache, waiting })
  assert.equal(outcome(true, true, true), 'ask-patiently')
  assert.equal(outcome(true, true, false), 'nothing')
  assert.equal(outcome(true, false, true), 'refuse')
  assert.equal(outcome(false, false, true), 'time-out')
})
