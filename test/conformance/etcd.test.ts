// The suite every driver passes, on a single server with one lease for each process. A cluster is in a file of its own,
// what is special about etcd in drivers/etcd/.
// The primitives are in etcd-primitives.test.ts.
import { after } from 'node:test'
import { conformance } from 'holdfast/conformance'
import { fixtureOf } from '../drivers/etcd/support/fixture.js'
import { leakCheck } from '../support/leaks.js'
import { hasColumn } from '../support/promises.js'
import { withoutPrimitives } from './parts.js'

const { fixture, close } = await fixtureOf('3.5', 1, 'process')
conformance(withoutPrimitives, { ...fixture, ...hasColumn('etcd') })
after(close)
after(leakCheck)
