// Schedules under virtual time over the reference table behind a wire: none breaks a promise. The seed is fixed, so a
// failure is a failure for everybody; `npm run simulate -- table --seed N` looks at other schedules.
import '../support/background.js'
import { after, test } from 'node:test'
import { amount, schedules } from '../support/amounts.js'
import { leakCheck } from '../support/leaks.js'
import { nothingFound } from './support/played.js'

const runs = schedules['simulation/table'][amount]

test(`table: ${runs.toLocaleString('en')} schedules break nothing`, () => nothingFound('table', runs))

after(leakCheck)
