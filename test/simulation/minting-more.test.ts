// Many more schedules over a table that mints the token of every pass, of another seed than in minting.test.ts.
// Second tier because they take minutes of a processor, and each one says little by itself.
import '../support/background.js'
import { after, test } from 'node:test'
import { schedules } from '../support/amounts.js'
import { leakCheck } from '../support/leaks.js'
import { nothingFound } from './support/played.js'

const runs = schedules.second['simulation/minting-more']

test(`minting: ${runs.toLocaleString('en')} more schedules break nothing`, () =>
  nothingFound('minting', runs, 2))

after(leakCheck)
