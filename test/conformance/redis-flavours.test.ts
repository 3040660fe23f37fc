// The suite on a newer Redis, and its connection-dependent part with the second client, on Redis and on Valkey.
// Second tier because redis.test.ts shows the same of the first client on Redis 7.
import { after } from 'node:test'
import { conformsOn } from '../drivers/redis/support/standalone.js'
import { leakCheck } from '../support/leaks.js'
import { connectionOnly, withoutPrimitives } from './parts.js'

await conformsOn('redis8', 'ioredis', withoutPrimitives)
await conformsOn('redis7', 'node-redis', connectionOnly)
await conformsOn('valkey8', 'node-redis', connectionOnly)

after(leakCheck)
