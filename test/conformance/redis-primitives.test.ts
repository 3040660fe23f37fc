// The sections of the suite on primitives; redis.test.ts has the rest.
// Second tier because the core builds them from locks and cells: memory and local show them for every change.
import { after } from 'node:test'
import { conformsOn } from '../drivers/redis/support/standalone.js'
import { leakCheck } from '../support/leaks.js'
import { primitivesOnly } from './parts.js'

await conformsOn('redis7', 'ioredis', primitivesOnly)

after(leakCheck)
