// The suite every driver passes, on a single server. Ensembles and what is special about ZooKeeper stand in zookeeper/.
import { after } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { conformsWith } from './zookeeper/support/suite.js'

conformsWith('line')

after(leakCheck)
