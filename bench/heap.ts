/** Heap bytes per object: used heap after a full collection, with many objects and without. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { type Spread, spread } from './spread.js'

export interface Filling {
  fill(): Promise<void>
  empty(): Promise<void>
}

/** Bytes per object, in each of `runs` runs; an additional first run is discarded (code and caches). */
export async function heapPer(things: number, runs: number, { fill, empty }: Filling): Promise<Spread> {
  const perThing: number[] = []
  for (let run = -1; run < runs; run++) {
    const before = await usedHeap()
    await fill()
    const filled = await usedHeap()
    await empty()
    if (run >= 0) perThing.push((filled - before) / things)
  }
  return spread(perThing)
}

/** Bytes in use after a full collection. */
export async function usedHeap(): Promise<number> {
  // Weak references created in a turn of the event loop are kept alive until it ends.
  await new Promise((resolve) => setImmediate(resolve))
  collect()
  return process.memoryUsage().heapUsed
}

let collect = (): void => {
  setFlagsFromString('--expose-gc')
  collect = runInNewContext('gc') as () => void
  collect()
}
