// The suite every driver passes, with pg and the strategy `session`.
import { after } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { conforms } from './postgres/support/suite.js'

await conforms('pg', 'session')

after(leakCheck)
