// The suite every driver passes, with pg and the strategy `row`. What is special about PostgreSQL is in postgres/.
import { after } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { conforms } from './postgres/support/suite.js'

await conforms('pg', 'row')

after(leakCheck)
