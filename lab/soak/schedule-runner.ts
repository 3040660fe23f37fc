// One process that plays schedules, slice by slice, until it is told to stop or its parent is gone. The rest of the soak has priority.
//
//   node lane.js SEED STEP      slices have the seeds SEED, SEED + STEP, SEED + 2 × STEP, …
import { constants, setPriority } from 'node:os'
import { search, tell } from '../simulation/search.js'
import { memoryStore } from '../simulation/stores/memory.js'
import { startMachine } from '../simulation/stores/redis/machine.js'
import { redisStore } from '../simulation/stores/redis/store.js'
import { tableStore } from '../simulation/stores/table.js'
import type { Slice } from './schedules.js'

setPriority(constants.priority.PRIORITY_LOW)
const [seed = 1, step = 1] = process.argv.slice(2).map(Number)
const machine = await startMachine()
/** Most schedules run where they are cheapest: memory tests the core, the table adds the network, Redis adds its scripts. */
const kinds = [
  { kind: memoryStore, runs: 8_000 },
  { kind: tableStore(), runs: 1_000 },
  { kind: redisStore(machine), runs: 100 },
]
let over = false
const end = () => {
  over = true
}
process.on('message', end)
process.on('disconnect', end)

for (let turn = 0; !over; turn++) {
  for (const { kind, runs } of kinds) {
    if (over) break
    const before = process.cpuUsage()
    const found = await search(kind, runs, seed + turn * step)
    const { user, system } = process.cpuUsage(before)
    const failure = found.plan && (await tell(found.plan, kind))
    const slice: Slice = {
      kind: kind.name,
      runs: found.runs,
      took: (user + system) / 1000,
      ...(failure && { failure }),
    }
    await new Promise<void>((resolve) => {
      if (process.connected) process.send?.(slice, () => resolve())
      else resolve()
    })
  }
}
machine.close()
if (process.connected) process.disconnect()
