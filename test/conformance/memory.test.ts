import { after, describe, it } from 'node:test'
import { createLocks, type DriverFactory } from 'holdfast'
import { conformance, inProcess } from 'holdfast/conformance'
import { memory } from 'holdfast/memory'
import { leakCheck } from '../support/leaks.js'
import { hasColumn } from '../support/promises.js'
import { memoryFixture } from './memory-fixture.js'

conformance({ describe, it }, { ...memoryFixture(), ...hasColumn('memory') })

// What is refused is tested, too, so there has to be a driver that refuses it.
const traits = { modes: ['exclusive'], fair: false, minTtl: 50, shared: false } as const
const store = memory()
const operator = createLocks(store)
const lesser: DriverFactory = (env) => {
  const { name, acquire, inspect, close } = store(env)
  return { name, traits, acquire, inspect, close }
}
const { make, faults } = inProcess(() => lesser)
conformance(
  { describe, it },
  {
    name: 'a driver that can do no more than exclude',
    traits,
    ttl: 300,
    make,
    faults: { ...faults, loseHold: async (name) => void (await operator.forceRelease(name)) },
  },
)

after(() => operator.close())
after(leakCheck)
