import { after, describe, it } from 'node:test'
import { conformance } from 'holdfast/conformance'
import { leakCheck } from '../support/leaks.js'
import { memoryFixture } from './memory-fixture.js'

after(leakCheck)

conformance({ describe, it }, memoryFixture())
