// Refusals are tested, too, so this driver refuses everything: it supports only exclusion.
// Second tier because redlock.test.ts shows for every change what a driver refuses.
import { after, describe, it } from 'node:test'
import { createLocks, type DriverFactory } from 'holdfast'
import { conformance, inProcess } from 'holdfast/conformance'
import { memory } from 'holdfast/memory'
import { leakCheck } from '../support/leaks.js'

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
