// Which aspects of the conformance suite an instance runs. One instance of each driver, in the first tier, runs all of them. What is built
// from locks and cells in the core knows nothing of topologies and clients, so other topologies and versions run the rest; and what a
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
