// The suite every driver passes, on the newer Redis and on Valkey.
import { after } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { conformsOn } from './redis/support/standalone.js'

await conformsOn('redis8', 'ioredis')
await conformsOn('valkey8', 'node-redis')

after(leakCheck)
