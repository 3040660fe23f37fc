// The connection-dependent part of the suite, with the second client and on Valkey.
// Second tier because redlock.test.ts shows the same of the first client on Redis.
import { after } from 'node:test'
import { conformsOn } from '../drivers/redlock/support/suite.js'
import { leakCheck } from '../support/leaks.js'
import { connectionOnly } from './parts.js'

await conformsOn('valkey8', 'node-redis', connectionOnly)

after(leakCheck)
