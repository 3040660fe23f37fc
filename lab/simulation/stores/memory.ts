/** The unmodified memory driver: the core, the queue inside a process and the watchdog under a simulated scheduler. */
import { memory } from 'holdfast/memory'
import type { StoreKind } from './store.js'

export const memoryStore: StoreKind = {
  name: 'memory',
  abilities: ['exclusive', 'shared', 'permits'],
  faults: [],
  shared: false,
  liveWithin: 30_000,
  make() {
    const driver = memory()
    return { driver: () => driver, faults: {}, killed: () => undefined, left: () => [] }
  },
}
