// The suite every driver passes, over abstract sockets.
import { after, describe, it } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { conformsOver } from './local/suite.js'

await conformsOver('abstract', { describe, it })

after(leakCheck)
