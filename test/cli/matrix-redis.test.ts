// Every command on Redis, in every topology.
// Second tier because a store costs half a minute; smoke.test.ts is the part for every change.
import { after } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { matrix } from './support/matrix.js'

matrix(['redis', 'redis+sentinel', 'redis+cluster', 'redlock'])
after(leakCheck)
