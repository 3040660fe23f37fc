/**
 * The broker without its socket. Calls of clients change rows; the broker notifies clients of grants, of losses, and of other
 * clients that begin to wait. Rows and journal are in `durable-table.ts`, clients and their absence in `clients.ts`, the socket in
 * `broker-thread.ts`.
 *
 * Long because every notification to clients, and its time, is in one place.
 */
import type { Clock } from '../../core/clock.js'
import type { NamedRequest } from '../memory/acquire-many.js'
import * as table from '../memory/table.js'
import { type Client, type Connection, createClients } from './clients.js'
import { type Command, createDurableTable, type Outcome, type Snapshot } from './durable-table.js'
import type { Journal } from './journal.js'
import type { JournalState } from './journal-lines.js'
import { hasExited, type ProcessIdentity } from './processes.js'
import { type Answer, type Call, decodeMode, type Hello } from './protocol.js'
import { quarantineAfter } from './quarantine.js'
import { errorMessage } from './runtime-directory.js'
import { createWatches } from './watches.js'

export interface BrokerParts {
  readonly clock: Clock
  /** Milliseconds since 1970. */
  readonly wall: () => number
  /** Milliseconds since the machine was started. */
  readonly uptime: () => number
  readonly here: ProcessIdentity
  /** Opens a journal with the content of `snapshot`. @returns `before` when that one goes on for now @throws as fs does */
  readonly open: (snapshot: Snapshot, before?: Journal) => Journal
}

export interface Broker {
  /** A client has authenticated. `gone`: attempts that the client believes it holds, but does not. */
  enter(connection: Connection, who: Hello): { readonly client: Client; readonly gone: readonly string[] }
  call(client: Client, call: Call): void
  /** The client's connection has ended. `bye`: on purpose. */
  clientLeft(client: Client, connection: Connection, graceful: boolean): void
  /** Restores the journal file. @throws as fs does */
  repair(): void
  /**
   * From now on nothing has an effect: connections may still bring calls, and end, but the journal is closed, and the next broker
   * has read it.
   */
  stop(): void
  readonly isStopped: boolean
}

const maxLine = 100
const cellVerbs: readonly string[] = ['read', 'write', 'watch']

type CallFor<V extends Call[1]> = Extract<Call, readonly [number, V, ...unknown[]]>

export function createBroker(restored: JournalState, parts: BrokerParts): Broker {
  const { clock, wall, uptime, here, open } = parts
  const clients = createClients(clock, here, {
    releaseGrant: (name, attempt, comesBack) => void end(name, attempt, comesBack),
    holds: (name, attempt) => ledger.row(name).holds.some((hold) => hold.attempt === attempt),
    look: (name) => void apply(name, table.expire),
  })
  const { entries } = clients
  let isStopped = false

  const holds = restored.holds.filter(({ identity }) => !hasExited(identity, here))
  for (const { name, hold, client, identity } of holds) {
    clients.add(clients.orphan(client, hold.client ?? '', identity), name, hold.attempt, 0)
  }
  const findOwner = (attempt: string) => {
    const client = entries.get(attempt)?.client
    return { client: client?.id ?? '', identity: client?.identity ?? here }
  }
  const onDue = (name: string) => void apply(name, table.expire)
  // Cells from before the machine's last start are dropped: every process that used them is gone, too.
  const cells = restored.cells.filter(({ boot }) => boot === here.boot || boot === '')
  const quarantine = quarantineAfter(restored, here, uptime())
  const ledger = createDurableTable(
    { ...restored, holds, cells },
    { clock, wall, uptime, open, findOwner, onDue, quarantine },
  )
  const watches = createWatches(ledger.cells)
  clients.watch()

  /** Runs a command and notifies the affected clients, other than its caller, of the changes. */
  function apply<A>(name: string, command: Command<A>): Outcome<A> {
    const outcome = ledger.apply(name, command)
    for (const { attempt } of outcome.expired) lose(attempt)
    for (const attempt of outcome.refused) {
      answer(attempt, ['failed', refusal(outcome)])
      clients.forget(attempt)
    }
    for (const hold of outcome.granted) tellGrant(hold, outcome.row)
    return outcome
  }

  /** @param comesBack the attempt leaves the queue only for now, and may enter again */
  function end(name: string, attempt: string, comesBack = false): Outcome<boolean> {
    const outcome = apply(name, (row, now, wall) => table.cancel(row, attempt, now, wall, comesBack))
    clients.forget(attempt)
    tellContended(outcome.row)
    return outcome
  }

  function lose(attempt: string): void {
    entries.get(attempt)?.client.connection?.send([0, 'lost', attempt])
    clients.forget(attempt)
  }

  function answer(attempt: string, message: Answer): void {
    const entry = entries.get(attempt)
    entry?.client.connection?.send([entry.call, ...message])
  }

  function tellGrant(hold: table.Hold, row: table.Row): void {
    if (entries.has(hold.attempt)) answer(hold.attempt, ['granted', ...grantTerms(hold, row)])
  }

  function grantTerms(
    hold: table.Hold,
    row: table.Row,
  ): [token: number, upTo: number, age: number, contended: boolean] {
    const entry = entries.get(hold.attempt)
    if (entry === undefined) return [hold.token, hold.upTo, 0, true]
    entry.contended = othersWait(row, entry.client)
    // The time from the call to the newest proof: the client may add it to the time at which it sent the call.
    const age = Math.max(0, hold.expires - hold.ttl - entry.asked)
    return [hold.token, hold.upTo, age, entry.contended]
  }

  /** A long queue is not searched: it has entries of many processes or of `fair` requests, and neither kind hands over within the process. */
  function othersWait({ queue }: table.Row, client: Client): boolean {
    return queue.length > maxLine || queue.some(({ attempt }) => entries.get(attempt)?.client !== client)
  }

  /** Only an exclusive holder hands over within its process, so only it needs to know whether other clients wait. */
  function tellContended(row: table.Row, anyway = false): void {
    const hold = row.holds[0]
    const entry = hold?.mode.kind === 'exclusive' ? entries.get(hold.attempt) : undefined
    if (hold === undefined || entry === undefined) return
    const contended = othersWait(row, entry.client)
    if (contended === entry.contended && !anyway) return
    entry.contended = contended
    entry.client.connection?.send([0, 'contended', hold.attempt, contended])
  }

  /** The attempt was handed over to another client: its first client no longer owns it. */
  function adopt(client: Client, name: string, attempt: string, id: number): void {
    lose(attempt)
    clients.add(client, name, attempt, id)
    ledger.recordOwner(name, attempt)
  }

  /** The attempt's hold was overdue, and the client was notified of the loss only just now: the attempt is registered again for a new hold. */
  function again(client: Client, name: string, attempt: string, id: number): void {
    if (!entries.has(attempt)) clients.add(client, name, attempt, id)
  }

  function acquire(
    client: Client,
    [id, , name, attempt, mode, ttl, wait, ticket, note]: CallFor<'acquire'>,
  ): void {
    if (entries.get(attempt) !== undefined && entries.get(attempt)?.client !== client)
      adopt(client, name, attempt, id)
    const entry = entries.get(attempt) ?? clients.add(client, name, attempt, id)
    entry.call = id
    entry.asked = clock.now()
    const ask: table.AcquireRequest = {
      attempt,
      mode: decodeMode(mode),
      ttl,
      wait,
      ticket: ticket || undefined,
      note: note || undefined,
      client: client.by,
    }
    const outcome = apply(name, (row, now, wall) => table.acquire(row, ask, now, wall))
    const { answer: acquired, row, failure } = outcome
    if (outcome.refused.includes(attempt)) return
    again(client, name, attempt, id)
    if (acquired.is === 'granted' && failure === undefined) return tellGrant(acquired.hold, row)
    const holder = row.holds[0] ? table.toHolder(row.holds[0], clock.now()) : null
    if (acquired.is === 'waiting') {
      answer(attempt, ['waiting', acquired.position, acquired.ticket, holder])
      clients.requestStandby(client)
      return tellContended(row)
    }
    if (failure !== undefined) {
      answer(attempt, ['failed', refusal(outcome)])
      end(name, attempt)
      return
    }
    if (acquired.is === 'busy') answer(attempt, ['busy', holder])
    else if (acquired.is === 'limit') answer(attempt, ['limit', acquired.limit])
    else answer(attempt, ['over'])
    clients.forget(attempt)
  }

  /** Grants all or none, with one answer. If the claims cannot be granted, ends what an earlier try left of them. */
  function together(client: Client, [id, , items]: CallFor<'together'>): Answer {
    const asks = items.map(([name, attempt, mode, ttl, note]): NamedRequest => {
      const entry = entries.get(attempt) ?? clients.add(client, name, attempt, id)
      Object.assign(entry, { call: id, asked: clock.now() })
      const ask = {
        attempt,
        mode: decodeMode(mode),
        ttl,
        wait: false,
        note: note || undefined,
        client: client.by,
      }
      return [name, ask]
    })
    const { answer, failure } = ledger.batch(asks)
    if (answer.is === 'granted' && failure === undefined) {
      for (const { row, granted, expired } of answer.steps) {
        for (const { attempt } of expired) lose(attempt)
        for (const hold of granted) tellGrant(hold, row)
      }
      for (const [name, { attempt }] of asks) again(client, name, attempt, id)
      return ['all', answer.holds.map((hold, i) => grantTerms(hold, ledger.row(asks[i]?.[0] ?? '')))]
    }
    for (const [name, { attempt }] of asks) {
      if (ledger.row(name).holds.some((hold) => hold.attempt === attempt)) end(name, attempt)
      else clients.forget(attempt)
    }
    if (answer.is === 'granted') return ['failed', refusal({ failure })]
    return ['none', answer.at, answer.why.is === 'limit' ? answer.why.limit : null]
  }

  function renew([, , name, attempt, ttl, order]: CallFor<'renew'>): Answer {
    const outcome = apply(name, (row, now, wall) => table.renew(row, attempt, ttl, now, wall, order))
    return outcome.failure === undefined
      ? ['done', outcome.answer !== undefined]
      : ['failed', refusal(outcome)]
  }

  function downgrade([, , name, attempt, last]: CallFor<'downgrade'>): Answer {
    const outcome = apply(name, (row, now, wall) => table.downgrade(row, attempt, last, now, wall))
    return outcome.failure === undefined
      ? ['done', outcome.answer !== undefined]
      : ['failed', refusal(outcome)]
  }

  function release([, , name, attempt, last]: CallFor<'release'>): Answer {
    const outcome = apply(name, (row, now, wall) => table.release(row, attempt, last, now, wall))
    clients.forget(attempt)
    return ['done', outcome.answer]
  }

  function force([, , name, attempts]: CallFor<'force'>): Answer {
    const { answer } = apply(name, (row, now, wall) => table.forceRelease(row, now, wall, attempts))
    for (const { attempt } of answer) lose(attempt)
    return ['done', answer.length]
  }

  function status(name: string) {
    return table.toLockStatus(apply(name, table.expire).row, clock.now())
  }

  function write([, , key, seen, value, keep, id]: CallFor<'write'>): Answer {
    const change = { ifVersion: seen, value: value ?? undefined, ttl: keep ?? Number.POSITIVE_INFINITY, id }
    try {
      return ['done', ledger.cells.write(key, change, ledger.recordCell)]
    } catch (error) {
      return ['failed', `the journal cannot be written, so the cell stays as it is: ${errorMessage(error)}`]
    }
  }

  function respond(client: Client, call: Exclude<Call, CallFor<'acquire' | 'watch'>>): Answer {
    switch (call[1]) {
      case 'read':
        return ['done', ledger.cells.read(call[2])]
      case 'write':
        return write(call)
      case 'unwatch':
        return ['done', watches.drop(call[3])]
      case 'together':
        return together(client, call)
      case 'renew':
        return renew(call)
      case 'release':
        return release(call)
      case 'downgrade':
        return downgrade(call)
      case 'cancel':
        return ['done', end(call[2], call[3]).answer]
      case 'force':
        return force(call)
      case 'inspect':
        return ['done', status(call[2])]
      case 'list': {
        for (const row of ledger.used(call[2])) apply(row.name, table.expire)
        return ['done', ledger.used(call[2]).map((row) => table.toLockStatus(row, clock.now()))]
      }
    }
  }

  function enter(connection: Connection, who: Hello) {
    const entered = clients.enter(connection, who)
    // Send what the client missed while it was away.
    for (const attempt of who.held) {
      const name = entries.get(attempt)?.name
      if (name !== undefined) tellContended(ledger.row(name), true)
    }
    return entered
  }

  return {
    enter,
    clientLeft(client, connection, graceful) {
      if (isStopped) return
      watches.clientLeft(connection)
      clients.left(client, connection, graceful)
    },
    repair() {
      if (!isStopped) ledger.repair(true)
    },
    call(client, call) {
      if (isStopped) return
      const { unsettled } = ledger
      if (unsettled !== undefined && cellVerbs.includes(call[1]))
        client.connection?.send([call[0], 'failed', `no cell is known for certain: ${unsettled}`])
      else if (call[1] === 'acquire') acquire(client, call as CallFor<'acquire'>)
      else if (call[1] === 'watch') watches.add(client, call as CallFor<'watch'>)
      else
        client.connection?.send([
          call[0],
          ...respond(client, call as Exclude<Call, CallFor<'acquire' | 'watch'>>),
        ])
    },
    stop() {
      isStopped = true
      clients.stop()
      ledger.stop()
    },
    get isStopped() {
      return isStopped
    },
  }
}

function refusal({ failure }: Pick<Outcome<unknown>, 'failure'>): string {
  return `the journal cannot be written, so nothing is granted: ${errorMessage(failure)}`
}
