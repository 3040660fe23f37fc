// The queue and its index, also of older versions that are used again, beside a plain array.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import fc from 'fast-check'
import { findEntry, withEntry, withoutEntry, withoutHead } from '../../../src/drivers/memory/queue.js'
import type { QueueEntry } from '../../../src/drivers/memory/row.js'
import { leakCheck } from '../../support/leaks.js'

after(leakCheck)

const entryOf = (n: number, ticket: number): QueueEntry => ({
  attempt: `attempt ${n}`,
  mode: { kind: 'exclusive' },
  ttl: 1_000,
  since: 0,
  ticket,
  note: undefined,
  client: undefined,
})

/** Long enough for an index most of the time, and short enough to go without one now and then. */
const begin = 80

test('a queue of any version tells the entry of each attempt as a search through it would', () => {
  const step = fc.record({
    what: fc.constantFrom('add', 'add before', 'take out', 'take the head'),
    version: fc.nat({ max: 3 }),
    which: fc.nat(),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      let n = 0
      let queue: readonly QueueEntry[] = []
      while (n < begin) queue = withEntry(queue, entryOf(n, 10 * ++n)).queue
      const versions = [queue]
      for (const { what, version, which } of steps) {
        const from = versions.at(-1 - (version % versions.length)) ?? queue
        const at = from.length === 0 ? 0 : which % from.length
        const chosen = from[at]
        let to = from
        if (what === 'take out' && chosen !== undefined) {
          const found = findEntry(from, chosen.attempt)
          assert.deepEqual(found, { entry: chosen, index: at })
          to = withoutEntry(from, found)
          assert.deepEqual(to, from.toSpliced(at, 1))
        } else if (what === 'take the head') {
          to = withoutHead(from, which % 8)
          assert.deepEqual(to, from.slice(which % 8))
        } else {
          const ticket = what === 'add' ? (from.at(-1)?.ticket ?? 0) + 10 : (chosen?.ticket ?? 10) - 5
          const entry = entryOf(n++, ticket)
          const added = withEntry(from, entry)
          to = added.queue
          assert.equal(to[added.index], entry)
          assert.deepEqual(to, from.toSpliced(added.index, 0, entry))
        }
        versions.push(to)
        for (const one of [to, from, versions[0] ?? to]) {
          for (const [index, entry] of one.entries()) {
            if (index % 9 === 0) assert.deepEqual(findEntry(one, entry.attempt), { entry, index })
          }
          assert.equal(findEntry(one, 'nobody'), undefined)
          for (const gone of versions[0] ?? [])
            if (!one.includes(gone)) assert.equal(findEntry(one, gone.attempt), undefined)
        }
      }
    }),
    { numRuns: 200 },
  )
})
