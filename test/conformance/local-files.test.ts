// The suite over socket files, without what the core builds from locks and cells.
// Second tier because local.test.ts shows the same over abstract sockets.
import { after } from 'node:test'
import { conformsOver } from '../drivers/local/suite.js'
import { leakCheck } from '../support/leaks.js'
import { withoutPrimitives } from './parts.js'

await conformsOver('file', withoutPrimitives)

after(leakCheck)
