/**
 * One queued claim. The diagram is at {@link Waiter}.
 *
 * The list follows the create on the same connection, so it contains our own entry and every older one that still exists, even
 * on a server that lags behind. No older entry can appear later. After each event the waiter reads the queue again, because the
 * predecessor may have given up with others still ahead. If the connection breaks before a create is answered, the waiter looks
 * for the entry by the attempt id in its name, after a `sync`.
 *
 * Long because the life of a claim is one state machine.
 */
import type { Claim, Wait } from '../../core/driver.js'
import { BackendError, permitLimitError } from '../../core/errors.js'
import { admits } from '../../core/mode.js'
import { ignore, isCode, isPassing, troubleOf } from './failure.js'
import { Hold } from './hold.js'
import { pathOf, placeName } from './keys.js'
import { inOrder, judge, type Place, placeOf, type Verdict } from './queue.js'
import { readRecord, recordOf } from './record.js'
import type { Desk, Own, Standing } from './runtime.js'
import {
  codes,
  create,
  exists,
  flags,
  getChildren,
  getData,
  listing,
  remove,
  type Stat,
  sync,
} from './session/protocol.js'
import { shownToken, stamped } from './stamp.js'
import { tokenOf } from './token.js'

type Node = Own & { readonly path: string; readonly stat: Stat; readonly name: string }
type Waiting = Extract<Verdict, { is: 'waiting' }>

/** The pause after a tie before the waiter retries, in ms. */
const tiePause = 50

/**
 * ```
 *            create + list, sent together            first ────────────────────────► Hold
 *   ask ──────────────────────────────────► judge ──┤
 *    ▲                                       ▲      └ behind another: watch it ──► parked
 *    │ entry gone: session ended, removed    └─────────── that entry went or changed ┘
 *    └───────────────────────────────────────┘
 *            wait over, or refused ──► the entry is removed ──► nothing
 * ```
 */
export class Waiter implements Standing {
  readonly #desk: Desk
  readonly #claim: Claim
  readonly #wait: Wait
  readonly #lock: string
  readonly #once: boolean
  #node: Node | undefined
  /** The session of a create that has no answer. */
  #doubtful: bigint | undefined
  #sent = 0
  #woken: () => void = () => undefined
  /** The transaction that last stamped the queue, as of the newest list. */
  #stamp = 0n
  /** The holder last reported, by its node. */
  #shown: { readonly node: string; readonly data: Buffer; readonly stat: Stat } | undefined

  constructor(desk: Desk, claim: Claim, wait: Wait) {
    this.#desk = desk
    this.#claim = claim
    this.#wait = wait
    this.#lock = pathOf(desk.settings.chroot, claim.name)
    this.#once = wait.remaining() === 0
  }

  wake(): void {
    this.#woken()
  }

  troubled(error: Error): void {
    this.#wait.report?.({ error: troubleOf(error) })
  }

  async stand(): Promise<Hold | undefined> {
    const { standings } = this.#desk
    standings.add(this)
    try {
      for (;;) {
        if (this.#wait.ended) return await this.#leave()
        try {
          const end = await this.#try()
          if (end !== 'again') return end.hold
        } catch (error) {
          if (!isPassing(error)) throw error
          await this.#reconnected(error)
        }
      }
    } catch (error) {
      this.#abandon()
      throw error instanceof RangeError ? error : troubleOf(error)
    } finally {
      standings.delete(this)
    }
  }

  /** Reads and judges the queue once, entering it first if need be. */
  async #try(): Promise<'again' | { readonly hold: Hold | undefined }> {
    const { session } = this.#desk
    if (!session.connected) {
      if (session.trouble !== undefined) this.troubled(session.trouble)
      await this.#connected()
      if (this.#wait.ended) return 'again'
    }
    const children = this.#mine() ? await this.#list() : await this.#enter()
    if (children === 'again') return 'again'
    if (children === 'busy') return { hold: undefined }
    const node = this.#node
    if (node === undefined) return 'again'
    const verdict = judge(children, node.name)
    switch (verdict.is) {
      case 'granted':
        return this.#granted(node, verdict.behind)
      case 'gone':
        this.#node = undefined
        return 'again'
      case 'limit':
        throw permitLimitError(
          this.#claim.name,
          verdict.limit,
          this.#claim.mode.kind === 'permits' ? this.#claim.mode.of : 0,
        )
      case 'tie':
        await this.#stepBack()
        return 'again'
      case 'waiting':
        if (this.#once) return { hold: await this.#leave() }
        await this.#park(verdict)
        return 'again'
    }
  }

  /** Do we have an entry in the current session? */
  #mine(): boolean {
    const { session } = this.#desk
    if (this.#node !== undefined && this.#node.session !== session.id) this.#node = undefined
    if (this.#doubtful !== undefined && this.#doubtful !== session.id) this.#doubtful = undefined
    return this.#node !== undefined
  }

  async #list(): Promise<readonly string[]> {
    this.#sent = this.#desk.clock.now()
    return this.#seen(await this.#desk.session.call(listing(this.#lock)).catch(ignore(codes.noNode)))
  }

  #seen(list: { readonly children: readonly string[]; readonly stat: Stat } | undefined): readonly string[] {
    this.#stamp = list?.stat.mzxid ?? 0n
    return list?.children ?? []
  }

  /** Creates the queue entry, and reads the queue with it. */
  async #enter(): Promise<readonly string[] | 'again' | 'busy'> {
    const { session, settings, acl, clock, by } = this.#desk
    if (this.#doubtful !== undefined) return this.#recover()
    const { attempt, mode } = this.#claim
    if (this.#once && !(await this.#looksFree())) return 'busy'
    this.#desk.assertLasts(this.#claim)
    const path = `${this.#lock}/${placeName(attempt, mode, settings.names)}`
    const id = session.id
    this.#sent = clock.now()
    const created = session.call(create(path, recordOf(this.#claim, by), acl, flags.ephemeralSequential))
    const listed = session.call(listing(this.#lock))
    listed.catch(() => undefined)
    this.#doubtful = id
    try {
      const answer = await created
      this.#doubtful = undefined
      this.#desk.told(answer.stat)
      this.#keep(answer.path, answer.stat, id)
      return this.#seen(await listed)
    } catch (error) {
      if (!isPassing(error)) this.#doubtful = undefined
      if (!isCode(error, codes.noNode)) throw error
      await this.#desk.makeLock(this.#lock)
      return 'again'
    }
  }

  /** The answer to a create was lost: does the entry exist? */
  async #recover(): Promise<readonly string[] | 'again'> {
    const { session } = this.#desk
    session.call(sync(this.#lock)).catch(() => undefined)
    const children = await this.#list()
    const ours = children.find((node) => placeOf(node)?.attempt === this.#claim.attempt)
    if (ours === undefined) {
      this.#doubtful = undefined
      return 'again'
    }
    const path = `${this.#lock}/${ours}`
    const stat = await session.call(exists(path)).catch(ignore(codes.noNode))
    if (stat === undefined) return 'again'
    this.#doubtful = undefined
    if (stat.ephemeralOwner !== session.id) {
      // The node belongs to an ended session and the server has yet to remove it: it is no longer ours.
      await session.call(remove(path)).catch(ignore(codes.noNode))
      return 'again'
    }
    this.#keep(path, stat, session.id)
    return this.#list()
  }

  #keep(path: string, stat: Stat, session: bigint): void {
    const name = path.slice(this.#lock.length + 1)
    this.#node = { lock: this.#lock, attempt: this.#claim.attempt, path, stat, session, name }
  }

  /** A single attempt reads the queue first: if it looks busy, the attempt creates no entry and disturbs no waiter. */
  async #looksFree(): Promise<boolean> {
    const synced = this.#desk.session.call(sync(this.#lock)).catch(ignore(codes.noNode))
    const [children] = await Promise.all([this.#list(), synced])
    return admits(
      inOrder(children).map(({ mode }) => mode),
      this.#claim.mode,
    )
  }

  /** The sequence numbers are used up: stay out of the queue until it is empty and its node, with the counter, can be recreated. */
  async #stepBack(): Promise<void> {
    const { session, clock } = this.#desk
    const { signal } = this.#wait
    await this.#leave()
    this.#node = undefined
    const busy = await session.call(remove(this.#lock)).then(
      () => false,
      (error) => isCode(error, codes.notEmpty),
    )
    if (!busy || signal.aborted) return
    const error = new BackendError(
      'zookeeper',
      `the numbers for places below ${this.#lock} are used up; they begin anew once nobody holds or waits there`,
    )
    this.#wait.report?.({ error })
    if (this.#once) throw error
    await new Promise<void>((resolve) => {
      const end = () => {
        stop()
        signal.removeEventListener('abort', end)
        resolve()
      }
      const stop = clock.at(clock.now() + tiePause, end)
      signal.addEventListener('abort', end)
    })
  }

  async #granted(node: Node, behind: boolean): Promise<'again' | { readonly hold: Hold | undefined }> {
    const token = await this.#token(node)
    if (token === undefined) this.#node = undefined
    if (token === undefined || this.#wait.ended) return 'again'
    // The watchers of this entry must learn that it now holds: with permits, the next may hold beside it.
    const watched = behind && this.#claim.mode.kind === 'permits'
    return { hold: new Hold(this.#desk, this.#claim, { token, sent: this.#sent, own: node, watched }) }
  }

  /**
   * The transaction that created the entry; or a newer one, if a hold ahead was passed on since, with tokens newer than our position.
   * Undefined: the entry is gone. Throws `noAuth` where the queue's node belongs to others: any other write of ours would give a newer
   * token than the position of a claim behind us, which could not know.
   */
  async #token(node: Node): Promise<number | undefined> {
    if (this.#stamp < node.stat.czxid) return tokenOf(node.stat.czxid)
    const { session, by } = this.#desk
    const record = recordOf(this.#claim, by)
    // A token of a reader or permit is stamped, too: it is newer than the position of an exclusive claim behind it.
    return stamped(session, node, this.#claim.mode.kind === 'exclusive' ? undefined : record)
  }

  /** Waits until the watched entry goes or changes, the session ends, or the wait is over. */
  async #park(verdict: Waiting): Promise<void> {
    const { session } = this.#desk
    const { signal } = this.#wait
    let wake: () => void = () => undefined
    const woken = new Promise<void>((resolve) => {
      wake = resolve
    })
    this.#woken = wake
    signal.addEventListener('abort', wake)
    const letGo = session.keepAlive()
    const path = verdict.node === undefined ? this.#lock : `${this.#lock}/${verdict.node}`
    try {
      const watches = await this.#watch(verdict, wake)
      if (watches && !signal.aborted) await woken
    } finally {
      letGo()
      this.#woken = () => undefined
      signal.removeEventListener('abort', wake)
      session.drop({ kind: verdict.node === undefined ? 'child' : 'data', path, fired: wake })
    }
  }

  /** Sets the watch and reports the holder. False: read the queue again now. */
  async #watch(verdict: Waiting, wake: () => void): Promise<boolean> {
    const { session } = this.#desk
    const { node, holder, position } = verdict
    const own = this.#node
    if (own === undefined) return false
    if (node === undefined) {
      const again = judge(await session.call(getChildren(this.#lock, wake)), own.name)
      if (again.is !== 'waiting' || again.node !== undefined) return false
    }
    const watched = node === undefined ? undefined : session.call(getData(`${this.#lock}/${node}`, wake))
    watched?.catch(() => undefined)
    if (holder !== undefined && holder.node !== node && this.#shown?.node !== holder.node) {
      const answer = await session.call(getData(`${this.#lock}/${holder.node}`)).catch(ignore(codes.noNode))
      this.#shown = answer && { node: holder.node, ...answer }
    }
    const answer = await watched?.catch(ignore(codes.noNode))
    if (watched !== undefined && answer === undefined) return false
    // The predecessor may have reported that it holds before we watched it; then the queue shows it.
    if (watched !== undefined && this.#claim.mode.kind === 'permits') {
      const again = judge(await session.call(getChildren(this.#lock)), own.name)
      if (again.is !== 'waiting' || again.node !== node) return false
    }
    if (holder !== undefined && holder.node === node && answer !== undefined)
      this.#shown = { node: holder.node, ...answer }
    this.#tell(holder, position)
    return true
  }

  #tell(place: Place | undefined, position: number): void {
    const shown = this.#shown
    if (place === undefined || shown?.node !== place.node) return this.#wait.report?.({ position })
    const { client, note } = readRecord(shown.data)
    const now = this.#desk.now() ?? shown.stat.ctime
    const holder = {
      attempt: place.attempt,
      mode: place.mode,
      token: shownToken(place, shown.stat, this.#stamp),
      heldFor: Math.max(0, now - shown.stat.ctime),
      expiresIn: Number.POSITIVE_INFINITY,
      ...(client !== undefined && { client }),
      ...(note !== undefined && { note }),
    }
    this.#wait.report?.({ holder, position })
  }

  /** The connection broke: reports it, and waits for the next connection while the wait lasts. */
  async #reconnected(error: unknown): Promise<void> {
    this.#wait.report?.({ error: troubleOf(error) })
    await this.#connected()
  }

  async #connected(): Promise<void> {
    const { session } = this.#desk
    const { signal } = this.#wait
    const letGo = session.keepAlive()
    try {
      await session.ready(signal)
    } catch (error) {
      if (!signal.aborted) throw error
      // The wait ended without an answer from any server: this does not mean "not free".
      const { trouble } = session
      if (trouble !== undefined) throw troubleOf(trouble)
    } finally {
      letGo()
    }
  }

  /** Resolves once the entry is removed. Without a connection it is removed on the next one. */
  async #leave(): Promise<undefined> {
    const own = this.#own()
    if (own !== undefined) await this.#desk.remove(own).catch(() => undefined)
    return undefined
  }

  #abandon(): void {
    const own = this.#own()
    if (own !== undefined) this.#desk.remove(own).catch(() => undefined)
  }

  #own(): Own | undefined {
    if (this.#node !== undefined) return this.#node
    if (this.#doubtful === undefined) return undefined
    const { attempt } = this.#claim
    return { lock: this.#lock, attempt, path: undefined, session: this.#doubtful }
  }
}
