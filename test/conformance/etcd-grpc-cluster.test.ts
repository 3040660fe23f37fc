// The connection-dependent part of the suite, over gRPC with the oldest client on a cluster of three of the older version, with a lease for each lock.
// Second tier because etcd-grpc.test.ts shows the same on one server, and etcd-cluster.test.ts on a cluster.
import { after } from 'node:test'
import { conformance } from 'holdfast/conformance'
import { fixtureOf } from '../drivers/etcd/support/fixture.js'
import { leakCheck } from '../support/leaks.js'
import { hasColumn } from '../support/promises.js'
import { connectionOnly } from './parts.js'

const { fixture, close } = await fixtureOf('3.4', 3, 'lock', 'grpc of the oldest client')
conformance(connectionOnly, { ...fixture, ...hasColumn('etcd') })
after(close)
after(leakCheck)
