// The suite every driver passes, with pg and the strategy `session`.
// Second tier because `row` is the default; what is special about sessions is in postgres/session.test.ts.
import { after } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { conforms } from './postgres/support/suite.js'

await conforms('pg', 'session')

after(leakCheck)
