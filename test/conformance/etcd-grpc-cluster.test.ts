// The suite every driver passes, over gRPC with the oldest client on a cluster of three of the older version, with a lease for each lock.
// Second tier because etcd-grpc.test.ts shows the same on one server, and topology/ what is special about clusters.
import { after } from 'node:test'
import { conformance } from 'holdfast/conformance'
import { fixtureOf } from '../drivers/etcd/support/fixture.js'
import { leakCheck } from '../support/leaks.js'
import { hasColumn } from '../support/promises.js'
import { withoutPrimitives } from './parts.js'

const { fixture, close } = await fixtureOf('3.4', 3, 'lock', 'grpc of the oldest client')
conformance(withoutPrimitives, { ...fixture, ...hasColumn('etcd') })
after(close)
after(leakCheck)
