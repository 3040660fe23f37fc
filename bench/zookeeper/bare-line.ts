/**
 * The bare queue recipe: each entry watches the one before it, lists when that has gone, and deletes itself when it is first. So a hand-off
 * is that of a lock: a deletion, the event that notifies another connection, and the list that connection reads.
 */
import type { ZookeeperWire } from '../floors/zookeeper-wire.js'

/** Hand-offs per second, from the first deletion to the last entry that finds itself first. */
export async function handThroughBare(
  wires: readonly ZookeeperWire[],
  parent: string,
  waiters: number,
): Promise<number> {
  const [first] = wires
  if (first === undefined) throw new Error('there is no connection')
  await first.make(parent)
  const holder = await first.enter(parent)
  let last = 0
  let before = holder
  const waits: Promise<void>[] = []
  for (let i = 0; i < waiters; i++) {
    const wire = wires[i % wires.length] ?? first
    const path = await wire.enter(parent)
    const { changed } = await wire.watch(before)
    before = path
    const pass = async () => {
      const line = await wire.list(parent)
      if (`${parent}/${findFirst(line)}` !== path) throw new Error(`${path} is not first in its line`)
      last = performance.now()
      await wire.remove(path)
    }
    waits.push(changed.then(pass))
  }
  const begin = performance.now()
  await first.remove(holder)
  await Promise.all(waits)
  return waiters / ((last - begin) / 1000)
}

/** The entry with the lowest number, the last ten digits of its name. */
function findFirst(line: readonly string[]): string | undefined {
  let least: string | undefined
  for (const place of line)
    if (least === undefined || Number(place.slice(-10)) < Number(least.slice(-10))) least = place
  return least
}
