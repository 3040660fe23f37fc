// The sections of the suite on primitives; zookeeper.test.ts has the rest.
// Second tier because the core builds them from locks and cells: memory and local show them for every change.
import { after } from 'node:test'
import { conformsWith } from '../drivers/zookeeper/support/suite.js'
import { leakCheck } from '../support/leaks.js'
import { primitivesOnly } from './parts.js'

conformsWith('line', primitivesOnly)

after(leakCheck)
