// The suite every driver passes, strategy `session`, on MariaDB with mysql2.
// Second tier because `row` is the default; what is special about sessions is in drivers/mysql/session.test.ts.
import { after, describe, it } from 'node:test'
import { conformance } from 'holdfast/conformance'
import { fixtureOf } from '../drivers/mysql/support/fixture.js'
import { leakCheck } from '../support/leaks.js'
import { hasColumn } from '../support/promises.js'
import { startMysql } from '../support/servers/mysql.js'

const server = await startMysql({ flavour: 'mariadb' })
const { fixture, close } = await fixtureOf(
  'mysql, session (MariaDB, mysql2)',
  'mysql2',
  server,
  { strategy: 'session' },
  { traits: { modes: ['exclusive'], fair: true, minTtl: 1_000, shared: true, cells: true } },
)
conformance({ describe, it }, { ...fixture, ...hasColumn('mysql (session)') })

after(close)
after(() => server.stop())
after(leakCheck)
