// The suite every driver passes, with pg and the strategy `row`. What is special about PostgreSQL is in drivers/postgres/.
// The primitives are in postgres-primitives.test.ts.
import { after } from 'node:test'
import { conforms } from '../drivers/postgres/support/suite.js'
import { leakCheck } from '../support/leaks.js'
import { withoutPrimitives } from './parts.js'

await conforms('pg', 'row', withoutPrimitives)

after(leakCheck)
