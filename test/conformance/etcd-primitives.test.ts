// The sections of the suite on primitives; etcd.test.ts has the rest.
// Second tier because the core builds them from locks and cells: memory and local show them for every change.
import { after } from 'node:test'
import { conformance } from 'holdfast/conformance'
import { fixtureOf } from '../drivers/etcd/support/fixture.js'
import { leakCheck } from '../support/leaks.js'
import { primitivesOnly } from './parts.js'

const { fixture, close } = await fixtureOf('3.5', 1, 'process')
conformance(primitivesOnly, fixture)
after(close)
after(leakCheck)
