// One run of the command line on each store: a command runs, one waits and then runs, and `ls` and `inspect` see who holds. Every command
// on every topology: matrix-*.test.ts.
import { after } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { smoke } from './support/matrix.js'

smoke(['local', 'redis', 'redlock', 'postgres', 'mysql', 'etcd', 'zookeeper', 'consul'])
after(leakCheck)
