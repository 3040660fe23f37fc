/**
 * The broker's clients and their attempts, and what happens to these when a connection ends:
 * ```
 *   client sent bye ─────────────────────────► released
 *   process is over (by the kernel) ─────────► released at once
 *   process lives, or this is unknown ───────► still held, but unreachable: an orphan
 *       it comes back and names them ────────► its own again
 *       it comes back without them ──────────► released
 *       its process ends (polled: 50 ms) ────► released
 *       their ttl passes ────────────────────► overdue, like any
 * ```
 * Holds that a new broker finds in the journal begin as orphans. Queue entries are not kept for absent clients: a client that
 * comes back enters again, with its ticket.
 */
import type { Clock } from '../../core/clock.js'
import { hasExited, type ProcessIdentity } from './processes.js'
import type { Answer, Hello, Notice } from './protocol.js'

/** The broker's side of a client's connection. */
export interface Connection {
  send(message: readonly [id: number, ...Answer] | Notice): void
  /** Ends it, because its client has come back over another connection. */
  end(): void
}

export interface Client {
  readonly id: string
  readonly by: string
  readonly identity: ProcessIdentity
  /** Undefined: an orphan. */
  connection: Connection | undefined
  readonly attempts: Set<string>
}

/** An attempt that waits or holds. */
export interface Entry {
  readonly name: string
  readonly client: Client
  /** The call that a grant answers. */
  call: number
  /** When that call arrived. */
  asked: number
  /** Its client has been notified that others wait. */
  contended: boolean
}

export interface Clients {
  readonly entries: ReadonlyMap<string, Entry>
  /** Registers an attempt and its client. */
  add(client: Client, name: string, attempt: string, call: number): Entry
  /** Removes an attempt that neither waits nor holds any more. */
  forget(attempt: string): void
  /** Registers the client of a hold from the journal. */
  orphan(id: string, by: string, mark: ProcessIdentity): Client
  enter(connection: Connection, who: Hello): { readonly client: Client; readonly gone: readonly string[] }
  left(client: Client, connection: Connection, graceful: boolean): void
  /** Asks a client that has to wait anyway for a standby thread, unless another client has been asked or it runs the broker itself. */
  requestStandby(client: Client): void
  /** Checks the orphans, and again soon. */
  watch(): void
  stop(): void
}

/** The longest interval between checks of the orphans' processes, in ms. */
const poll = 50

export function createClients(
  clock: Clock,
  here: ProcessIdentity,
  ends: {
    /** Releases the attempt's hold or removes its queue entry. `comesBack`: the same attempt may enter again. */
    readonly releaseGrant: (name: string, attempt: string, comesBack: boolean) => void
    /** Does the attempt hold, rather than wait? */
    readonly holds: (name: string, attempt: string) => boolean
    /** Time has passed for this name. */
    readonly look: (name: string) => void
  },
): Clients {
  const clients = new Map<string, Client>()
  const entries = new Map<string, Entry>()
  let standby: Client | undefined
  let delay = 1
  let cancelDelay: (() => void) | undefined

  function add(client: Client, name: string, attempt: string, call: number): Entry {
    const entry: Entry = { name, client, call, asked: clock.now(), contended: false }
    entries.set(attempt, entry)
    client.attempts.add(attempt)
    return entry
  }

  function forget(attempt: string): void {
    entries.get(attempt)?.client.attempts.delete(attempt)
    entries.delete(attempt)
  }

  function giveBackAll(
    client: Client,
    which: (name: string, attempt: string) => boolean,
    comesBack: (attempt: string) => boolean,
  ): void {
    for (const attempt of [...client.attempts]) {
      const entry = entries.get(attempt)
      if (entry !== undefined && which(entry.name, attempt))
        ends.releaseGrant(entry.name, attempt, comesBack(attempt))
    }
  }

  function orphan(id: string, by: string, mark: ProcessIdentity): Client {
    const client = clients.get(id) ?? { id, by, identity: mark, connection: undefined, attempts: new Set() }
    clients.set(id, client)
    return client
  }

  function enter(connection: Connection, who: Hello) {
    const client = orphan(who.client, who.by, who.mark)
    client.connection?.end()
    client.connection = connection
    const wanted = new Set([...who.held, ...who.asked])
    giveBackAll(
      client,
      (name, attempt) => !wanted.has(attempt) || !ends.holds(name, attempt),
      (attempt) => wanted.has(attempt),
    )
    const gone = who.held.filter((attempt) => !client.attempts.has(attempt))
    return { client, gone }
  }

  function left(client: Client, connection: Connection, graceful: boolean): void {
    if (client.connection !== connection) return
    client.connection = undefined
    if (standby === client) standby = undefined
    const over = graceful || hasExited(client.identity, here)
    giveBackAll(
      client,
      (name, attempt) => over || !ends.holds(name, attempt),
      () => !over,
    )
    if (client.attempts.size === 0) {
      clients.delete(client.id)
      return
    }
    // A killed process closes its sockets a moment before the kernel shows it as ended.
    delay = 1
    watch()
  }

  function nominate(client: Client): void {
    if (standby !== undefined || client.identity.pid === here.pid) return
    standby = client
    client.connection?.send([0, 'standby', ''])
  }

  function watch(): void {
    cancelDelay?.()
    cancelDelay = undefined
    let waiting = false
    for (const client of clients.values()) {
      if (client.connection !== undefined) continue
      const over = hasExited(client.identity, here)
      for (const attempt of client.attempts) {
        const name = entries.get(attempt)?.name ?? ''
        if (over) ends.releaseGrant(name, attempt, false)
        else ends.look(name)
      }
      if (client.attempts.size === 0) clients.delete(client.id)
      else waiting = true
    }
    if (!waiting) return
    cancelDelay = clock.at(clock.now() + delay, watch)
    delay = Math.min(delay * 2, poll)
  }

  return {
    entries,
    add,
    forget,
    orphan,
    enter,
    left,
    requestStandby: nominate,
    watch,
    stop: () => cancelDelay?.(),
  }
}
