// The suite every driver passes, on single servers and with both clients; the other flavours stand in redis-flavours.test.ts, Cluster and
// Sentinel in files of their own, what is special about Redis in redis/.
import { after } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { conformsOn } from './redis/support/standalone.js'

await conformsOn('redis7', 'ioredis')
await conformsOn('redis7', 'node-redis')

after(leakCheck)
