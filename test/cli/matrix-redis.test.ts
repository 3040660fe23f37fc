// Every command on Redis, in every topology.
import { after } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { matrix } from './support/matrix.js'

matrix(['redis', 'redis+sentinel', 'redis+cluster', 'redlock'])
after(leakCheck)
