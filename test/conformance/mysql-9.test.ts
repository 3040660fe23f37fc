// The suite every driver passes, strategy `row`, on MySQL 9 with mysql2.
// Second tier because mysql.test.ts shows the same on MariaDB.
import { after } from 'node:test'
import { conformance } from 'holdfast/conformance'
import { fixtureOf } from '../drivers/mysql/support/fixture.js'
import { leakCheck } from '../support/leaks.js'
import { hasColumn } from '../support/promises.js'
import { startMysql } from '../support/servers/mysql.js'
import { withoutPrimitives } from './parts.js'

const server = await startMysql({ flavour: 'mysql' })
const { fixture, close } = await fixtureOf('mysql, row (MySQL 9, mysql2)', 'mysql2', server)
conformance(withoutPrimitives, { ...fixture, ...hasColumn('mysql') })

after(close)
after(() => server.stop())
after(leakCheck)
