// The suite every driver passes, on a single server. Ensembles and what is special about ZooKeeper are in drivers/zookeeper/.
// The primitives are in zookeeper-primitives.test.ts.
import { after } from 'node:test'
import { conformsWith } from '../drivers/zookeeper/support/suite.js'
import { leakCheck } from '../support/leaks.js'
import { withoutPrimitives } from './parts.js'

conformsWith('line', withoutPrimitives)

after(leakCheck)
