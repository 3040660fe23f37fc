// The suite every driver passes, strategy `row`, on MySQL 9 with mysql2.
import { after, describe, it } from 'node:test'
import { conformance } from 'holdfast/conformance'
import { leakCheck } from '../support/leaks.js'
import { hasColumn } from '../support/promises.js'
import { startMysql } from '../support/servers/mysql.js'
import { fixtureOf } from './mysql/support/fixture.js'

const server = await startMysql({ flavour: 'mysql' })
const { fixture, close } = await fixtureOf('mysql, row (MySQL 9, mysql2)', 'mysql2', server)
conformance({ describe, it }, { ...fixture, ...hasColumn('mysql') })

after(close)
after(() => server.stop())
after(leakCheck)
