// The suite every driver passes, on a single server. Other clients, versions and topologies stand in files of their own, what is special
// about Redis in redis/.
import { after } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { conformsOn } from './redis/support/standalone.js'

await conformsOn('redis7', 'ioredis')

after(leakCheck)
