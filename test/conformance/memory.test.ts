// The suite every driver passes. A driver that refuses most of it is in memory-exclusive.test.ts.
import { after, describe, it } from 'node:test'
import { conformance } from 'holdfast/conformance'
import { leakCheck } from '../support/leaks.js'
import { hasColumn } from '../support/promises.js'
import { memoryFixture } from './memory-fixture.js'

conformance({ describe, it }, { ...memoryFixture(), ...hasColumn('memory') })

after(leakCheck)
