/** `memory()`: the store is the process, so one worker has several clients, and its own faults are the only ones. */
import { memory } from 'holdfast/memory'
import { type LabDriver, lab as made } from '../store.js'

const store = memory()

export const lab: LabDriver = made({
  about: 'memory: six clients in one process',
  oneProcess: 6,
  client: () => ({ driver: store, close: () => undefined }),
  open: async () => ({
    place: () => undefined,
    faults: [],
    settles: 5_000,
    versions: {},
    close: async () => undefined,
  }),
})
