// The suite every driver passes, over three independent servers. What is special about Redlock is in drivers/redlock/.
import { after, describe, it } from 'node:test'
import { conformsOn } from '../drivers/redlock/support/suite.js'
import { leakCheck } from '../support/leaks.js'

await conformsOn('redis7', 'ioredis', { describe, it })

after(leakCheck)
