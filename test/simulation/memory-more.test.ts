// Many more schedules over the memory driver, of another seed than in memory.test.ts.
// Second tier because they take minutes of a processor, and each one says little by itself.
import '../support/background.js'
import { after, test } from 'node:test'
import { schedules } from '../support/amounts.js'
import { leakCheck } from '../support/leaks.js'
import { nothingFound } from './support/played.js'

const runs = schedules.second['simulation/memory-more']

test(`memory: ${runs.toLocaleString('en')} more schedules break nothing`, () =>
  nothingFound('memory', runs, 2))

after(leakCheck)
