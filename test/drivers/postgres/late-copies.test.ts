// Statements that arrive twice, the second time after a later one was answered: a client or a proxy repeats what it had no answer to.
import { after, type TestContext } from 'node:test'
import { leakCheck } from '../../support/leaks.js'
import { startPostgres } from '../../support/servers/postgres.js'
import { type Recorded, survivesLateCopies, undoesLongerCopies } from '../support/late-copies.js'
import { peer } from './support/peer.js'

const server = await startPostgres()
after(() => server.stop())

type Statement = readonly [text: string, values?: unknown[]]

/** Another connection sends what a pg pool has sent. */
function record(t: TestContext): Recorded {
  const { locks, pool } = peer(t, server.port)
  const sent: Statement[] = []
  const made = pool as unknown as {
    Client: new (settings: object) => { query(...statement: Statement): unknown }
  }
  made.Client = class extends made.Client {
    override query(...statement: Statement): unknown {
      if (/holdfast_(acquire|renew)_v1/.test(String(statement[0]))) sent.push(statement)
      return super.query(...statement)
    }
  }
  const take = () => {
    const copies = sent.splice(0)
    return async () => {
      for (const [text, values] of copies) await server.sql(text, values as never)
    }
  }
  return { locks, take }
}

survivesLateCopies('postgres', record)
undoesLongerCopies('postgres', record)

after(leakCheck)
