// The suite every driver passes, on three servers, with one session for each process.
// Second tier because consul.test.ts shows the same on one agent, and topology/ what is special about clusters.
import { after } from 'node:test'
import { conformance } from 'holdfast/conformance'
import { fixtureOf } from '../drivers/consul/support/fixture.js'
import { leakCheck } from '../support/leaks.js'
import { hasColumn } from '../support/promises.js'
import { withoutPrimitives } from './parts.js'

const { fixture, close } = await fixtureOf(3, 'process')
conformance(withoutPrimitives, { ...fixture, ...hasColumn('consul') })
after(close)
after(leakCheck)
