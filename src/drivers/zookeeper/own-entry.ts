/**
 * The entry of one claim in the queue, and the queue as read with it.
 *
 * The list follows the create on the same connection, so it contains our own entry and every older one that still exists, even
 * on a server that lags behind. No older entry can appear later. If the connection breaks before a create is answered, the entry
 * is looked for by the attempt id in its name, after a `sync`.
 */
import type { Claim } from '../../core/driver.js'
import { ignore, isCode, isTransient } from './failure.js'
import { entryName } from './keys.js'
import { parseEntry } from './queue.js'
import { encodeRecord } from './record.js'
import type { OwnNode, Runtime } from './runtime.js'
import { codes, create, exists, flags, listing, remove, type Stat, sync } from './session/protocol.js'

/** The entry as the server created it. */
export type EntryNode = OwnNode & { readonly path: string; readonly stat: Stat; readonly name: string }

export class OwnEntry {
  readonly #runtime: Runtime
  readonly #claim: Claim
  /** The path of the lock's node, which the entries are below. */
  readonly #lock: string
  node: EntryNode | undefined
  /** The session of a create that has no answer. */
  #ambiguous: bigint | undefined
  /** The clock reading from before the queue was last read. */
  sent = 0
  /** The transaction that last stamped the queue, as of the newest list. */
  stamp = 0n

  constructor(runtime: Runtime, claim: Claim, lock: string) {
    this.#runtime = runtime
    this.#claim = claim
    this.#lock = lock
  }

  /** A create of this session has no answer yet. */
  get isAmbiguous(): boolean {
    return this.#ambiguous !== undefined
  }

  /** Do we have an entry in the current session? */
  isQueued(): boolean {
    const { session } = this.#runtime
    if (this.node !== undefined && this.node.session !== session.id) this.node = undefined
    if (this.#ambiguous !== undefined && this.#ambiguous !== session.id) this.#ambiguous = undefined
    return this.node !== undefined
  }

  async readQueue(): Promise<readonly string[]> {
    this.sent = this.#runtime.clock.now()
    return this.#onListed(await this.#runtime.session.call(listing(this.#lock)).catch(ignore(codes.noNode)))
  }

  #onListed(
    list: { readonly children: readonly string[]; readonly stat: Stat } | undefined,
  ): readonly string[] {
    this.stamp = list?.stat.mzxid ?? 0n
    return list?.children ?? []
  }

  /** Creates the queue entry, and reads the queue with it. */
  async enter(): Promise<readonly string[] | 'again'> {
    const { session, settings, acl, clock, client } = this.#runtime
    const { attempt, mode } = this.#claim
    this.#runtime.assertDelayFits(this.#claim)
    const path = `${this.#lock}/${entryName(attempt, mode, settings.names)}`
    const id = session.id
    this.sent = clock.now()
    const created = session.call(
      create(path, encodeRecord(this.#claim, client), acl, flags.ephemeralSequential),
    )
    const listed = session.call(listing(this.#lock))
    listed.catch(() => undefined)
    this.#ambiguous = id
    try {
      const answer = await created
      this.#ambiguous = undefined
      this.#runtime.noteServerTime(answer.stat)
      this.#keep(answer.path, answer.stat, id)
      return this.#onListed(await listed)
    } catch (error) {
      if (!isTransient(error)) this.#ambiguous = undefined
      if (!isCode(error, codes.noNode)) throw error
      await this.#runtime.makeLock(this.#lock)
      return 'again'
    }
  }

  /** The answer to a create was lost: does the entry exist? If so, reads the queue. */
  async recover(): Promise<readonly string[] | 'again'> {
    const { session } = this.#runtime
    session.call(sync(this.#lock)).catch(() => undefined)
    const children = await this.readQueue()
    const ours = children.find((node) => parseEntry(node)?.attempt === this.#claim.attempt)
    if (ours === undefined) {
      this.#ambiguous = undefined
      return 'again'
    }
    const path = `${this.#lock}/${ours}`
    const stat = await session.call(exists(path)).catch(ignore(codes.noNode))
    if (stat === undefined) return 'again'
    this.#ambiguous = undefined
    if (stat.ephemeralOwner !== session.id) {
      // The node belongs to an ended session and the server has yet to remove it: it is no longer ours.
      await session.call(remove(path)).catch(ignore(codes.noNode))
      return 'again'
    }
    this.#keep(path, stat, session.id)
    return this.readQueue()
  }

  #keep(path: string, stat: Stat, session: bigint): void {
    const name = path.slice(this.#lock.length + 1)
    this.node = { lock: this.#lock, attempt: this.#claim.attempt, path, stat, session, name }
  }

  /** Resolves once the entry is removed. Without a connection it is removed on the next one. */
  async leave(): Promise<undefined> {
    const own = this.#ownNode()
    if (own !== undefined) await this.#runtime.remove(own).catch(() => undefined)
    return undefined
  }

  abandon(): void {
    const own = this.#ownNode()
    if (own !== undefined) this.#runtime.remove(own).catch(() => undefined)
  }

  #ownNode(): OwnNode | undefined {
    if (this.node !== undefined) return this.node
    if (this.#ambiguous === undefined) return undefined
    const { attempt } = this.#claim
    return { lock: this.#lock, attempt, path: undefined, session: this.#ambiguous }
  }
}
