// What the simulation counts as a finding: a healthy store replies, unless it was given less time than a reply takes.
import '../support/background.js'
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { BackendError, type Driver } from 'holdfast/driver'
import type { Plan, Visit } from '../../lab/simulation/plan.js'
import { play } from '../../lab/simulation/play.js'
import type { StoreKind } from '../../lab/simulation/stores/store.js'
import { leakCheck } from '../support/leaks.js'

const traits = { modes: ['exclusive'], fair: true, minTtl: 20, shared: true } as const

/** A store that grants nothing and says after this many ms why: that it does not answer, or that the lock is not free. */
function refusing(says: 'error' | 'busy', after: number): StoreKind {
  return {
    ...{ name: 'refusing', abilities: ['exclusive'], faults: ['cut'], shared: true, liveWithin: 1_000 },
    make: () => ({
      driver: () => (env) => {
        const driver: Driver<typeof traits> = {
          name: 'refusing',
          traits,
          acquire: () =>
            new Promise((resolve, reject) => {
              const answer = () =>
                says === 'busy' ? resolve(undefined) : reject(new BackendError('refusing', 'no answer'))
              env.clock.at(env.clock.now() + after, answer)
            }),
          inspect: (name) => Promise.resolve({ name, holders: [], waiters: [], token: undefined }) as never,
          close: () => Promise.resolve(),
        }
        return driver
      },
      faults: { cut: () => undefined },
      killed: () => undefined,
      left: () => [],
    }),
  }
}

const visit: Visit = {
  ...{ process: 0, at: 0, name: 0, shared: false, permits: 1, wait: 0, ttl: 100, fair: false },
  ...{ stay: 0, leaves: 'release', abort: -1 },
}
const plan = (wait: number, faults: Plan['faults'] = []): Plan => ({
  ...{ seed: 1, lock: 'mutex', rates: [0], visits: [{ ...visit, wait }], faults, closes: 0 },
})

async function finds(plan: Plan, kind: StoreKind): Promise<number> {
  const { complaints, violations } = await play(plan, kind)
  return complaints.length + violations.length
}

test('a single attempt that has waited for a tenth of its ttl may end without an answer', async () => {
  assert.equal(await finds(plan(0), refusing('error', 10)), 0)
  assert.equal(await finds(plan(0), refusing('error', 50)), 0)
})

test('a single attempt that is told too soon that there is no reply is a finding', async () => {
  assert.equal(await finds(plan(0), refusing('error', 9)), 1)
  assert.equal(await finds(plan(0), refusing('error', 0)), 1)
})

test('a free lock that is reported as not free is a finding, however late', async () => {
  for (const ms of [0, 9, 50]) assert.equal(await finds(plan(0), refusing('busy', ms)), 1)
})

test('a wait that ends for want of an answer before its time is a find, and not one that lasted', async () => {
  assert.equal(await finds(plan(40), refusing('error', 20)), 1)
  assert.equal(await finds(plan(-1), refusing('error', 5_000)), 1)
  assert.equal(await finds(plan(40), refusing('error', 41)), 0)
})

test('where something goes wrong, no answer is a matter of course', async () => {
  assert.equal(await finds(plan(0, [{ at: 0, kind: 'cut', process: 0, ms: 20 }]), refusing('error', 0)), 0)
})

after(leakCheck)
