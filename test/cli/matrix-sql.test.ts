// Every command on sql.
import { after } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { matrix } from './support/matrix.js'

matrix(['postgres', 'postgres session', 'mysql', 'mysql session'])
after(leakCheck)
