// The suite every driver passes, strategy `row`, on MariaDB with mysql2. MySQL, the other client and the strategy `session` stand in
// files of their own, what is special about MySQL in mysql/.
import { after, describe, it } from 'node:test'
import { conformance } from 'holdfast/conformance'
import { leakCheck } from '../support/leaks.js'
import { hasColumn } from '../support/promises.js'
import { startMysql } from '../support/servers/mysql.js'
import { fixtureOf } from './mysql/support/fixture.js'

const server = await startMysql({ flavour: 'mariadb' })
const { fixture, close } = await fixtureOf('mysql, row (MariaDB, mysql2)', 'mysql2', server)
conformance({ describe, it }, { ...fixture, ...hasColumn('mysql') })

after(close)
after(() => server.stop())
after(leakCheck)
