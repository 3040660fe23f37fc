// The suite every driver passes, with pg and the strategy `row`. What is special about PostgreSQL is in drivers/postgres/.
import { after } from 'node:test'
import { conforms } from '../drivers/postgres/support/suite.js'
import { leakCheck } from '../support/leaks.js'

await conforms('pg', 'row')

after(leakCheck)
