// Many more schedules over the reference table behind a wire, of another seed than in table.test.ts.
// Second tier because they take minutes of a processor, and each one says little by itself.
import '../support/background.js'
import { after, test } from 'node:test'
import { schedules } from '../support/amounts.js'
import { leakCheck } from '../support/leaks.js'
import { nothingFound } from './support/played.js'

const runs = schedules.second['simulation/table-more']

test(`table: ${runs.toLocaleString('en')} more schedules break nothing`, () => nothingFound('table', runs, 2))

after(leakCheck)
