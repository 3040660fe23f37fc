// The suite every driver passes, strategy `row`, on MariaDB with mysql2. MySQL, the other client and the strategy `session` are in
// files of their own, what is special about MySQL in drivers/mysql/.
// The primitives are in mysql-primitives.test.ts.
import { after } from 'node:test'
import { conformance } from 'holdfast/conformance'
import { fixtureOf } from '../drivers/mysql/support/fixture.js'
import { leakCheck } from '../support/leaks.js'
import { hasColumn } from '../support/promises.js'
import { startMysql } from '../support/servers/mysql.js'
import { withoutPrimitives } from './parts.js'

const server = await startMysql({ flavour: 'mariadb' })
const { fixture, close } = await fixtureOf('mysql, row (MariaDB, mysql2)', 'mysql2', server)
conformance(withoutPrimitives, { ...fixture, ...hasColumn('mysql') })

after(close)
after(() => server.stop())
after(leakCheck)
