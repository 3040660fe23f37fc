// Schedules under virtual time over a table that mints the token of every pass: none breaks a promise. The seed is fixed, so a
// failure is a failure for everybody; `npm run simulate -- minting --seed N` looks at other schedules.
import '../support/background.js'
import { after, test } from 'node:test'
import { schedules } from '../support/amounts.js'
import { leakCheck } from '../support/leaks.js'
import { nothingFound } from './support/played.js'

const runs = schedules.first['simulation/minting']

test(`minting: ${runs.toLocaleString('en')} schedules break nothing`, () => nothingFound('minting', runs))

after(leakCheck)
