// The suite every driver passes, on a cluster of three of the older version, with a lease for each lock.
import { after, describe, it } from 'node:test'
import { conformance } from 'holdfast/conformance'
import { leakCheck } from '../support/leaks.js'
import { hasColumn } from '../support/promises.js'
import { fixtureOf } from './etcd/support/fixture.js'

const { fixture, close } = await fixtureOf('3.4', 3, 'lock')
conformance({ describe, it }, { ...fixture, ...hasColumn('etcd') })
after(close)
after(leakCheck)
