/** One round: asks all servers at once and stops waiting as soon as the outcome can no longer change. */
import type { Clock } from '../../core/clock.js'

/** The result of one server: its answer, an Error, or nothing yet. */
export type NodeReply<A> = A | Error | undefined

/**
 * Resolves with the results so far when `enough` is true, when all have answered, or after `timeout` ms. Later answers are
 * dropped, so `ask` must not leave behind anything that only its answer could release.
 */
export function round<N, A>(
  clock: Clock,
  timeout: number,
  nodes: readonly N[],
  ask: (node: N) => Promise<A>,
  enough: (reply: readonly NodeReply<A>[]) => boolean,
): Promise<readonly NodeReply<A>[]> {
  return new Promise((resolve) => {
    const reply: NodeReply<A>[] = nodes.map(() => undefined)
    let open = nodes.length
    let stop = () => {}
    let over = false
    const end = () => {
      if (over) return
      over = true
      stop()
      resolve([...reply])
    }
    const say = (place: number, answer: A | Error) => {
      if (over) return
      reply[place] = answer
      open--
      if (open === 0 || enough(reply)) end()
    }
    for (const [place, node] of nodes.entries()) {
      ask(node).then(
        (answer) => say(place, answer),
        (error) => say(place, error instanceof Error ? error : new Error(String(error))),
      )
    }
    if (open === 0) end()
    // After a stall of the event loop the timer fires before answers that have already arrived: read those first.
    if (!over) stop = clock.at(clock.now() + timeout, () => clock.soon(end))
  })
}

export function count<A>(reply: readonly NodeReply<A>[], is: (answer: A) => boolean): number {
  let n = 0
  for (const one of reply) if (one !== undefined && !(one instanceof Error) && is(one)) n++
  return n
}
