// The suite over socket files, without what the core builds from locks and cells.
// Second tier because local.test.ts shows the same over abstract sockets.
import { after } from 'node:test'
import { withoutPrimitives } from '../conformance/parts.js'
import { leakCheck } from '../support/leaks.js'
import { conformsOver } from './local/suite.js'

await conformsOver('file', withoutPrimitives)

after(leakCheck)
