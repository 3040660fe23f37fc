// The suite every driver passes, on three servers, with one session for each process.
import { after, describe, it } from 'node:test'
import { conformance } from 'holdfast/conformance'
import { leakCheck } from '../support/leaks.js'
import { hasColumn } from '../support/promises.js'
import { fixtureOf } from './consul/support/fixture.js'

const { fixture, close } = await fixtureOf(3, 'process')
conformance({ describe, it }, { ...fixture, ...hasColumn('consul') })
after(close)
after(leakCheck)
