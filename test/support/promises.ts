// The column of a driver in the table driver × promise, in docs/promises.md: what it answers on real servers must be what stands there.
import assert from 'node:assert/strict'
import type { Fixture, PromiseColumn } from 'holdfast/conformance'
import { type Answers, type ColumnName, keep, recorded, written } from '../../scripts/promises-table.js'

/** For a fixture: compares what the scenario is answered with that column of the record. */
export function hasColumn(name: ColumnName, record: Answers = recorded()): Pick<Fixture, 'promises'> {
  return {
    promises: ({ cells }: PromiseColumn) => {
      const got = written(cells)
      if (cells.every(({ is }) => is !== 'broken')) keep(name, got)
      assert.deepEqual(
        got,
        record[name],
        `docs/promises.md says something else of ${name}; if the tests are right, run scripts/promises-table.js --write`,
      )
    },
  }
}
