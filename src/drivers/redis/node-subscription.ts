/**
 * A subscription on one of several nodes, over a connection of our own. Moves to another node as soon as the connection ends or stops
 * answering, or its node no longer serves. Messages reach every node of a Cluster, so any node will do; but a node that has fallen
 * silent, or that the others have left behind, receives none.
 */
import type { Clock } from '../../core/clock.js'
import { isRefusal } from './failure.js'

/** Times in ms. */
const times = {
  /** Before another node is tried. */
  pause: 200,
  /** Between an answer and the next ping. */
  between: 1_000,
  /** For one answer (`answer`); for the first one including the connect (`first`). */
  answer: 2_000,
  first: 5_000,
}

/** A subscribed connection to one node. */
export interface OnNode {
  ping(): Promise<unknown>
  /** Does the client still count this node among the serving ones? */
  serves(): boolean
  /** Unsubscribes and closes the connection. */
  close(): void
}

/**
 * @param open connects, and calls `ended` when the connection has ended; undefined: no node is known at present
 * @param down called whenever the subscription breaks
 * @returns a function that ends the subscription
 */
export function stay(
  clock: Clock,
  open: (ended: () => void) => Promise<OnNode | undefined>,
  down: () => void,
): () => void {
  let closed = false
  let leave = () => {}

  const enter = () => {
    let [over, disarm, node]: [boolean, () => void, OnNode | undefined] = [false, () => {}, undefined]
    leave = () => {
      over = true
      disarm()
      node?.close()
    }
    const ended = () => {
      if (over) return
      leave()
      down()
      if (!closed) leave = clock.at(clock.now() + times.pause, enter, { ref: false })
    }
    const check = (on: OnNode, within: number) => {
      // An answer that arrived while the event loop was blocked is read first.
      disarm = clock.at(clock.now() + within, () => clock.soon(ended), { ref: false })
      const answered = () => {
        if (over) return
        disarm()
        if (!on.serves()) return ended()
        disarm = clock.at(clock.now() + times.between, () => check(on, times.answer), { ref: false })
      }
      on.ping().then(answered, (error: Error) => (isRefusal(error) ? answered() : ended()))
    }
    open(ended).then((on) => {
      if (on === undefined) return ended()
      if (over) return on.close()
      node = on
      check(on, times.first)
    }, ended)
  }

  enter()
  return () => {
    closed = true
    leave()
  }
}

/** A random one of `all`, if possible not `left`. */
export function another<T>(all: readonly T[], left: T | undefined): T | undefined {
  const others = all.filter((one) => one !== left)
  const from = others.length > 0 ? others : all
  return from[Math.floor(Math.random() * from.length)]
}
