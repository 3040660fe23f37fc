/** The memory driver as a fixture: several clients of one store, behind gates that can be shut. */
import type { DriverFactory } from 'holdfast'
import { type Fixture, inProcess } from 'holdfast/conformance'
import { memory } from 'holdfast/memory'

const traits = {
  modes: ['exclusive', 'shared', 'permits'],
  fair: true,
  minTtl: 10,
  shared: false,
  maxLockDelay: Number.POSITIVE_INFINITY,
  cells: true,
  portable: true,
  caching: true,
  acquireMany: true,
} as const

/** `broken` stands between the store and the clients, for the proof that the suite sees what it should. */
export function memoryFixture(
  name = 'memory',
  broken: (factory: DriverFactory) => DriverFactory = (one) => one,
): Fixture {
  const store = memory()
  return { name, traits, ttl: 300, timeout: 5_000, reportsLoss: true, ...inProcess(() => broken(store)) }
}
