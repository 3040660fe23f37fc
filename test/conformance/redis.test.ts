// The suite every driver passes, on a single server. Other clients, versions and topologies are in files of their own, what is special
// about Redis in drivers/redis/.
// The primitives are in redis-primitives.test.ts.
import { after } from 'node:test'
import { conformsOn } from '../drivers/redis/support/standalone.js'
import { leakCheck } from '../support/leaks.js'
import { withoutPrimitives } from './parts.js'

await conformsOn('redis7', 'ioredis', withoutPrimitives)

after(leakCheck)
