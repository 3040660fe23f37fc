/**
 * One queued claim. The diagram is at {@link Waiter}; its entry in the queue is in `own-entry.ts`. After each event the waiter reads
 * the queue again, because the predecessor may have given up with others still ahead.
 *
 * Long because the life of a claim is one state machine.
 */
import type { Claim, Wait } from '../../core/driver.js'
import { BackendError, permitLimitError } from '../../core/errors.js'
import { admits } from '../../core/mode.js'
import { ignore, isCode, isTransient, toFailure } from './failure.js'
import { Hold } from './hold.js'
import { lockPath } from './keys.js'
import { type EntryNode, OwnEntry } from './own-entry.js'
import { evaluate, inOrder, type QueueEntry, type QueueState } from './queue.js'
import { encodeRecord, parseRecord } from './record.js'
import type { PendingClaim, Runtime } from './runtime.js'
import { codes, getChildren, getData, remove, type Stat, sync } from './session/protocol.js'
import { holderToken, stamped } from './stamp.js'
import { toToken } from './token.js'

type WaitingState = Extract<QueueState, { is: 'waiting' }>

/** The pause after a tie before the waiter retries, in ms. */
const tiePause = 50

/**
 * ```
 *            create + list, sent together               first ────────────────────────► Hold
 *   ask ──────────────────────────────────► evaluate ──┤
 *    ▲                                       ▲         └ behind another: watch it ──► parked
 *    │ entry gone: session ended, removed    └────────────── that entry went or changed ┘
 *    └───────────────────────────────────────┘
 *            wait over, or refused ──► the entry is removed ──► nothing
 * ```
 */
export class Waiter implements PendingClaim {
  readonly #runtime: Runtime
  readonly #claim: Claim
  readonly #wait: Wait
  readonly #lock: string
  readonly #once: boolean
  readonly #entry: OwnEntry
  #woken: () => void = () => undefined
  /** The holder last reported, by its node. */
  #reported: { readonly node: string; readonly data: Buffer; readonly stat: Stat } | undefined

  constructor(runtime: Runtime, claim: Claim, wait: Wait) {
    this.#runtime = runtime
    this.#claim = claim
    this.#wait = wait
    this.#lock = lockPath(runtime.settings.chroot, claim.name)
    this.#once = wait.remaining() === 0
    this.#entry = new OwnEntry(runtime, claim, this.#lock)
  }

  wake(): void {
    this.#woken()
  }

  onFailure(error: Error): void {
    this.#wait.report?.({ error: toFailure(error) })
  }

  async acquire(): Promise<Hold | undefined> {
    const { pendingClaims } = this.#runtime
    pendingClaims.add(this)
    try {
      for (;;) {
        if (this.#wait.ended) return await this.#entry.leave()
        try {
          const end = await this.#try()
          if (end !== 'again') return end.hold
        } catch (error) {
          if (!isTransient(error)) throw error
          await this.#reconnected(error)
        }
      }
    } catch (error) {
      this.#entry.abandon()
      throw error instanceof RangeError ? error : toFailure(error)
    } finally {
      pendingClaims.delete(this)
    }
  }

  /** Reads and judges the queue once, entering it first if need be. */
  async #try(): Promise<'again' | { readonly hold: Hold | undefined }> {
    const { session } = this.#runtime
    if (!session.connected) {
      if (session.failure !== undefined) this.onFailure(session.failure)
      await this.#connected()
      if (this.#wait.ended) return 'again'
    }
    const children = await this.#readQueue()
    if (children === 'again') return 'again'
    if (children === 'busy') return { hold: undefined }
    const { node } = this.#entry
    if (node === undefined) return 'again'
    const state = evaluate(children, node.name)
    switch (state.is) {
      case 'granted':
        return this.#granted(node, state.behind)
      case 'gone':
        this.#entry.node = undefined
        return 'again'
      case 'limit':
        throw permitLimitError(
          this.#claim.name,
          state.limit,
          this.#claim.mode.kind === 'permits' ? this.#claim.mode.of : 0,
        )
      case 'tie':
        await this.#leaveTie()
        return 'again'
      case 'waiting':
        if (this.#once) return { hold: await this.#entry.leave() }
        await this.#park(state)
        return 'again'
    }
  }

  /** Reads the queue, entering it first if need be. */
  async #readQueue(): Promise<readonly string[] | 'again' | 'busy'> {
    const entry = this.#entry
    if (entry.isQueued()) return entry.readQueue()
    if (entry.isAmbiguous) return entry.recover()
    if (this.#once && !(await this.#isUncontended())) return 'busy'
    return entry.enter()
  }

  /** A single attempt reads the queue first: if it looks busy, the attempt creates no entry and disturbs no waiter. */
  async #isUncontended(): Promise<boolean> {
    const synced = this.#runtime.session.call(sync(this.#lock)).catch(ignore(codes.noNode))
    const [children] = await Promise.all([this.#entry.readQueue(), synced])
    return admits(
      inOrder(children).map(({ mode }) => mode),
      this.#claim.mode,
    )
  }

  /** The sequence numbers are used up: stay out of the queue until it is empty and its node, with the counter, can be recreated. */
  async #leaveTie(): Promise<void> {
    const { session, clock } = this.#runtime
    const { signal } = this.#wait
    await this.#entry.leave()
    this.#entry.node = undefined
    const busy = await session.call(remove(this.#lock)).then(
      () => false,
      (error) => isCode(error, codes.notEmpty),
    )
    if (!busy || signal.aborted) return
    const error = new BackendError(
      'zookeeper',
      `the sequence numbers below ${this.#lock} are exhausted; they restart once no client holds the lock or waits for it`,
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

  async #granted(node: EntryNode, behind: boolean): Promise<'again' | { readonly hold: Hold | undefined }> {
    const token = await this.#token(node)
    if (token === undefined) this.#entry.node = undefined
    if (token === undefined || this.#wait.ended) return 'again'
    // The watchers of this entry must learn that it now holds: with permits, the next may hold beside it.
    const watched = behind && this.#claim.mode.kind === 'permits'
    return {
      hold: new Hold(this.#runtime, this.#claim, { token, sent: this.#entry.sent, own: node, watched }),
    }
  }

  /**
   * The transaction that created the entry; or a newer one, if a hold ahead was passed on since, with tokens newer than our position.
   * Undefined: the entry is gone. Throws `noAuth` where the queue's node belongs to others: any other write of ours would give a newer
   * token than the position of a claim behind us, which could not know.
   */
  async #token(node: EntryNode): Promise<number | undefined> {
    if (this.#entry.stamp < node.stat.czxid) return toToken(node.stat.czxid)
    const { session, client } = this.#runtime
    const record = encodeRecord(this.#claim, client)
    // A token of a reader or permit is stamped, too: it is newer than the position of an exclusive claim behind it.
    return stamped(session, node, this.#claim.mode.kind === 'exclusive' ? undefined : record)
  }

  /** Waits until the watched entry goes or changes, the session ends, or the wait is over. */
  async #park(state: WaitingState): Promise<void> {
    const { session } = this.#runtime
    const { signal } = this.#wait
    let wake: () => void = () => undefined
    const woken = new Promise<void>((resolve) => {
      wake = resolve
    })
    this.#woken = wake
    signal.addEventListener('abort', wake)
    const letGo = session.keepAlive()
    const path = state.node === undefined ? this.#lock : `${this.#lock}/${state.node}`
    try {
      const watches = await this.#watch(state, wake)
      if (watches && !signal.aborted) await woken
    } finally {
      letGo()
      this.#woken = () => undefined
      signal.removeEventListener('abort', wake)
      session.drop({ kind: state.node === undefined ? 'child' : 'data', path, fired: wake })
    }
  }

  /** Sets the watch and reports the holder. False: read the queue again now. */
  async #watch(state: WaitingState, wake: () => void): Promise<boolean> {
    const { session } = this.#runtime
    const { node, holder, position } = state
    const own = this.#entry.node
    if (own === undefined) return false
    if (node === undefined) {
      const again = evaluate(await session.call(getChildren(this.#lock, wake)), own.name)
      if (again.is !== 'waiting' || again.node !== undefined) return false
    }
    const watched = node === undefined ? undefined : session.call(getData(`${this.#lock}/${node}`, wake))
    watched?.catch(() => undefined)
    if (holder !== undefined && holder.node !== node && this.#reported?.node !== holder.node) {
      const answer = await session.call(getData(`${this.#lock}/${holder.node}`)).catch(ignore(codes.noNode))
      this.#reported = answer && { node: holder.node, ...answer }
    }
    const answer = await watched?.catch(ignore(codes.noNode))
    if (watched !== undefined && answer === undefined) return false
    // The predecessor may have reported that it holds before we watched it; then the queue shows it.
    if (watched !== undefined && this.#claim.mode.kind === 'permits') {
      const again = evaluate(await session.call(getChildren(this.#lock)), own.name)
      if (again.is !== 'waiting' || again.node !== node) return false
    }
    if (holder !== undefined && holder.node === node && answer !== undefined)
      this.#reported = { node: holder.node, ...answer }
    this.#notify(holder, position)
    return true
  }

  #notify(entry: QueueEntry | undefined, position: number): void {
    const shown = this.#reported
    if (entry === undefined || shown?.node !== entry.node) return this.#wait.report?.({ position })
    const { client, note } = parseRecord(shown.data)
    const now = this.#runtime.now() ?? shown.stat.ctime
    const holder = {
      attempt: entry.attempt,
      mode: entry.mode,
      token: holderToken(entry, shown.stat, this.#entry.stamp),
      heldFor: Math.max(0, now - shown.stat.ctime),
      expiresIn: Number.POSITIVE_INFINITY,
      ...(client !== undefined && { client }),
      ...(note !== undefined && { note }),
    }
    this.#wait.report?.({ holder, position })
  }

  /** The connection broke: reports it, and waits for the next connection while the wait lasts. */
  async #reconnected(error: unknown): Promise<void> {
    this.#wait.report?.({ error: toFailure(error) })
    await this.#connected()
  }

  async #connected(): Promise<void> {
    const { session } = this.#runtime
    const { signal } = this.#wait
    const letGo = session.keepAlive()
    try {
      await session.ready(signal)
    } catch (error) {
      if (!signal.aborted) throw error
      // The wait ended without an answer from any server: this does not mean "not free".
      const { failure } = session
      if (failure !== undefined) throw toFailure(failure)
    } finally {
      letGo()
    }
  }
}
