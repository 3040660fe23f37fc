// The sections of the suite on primitives; mysql.test.ts has the rest.
// Second tier because the core builds them from locks and cells: memory and local show them for every change.
import { after } from 'node:test'
import { conformance } from 'holdfast/conformance'
import { fixtureOf } from '../drivers/mysql/support/fixture.js'
import { leakCheck } from '../support/leaks.js'
import { startMysql } from '../support/servers/mysql.js'
import { primitivesOnly } from './parts.js'

const server = await startMysql({ flavour: 'mariadb' })
const { fixture, close } = await fixtureOf('mysql, row (MariaDB, mysql2)', 'mysql2', server)
conformance(primitivesOnly, fixture)

after(close)
after(() => server.stop())
after(leakCheck)
