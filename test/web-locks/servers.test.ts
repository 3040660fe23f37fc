// The clauses of the Web Locks specification on the servers that take longer to start.
// Second tier because web-locks.test.ts shows the same on stores that start quickly.
import { after } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { overStores } from './clauses.js'
import { moreStores } from './stores.js'

overStores(moreStores)

after(leakCheck)
