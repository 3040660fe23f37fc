// The suite every driver passes, with pg and the strategy `session`.
// Second tier because `row` is the default; what is special about sessions is in drivers/postgres/session.test.ts.
import { after } from 'node:test'
import { conforms } from '../drivers/postgres/support/suite.js'
import { leakCheck } from '../support/leaks.js'

await conforms('pg', 'session')

after(leakCheck)
