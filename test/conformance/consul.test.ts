// The suite every driver passes, on one agent with a session for each lock. A cluster stands in a file of its own, what is
// special about Consul in drivers/consul/.
import { after, describe, it } from 'node:test'
import { conformance } from 'holdfast/conformance'
import { fixtureOf } from '../drivers/consul/support/fixture.js'
import { leakCheck } from '../support/leaks.js'
import { hasColumn } from '../support/promises.js'

const { fixture, close } = await fixtureOf(1, 'lock')
conformance({ describe, it }, { ...fixture, ...hasColumn('consul') })
after(close)
after(leakCheck)
