// The suite every driver passes, strategy `row`, on MariaDB with the client mariadb.
// Second tier because mysql.test.ts shows the same of mysql2.
import { after } from 'node:test'
import { conformance } from 'holdfast/conformance'
import { fixtureOf } from '../drivers/mysql/support/fixture.js'
import { leakCheck } from '../support/leaks.js'
import { hasColumn } from '../support/promises.js'
import { startMysql } from '../support/servers/mysql.js'
import { connectionOnly } from './parts.js'

const server = await startMysql({ flavour: 'mariadb' })
const { fixture, close } = await fixtureOf('mysql, row (MariaDB, mariadb)', 'mariadb', server)
conformance(connectionOnly, { ...fixture, ...hasColumn('mysql') })

after(close)
after(() => server.stop())
after(leakCheck)
