// The suite every driver passes, on a single server over gRPC, without what the core builds from locks and cells.
// Second tier because gRPC is a second client: etcd.test.ts shows the same over HTTP, and drivers/etcd/grpc what is special about gRPC.
import { after } from 'node:test'
import { conformance } from 'holdfast/conformance'
import { fixtureOf } from '../drivers/etcd/support/fixture.js'
import { leakCheck } from '../support/leaks.js'
import { hasColumn } from '../support/promises.js'
import { withoutPrimitives } from './parts.js'

const { fixture, close } = await fixtureOf('3.5', 1, 'process', 'grpc')
conformance(withoutPrimitives, { ...fixture, ...hasColumn('etcd') })
after(close)
after(leakCheck)
