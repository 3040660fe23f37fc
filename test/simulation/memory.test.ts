// Schedules under virtual time over the memory driver: none breaks a promise. The seed is fixed, so a
// failure is a failure for everybody; `npm run simulate -- memory --seed N` looks at other schedules.
import '../support/background.js'
import { after, test } from 'node:test'
import { schedules } from '../support/amounts.js'
import { leakCheck } from '../support/leaks.js'
import { nothingFound } from './support/played.js'

const runs = schedules.first['simulation/memory']

test(`memory: ${runs.toLocaleString('en')} schedules break nothing`, () => nothingFound('memory', runs))

after(leakCheck)
