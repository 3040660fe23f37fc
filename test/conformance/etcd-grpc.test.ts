// The suite every driver passes, on a single server over gRPC.
// Second tier because gRPC is a second client: etcd.test.ts shows the same over HTTP, and drivers/etcd/grpc what is special about gRPC.
import { after, describe, it } from 'node:test'
import { conformance } from 'holdfast/conformance'
import { fixtureOf } from '../drivers/etcd/support/fixture.js'
import { leakCheck } from '../support/leaks.js'
import { hasColumn } from '../support/promises.js'

const { fixture, close } = await fixtureOf('3.5', 1, 'process', 'grpc')
conformance({ describe, it }, { ...fixture, ...hasColumn('etcd') })
after(close)
after(leakCheck)
