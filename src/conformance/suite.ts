import assert from 'node:assert/strict'
import { barriers } from './barriers.js'
import { caching } from './caching.js'
import { cancelling } from './cancellation.js'
import { cells } from './cells.js'
import { closing } from './closing.js'
import { crash } from './crash.js'
import { deadlines } from './deadlines.js'
import { deadlocks } from './deadlocks.js'
import { elections } from './elections.js'
import { exclusion } from './exclusion.js'
import { fairness } from './fairness.js'
import type { Fixture, Runner } from './fixture.js'
import { handOver, revocation } from './giving-way.js'
import { health } from './health.js'
import { repeats } from './idempotency.js'
import { jobs } from './jobs.js'
import { latches } from './latches.js'
import { leaks } from './leaks.js'
import { localQueue } from './local-queue.js'
import { loss } from './loss.js'
import { together } from './multi-lock.js'
import { names } from './names.js'
import { once } from './once.js'
import { operators } from './operators.js'
import { outage } from './outage.js'
import { permits } from './permits.js'
import { pools } from './pools.js'
import { scenario } from './scenario.js'
import { shared } from './shared.js'
import { TestContext } from './test-context.js'
import { tokens } from './tokens.js'
import { untilFree } from './until-free.js'
import { upgrades } from './upgrades.js'
import { waiting } from './waiting.js'

/** Registers one test; it gets its own stage, which is checked for left-overs afterwards. */
export type It = (name: string, fn: (context: TestContext) => Promise<void>) => void

const aspects: Readonly<Record<string, (it: It, fixture: Fixture) => void>> = {
  'the scenario': scenario,
  exclusion,
  waiting,
  'waiting until it is free': untilFree,
  'cancelling a wait': cancelling,
  deadlines,
  'losing a lease': loss,
  tokens,
  fairness,
  'lock caching': caching,
  'read/write locks': shared,
  semaphores: permits,
  'messages that come twice': repeats,
  'an outage of the store': outage,
  health,
  'a crash': crash,
  'several locks': together,
  'tools for operators': operators,
  cells,
  'once for everybody': once,
  elections,
  latches,
  barriers,
  jobs,
  pools,
  'upgradeable reading': upgrades,
  revocation,
  'handing a lease to another process': handOver,
  deadlocks,
  names,
  'many requests in one process': localQueue,
  closing,
  leaks,
}

/**
 * Registers the requirements of every driver as tests of the given runner. A driver must refuse what it does not support, and that is
 * tested, too; nothing is skipped.
 */
export function conformance(runner: Runner, fixture: Fixture): void {
  runner.describe(`${fixture.name} conforms`, () => {
    for (const [aspect, register] of Object.entries(aspects)) {
      runner.describe(aspect, () => register(toIt(runner, fixture), fixture))
    }
    runner.describe('the fixture', () => {
      toIt(runner, fixture)('tells the traits that the driver has', async (context) => {
        assert.deepEqual(context.client().driver.traits, fixture.traits)
      })
    })
  })
}

function toIt(runner: Runner, fixture: Fixture): It {
  return (name, fn) => {
    runner.it(name, async () => {
      const context = new TestContext(fixture)
      try {
        await context.settlesInTime('the end of the test', fn(context), fixture.testTimeout ?? 180_000)
      } catch (error) {
        // The test's own failure matters more than a failed clean-up.
        await context.close().catch(() => undefined)
        throw error
      }
      await context.close()
    })
  }
}
