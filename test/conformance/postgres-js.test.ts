// The connection-dependent part of the suite, with postgres.js and the strategy `row`.
// Second tier because postgres.test.ts shows the same of pg.
import { after } from 'node:test'
import { conforms } from '../drivers/postgres/support/suite.js'
import { leakCheck } from '../support/leaks.js'
import { connectionOnly } from './parts.js'

await conforms('postgres.js', 'row', connectionOnly)

after(leakCheck)
