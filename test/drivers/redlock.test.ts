// The suite every driver passes, over three independent servers. What is special about Redlock is in redlock/.
import { after, describe, it } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { conformsOn } from './redlock/support/suite.js'

await conformsOn('redis7', 'ioredis', { describe, it })

after(leakCheck)
