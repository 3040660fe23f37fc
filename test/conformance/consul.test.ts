// The suite every driver passes, on one agent with a session for each lock. A cluster is in a file of its own, what is
// special about Consul in drivers/consul/.
// The primitives are in consul-primitives.test.ts.
import { after } from 'node:test'
import { conformance } from 'holdfast/conformance'
import { fixtureOf } from '../drivers/consul/support/fixture.js'
import { leakCheck } from '../support/leaks.js'
import { hasColumn } from '../support/promises.js'
import { withoutPrimitives } from './parts.js'

const { fixture, close } = await fixtureOf(1, 'lock')
conformance(withoutPrimitives, { ...fixture, ...hasColumn('consul') })
after(close)
after(leakCheck)
