// The suite every driver passes, with postgres.js and the strategy `row`.
import { after } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { conforms } from './postgres/support/suite.js'

await conforms('postgres.js', 'row')

after(leakCheck)
