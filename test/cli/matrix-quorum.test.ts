// Every command on quorum.
import { after } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { matrix } from './support/matrix.js'

matrix(['local', 'etcd', 'zookeeper', 'consul'])
after(leakCheck)
