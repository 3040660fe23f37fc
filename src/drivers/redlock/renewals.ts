/**
 * The renewals of one process: all that are requested in one tick, for the same ttl, are one command for each server.
 *
 * ```
 *   hold ─┐             ┌─► server 1 ─► y y g y ─┐
 *   hold ─┼─► one batch ┼─► server 2 ─► y y y y ─┼─► each hold by itself: a majority of y ──► its new deadline
 *   hold ─┘             └─► server 3 ─► (silent) ┘
 * ```
 * The servers' replies are counted for each hold alone. It is renewed as soon as a majority has renewed it, whatever
 * becomes of the others in its batch; and where a server cannot tell in one step, that server is asked for this hold
 * alone.
 */
import { deadline } from '../../core/clock.js'
import { BackendError } from '../../core/errors.js'
import { nextOrder } from '../kit/renewal-order.js'
import { renewMany } from './fast-paths.js'
import type { Node } from './node.js'
import { Refusal } from './refusal.js'
import { count, type NodeReply } from './round.js'
import type { Runtime } from './runtime.js'

/** A lease, as its renewals see it. */
export interface Renewable {
  readonly key: string
  readonly attempt: string
  /** It is being released: a renewal without a majority is no news. */
  readonly releasing: boolean
  validUntil: number
  /** Renews the vote of one server, or asks for it anew. Resolves with a letter of {@link reasons}. */
  prove(node: Node, term: Term): Promise<string>
  /** Does the vote that this server has renewed count? */
  counts(node: Node): boolean
}

/** For how long: a late copy of a request that says "at least" shortens nothing. */
export interface Term {
  /** In ms. */
  readonly ttl: number
  /** The number of a request that may end the hold sooner than an earlier one. */
  readonly order: number | undefined
}

/** As the scripts take it. */
export const toArgument = ({ ttl, order }: Term): string =>
  `${Math.round(ttl * 1000)}${order === undefined ? '' : ` ${order}`}`

interface Item {
  readonly hold: Renewable
  readonly reply: NodeReply<string>[]
  open: number
  settled: boolean
  resolve(validUntil: number | undefined): void
  reject(error: unknown): void
}

/** Locks in one command: a script that renews as many takes a server about a millisecond. */
const maxBatch = 200

export class Renewals {
  readonly #runtime: Runtime
  /** What is to leave at the end of this tick, by ttl and by whether it has an order. */
  #waiting = new Map<string, { readonly ttl: number; readonly ordered: boolean; readonly items: Item[] }>()

  constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  /**
   * Resolves with the new deadline; undefined: a majority has voted for another attempt. Rejects when the outcome is unknown.
   * @param ordered it may end the hold sooner than an earlier request
   */
  renew(hold: Renewable, ttl: number, ordered: boolean): Promise<number | undefined> {
    return new Promise((resolve, reject) => {
      if (this.#waiting.size === 0) process.nextTick(() => this.#flush())
      const key = `${ttl} ${ordered}`
      const batch = this.#waiting.get(key) ?? { ttl, ordered, items: [] as Item[] }
      this.#waiting.set(key, batch)
      const { nodes } = this.#runtime.group
      const reply = nodes.map(() => undefined)
      batch.items.push({ hold, reply, open: nodes.length, settled: false, resolve, reject })
    })
  }

  #flush(): void {
    const waiting = this.#waiting
    this.#waiting = new Map()
    for (const { ttl, ordered, items } of waiting.values()) {
      const term = { ttl, order: ordered ? nextOrder() : undefined }
      for (let i = 0; i < items.length; i += maxBatch) {
        const batch = items.slice(i, i + maxBatch)
        this.#send(batch, term).catch((error) => {
          for (const { reject } of batch) reject(error)
        })
      }
    }
  }

  async #send(batch: readonly Item[], term: Term): Promise<void> {
    const { group, env } = this.#runtime
    await group.ready()
    const { clock } = env
    const sent = clock.now()
    let open = batch.length
    const settle = (item: Item) => {
      item.settled = true
      open--
      if (open === 0) stop()
    }
    // After a stall of the event loop the timer fires before answers that have already arrived: read those first.
    const late = () => {
      for (const item of batch) if (!item.settled) this.#conclude(item, settle)
    }
    const stop = clock.at(sent + this.#runtime.timeout(term.ttl), () => clock.soon(late))
    for (const [place, node] of group.nodes.entries()) {
      const say = (item: Item, answer: string | Error) => {
        if (item.settled) return
        item.reply[place] = answer
        item.open--
        if (count(item.reply, (letter) => letter === 'y') >= group.majority) {
          settle(item)
          item.hold.validUntil = deadline(sent, term.ttl)
          item.resolve(item.hold.validUntil)
        } else if (item.open === 0) this.#conclude(item, settle)
      }
      void this.#askNode(node, batch, term, say)
    }
  }

  /** Never rejects. */
  async #askNode(
    node: Node,
    batch: readonly Item[],
    term: Term,
    say: (item: Item, answer: string | Error) => void,
  ): Promise<void> {
    const alone = (item: Item) =>
      void item.hold.prove(node, term).then(
        (letter) => say(item, letter),
        (error) => say(item, toError(error)),
      )
    const keys = [this.#runtime.group.markerKey, ...batch.map(({ hold }) => hold.key)]
    const args = [toArgument(term), ...batch.map(({ hold }) => hold.attempt)]
    try {
      const [, letters] = node.accept(await node.ask(renewMany, keys, [node.identity?.boot ?? '', ...args]))
      for (const [i, item] of batch.entries()) {
        if (String(letters)[i] === 'y') say(item, item.hold.counts(node) ? 'y' : 'w')
        else alone(item)
      }
    } catch (error) {
      // The account may use some of these keys, and not others.
      const refused = batch.length > 1 && error instanceof Refusal && error.code === 'NOPERM'
      for (const item of batch)
        if (refused) alone(item)
        else say(item, toError(error))
    }
  }

  /** Every server has answered, or the time is over, without a majority. */
  #conclude(item: Item, settle: (item: Item) => void): void {
    const { majority, nodes } = this.#runtime.group
    const { hold, reply } = item
    settle(item)
    const others = count(reply, (letter) => letter === 'n' || letter === 'o')
    if (hold.releasing || others >= majority) return item.resolve(undefined)
    const result = reply.map(
      (one, place) =>
        `${nodes[place]?.label}: ${one instanceof Error ? one.message : (reasons[one ?? ''] ?? one)}`,
    )
    item.reject(
      new BackendError('redlock', `fewer than ${majority} servers renewed it (${result.join('; ')})`),
    )
  }
}

const toError = (error: unknown) => (error instanceof Error ? error : new Error(String(error)))

const reasons: Readonly<Record<string, string>> = {
  '': 'no answer in time',
  y: 'renewed',
  w: 'has voted for greater ballots since',
  n: 'has voted for somebody else',
  o: 'was told that it ended',
  h: 'wants a greater ballot',
}
