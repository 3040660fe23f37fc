// The sections of the suite on primitives; consul.test.ts has the rest.
// Second tier because the core builds them from locks and cells: memory and local show them for every change.
import { after } from 'node:test'
import { conformance } from 'holdfast/conformance'
import { fixtureOf } from '../drivers/consul/support/fixture.js'
import { leakCheck } from '../support/leaks.js'
import { primitivesOnly } from './parts.js'

const { fixture, close } = await fixtureOf(1, 'lock')
conformance(primitivesOnly, fixture)
after(close)
after(leakCheck)
