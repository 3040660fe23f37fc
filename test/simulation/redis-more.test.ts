// Many more schedules over the Redis driver, of another seed than in redis.test.ts.
// Second tier because they take minutes of a processor, and each one says little by itself.
import '../support/background.js'
import { after, test } from 'node:test'
import { schedules } from '../support/amounts.js'
import { leakCheck } from '../support/leaks.js'
import { nothingFound } from './support/played.js'

const runs = schedules.second['simulation/redis-more']

test(`redis: ${runs.toLocaleString('en')} more schedules break nothing`, () => nothingFound('redis', runs, 2))

after(leakCheck)
