// Which aspects of the conformance suite an instance runs. Each driver runs all of them once: in one file of the first tier, or, where the
// store makes them slow, with the primitives in a second file, `<driver>-primitives.test.ts`, of the second tier. The primitives are built
// from locks and cells in the core and know nothing of topologies and clients, so other topologies and versions run the rest; and what a
// second client adds is a connection.
import { describe, it } from 'node:test'
import type { Runner } from 'holdfast/conformance'

/** Built in the core from claims and cells, the same over every topology and client. */
export const primitives: readonly string[] = [
  'once for everybody',
  'elections',
  'latches',
  'barriers',
  'jobs',
  'pools',
  'upgradeable reading',
  'revocation',
  'handing a lease to another process',
  'deadlocks',
]

/** What depends on how requests, replies and notifications travel. */
export const connection: readonly string[] = [
  'the scenario',
  'exclusion',
  'waiting',
  'waiting until it is free',
  'cancelling a wait',
  'lock caching',
  'losing a lease',
  'messages that come twice',
  'an outage of the store',
  'a crash',
  'tools for operators',
  'cells',
  'closing',
  'leaks',
  'the fixture',
]

/** Registers all aspects but the primitives: for one more topology, or version of the server. */
export const withoutPrimitives: Runner = filtered((aspect) => !primitives.includes(aspect))

/** Registers the primitives alone: once for a driver whose first instance leaves them out. */
export const primitivesOnly: Runner = filtered((aspect) => primitives.includes(aspect))

/** Registers the aspects of a connection: for one more client of a store. */
export const connectionOnly: Runner = filtered((aspect) => connection.includes(aspect))

/** The suite is one `describe`; the aspects are those directly within it. */
export function filtered(takes: (aspect: string) => boolean, runner: Runner = { describe, it }): Runner {
  let depth = 0
  return {
    describe(name, fn) {
      if (depth === 1 && !takes(name)) return
      runner.describe(name, () => {
        depth++
        fn()
        depth--
      })
    },
    it: (name, fn) => runner.it(name, fn),
  }
}
