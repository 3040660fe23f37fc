// Every command on quorum.
// Second tier because a store costs half a minute; smoke.test.ts is the part for every change.
import { after } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { matrix } from './support/matrix.js'

matrix(['local', 'etcd', 'zookeeper', 'consul'])
after(leakCheck)
