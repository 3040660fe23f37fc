/**
 * The queue of one process for one name: how a request enters, is sent to the store, and leaves; and how a hold begins
 * and ends. `queue-state.ts` decides, where the picture is. The rest of the way:
 *
 * - what the store's reply means: `store-reply.ts`
 * - how a released grant is passed on: `local-handoff.ts`
 * - how the call ends for its caller: `acquisition.ts`
 */
import { cacheable } from './caching.js'
import type { ClaimBatch } from './claim-batch.js'
import { createClaim } from './create-claim.js'
import type { Grant } from './driver.js'
import type { Engine } from './engine.js'
import type { FinalInspection } from './final-inspection.js'
import type { GrantCache } from './grant-cache.js'
import { Hold } from './hold.js'
import type { LastReport } from './last-report.js'
import { LocalHandoff } from './local-handoff.js'
import { shared } from './mode.js'
import type { QueueEntry } from './queue-entry.js'
import * as rules from './queue-state.js'
import { refuse, replyArrived, requestFailed } from './store-reply.js'
import { StoreRequest } from './store-request.js'
import type { Watchdog } from './watchdog.js'
import { closeTimeout, withTimeout } from './with-timeout.js'

export class LocalQueue {
  readonly engine: Engine
  readonly name: string
  readonly state: rules.QueueState<QueueEntry, StoreRequest, Hold> = rules.emptyQueue()
  /** Made for the first grant that is handed over or cached. */
  handoff: LocalHandoff | undefined
  /** Made for the first grant that is cached. */
  cache: GrantCache | undefined
  /** The query for the holder at the end of waits. */
  inspection: Promise<FinalInspection> | undefined
  /** The store's last report to the head of the queue. */
  lastReport: LastReport | undefined

  constructor(engine: Engine, name: string) {
    this.engine = engine
    this.name = name
  }

  /** Nobody in this process holds or waits. */
  get isEmpty(): boolean {
    return rules.isEmpty(this.state)
  }

  /** Nobody in this process waits, has a request under way or keeps others out. */
  get isUncontended(): boolean {
    const { queue: waiting, asking } = this.state
    return waiting.size === 0 && asking.size === 0 && !rules.isTaken(this.state)
  }

  /** Do `most` or more of this process wait? */
  isFull(most: number): boolean {
    return rules.isFull(this.state, most)
  }

  /** A single attempt (`once`) never waits behind others: if the queue is busy for it, it ends without any I/O. */
  enqueue(entry: QueueEntry, once: boolean): void {
    const { cache } = this
    if (cache?.hold !== undefined && this.handoff?.reuse(entry, once, cache, cache.hold)) return
    const next = rules.enqueue(this.state, entry, once)
    if (next === 'queued') this.#pumpConcurrent()
    else if (next === 'refused') refuse(entry)
    else this.ask(next)
  }

  /** The caller has gone: deadline, abort or close. */
  cancel(entry: QueueEntry): void {
    const left = rules.cancel(this.state, entry)
    if (left?.owner !== undefined) left.owner.deadline.arm()
    else left?.abandon()
    this.pump()
  }

  /** Sends to the store every request that may be sent now. */
  pump(): void {
    if (this.engine.closed) return
    for (let next = rules.pump(this.state); next; next = rules.pump(this.state)) this.ask(next)
    if (this.isEmpty) this.engine.idle(this)
  }

  #pumpConcurrent(): void {
    if (this.engine.closed) return
    for (let next = rules.pumpConcurrent(this.state); next; next = rules.pumpConcurrent(this.state))
      this.ask(next)
  }

  /** @param patient how long a single attempt waits in the store's queue, in ms */
  ask(ask: rules.Ask<QueueEntry>, patient?: number): void {
    const { entry, once } = ask
    const { linger, fair, autoRenew } = entry.terms
    const id = this.engine.env.id()
    const caches = linger > 0 && !fair && autoRenew && entry.mode.kind === 'exclusive'
    const claim = createClaim(this.name, caches ? cacheable(id) : id, entry.mode, entry.terms)
    const request = new StoreRequest(this, claim, entry, once)
    if (patient !== undefined) request.bePatient(patient)
    // First: a driver may report at once what blocks the claim.
    rules.asked(this.state, request, ask)
    request.reply = this.#send(request, entry.batch).then(
      (grant) => replyArrived(this, request, grant),
      (error) => requestFailed(this, request, error),
    )
  }

  #send(request: StoreRequest, batch: ClaimBatch | undefined): Promise<Grant | undefined> {
    try {
      return batch?.add(request.claim, request) ?? this.engine.driver.acquire(request.claim, request)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /** `entry` has the grant from now on. @param former its release is reported before the grant */
  deliver(
    entry: QueueEntry,
    watchdog: Watchdog,
    token: number,
    now: number,
    handedOff: boolean,
    former?: Hold,
  ): void {
    entry.deadline.done()
    const hold = new Hold(this, watchdog, token, entry.terms, now)
    rules.held(this.state, hold)
    former?.onHandedOff()
    const { events } = this.engine
    if (events.wants('granted'))
      // Written out: a spread costs more than the rest of the event.
      events.emit('granted', {
        name: this.name,
        driver: this.engine.driver.name,
        mode: hold.mode,
        note: hold.note,
        token,
        acquisition: entry.acquisition,
        waited: now - entry.asked,
        handedOff,
      })
    entry.granted(hold)
  }

  /** A hold ended by release. True: its grant is passed on in this process; else it must go back to the store. */
  handOff(hold: Hold): boolean {
    if (this.state.queue.size === 0 && hold.linger === 0) {
      rules.removeHold(this.state, hold)
      return false
    }
    this.handoff ??= new LocalHandoff(this)
    return this.handoff.handOff(hold)
  }

  /** A hold ended by loss, or lives on in another process. */
  ended(hold: Hold): void {
    rules.removeHold(this.state, hold)
    this.pump()
  }

  /** The writer has left, its readers stay. A driver that cannot downgrade keeps the exclusive hold for them. */
  async downgrade(hold: Hold): Promise<void> {
    const downgrade = hold.watchdog.grant.downgrade?.()
    if (downgrade === undefined) return
    // From now on: the store may let readers in before it replies, so nobody enters or inherits this hold as a writer.
    hold.mode = shared
    // If the reply is lost, the hold stays exclusive in the store: safe, and renewals go on.
    await downgrade.catch(() => undefined)
    rules.downgraded(this.state, hold)
    this.pump()
  }

  async close(): Promise<void> {
    const { queue: queued, asking } = this.state
    for (const entry of [...queued]) entry.deadline.end('closed')
    for (const { owner } of [...asking]) owner?.deadline.end('closed')
    // Only now: a listener of those ends may have released a hold.
    this.handoff?.close()
    const holds = [...this.state.holds].map((hold) => hold.close())
    const replies = [...asking].map(({ reply }) => reply)
    await withTimeout(this.engine, closeTimeout, Promise.all([...holds, ...replies]), () => undefined)
  }
}
