// The suite every driver passes, over abstract sockets.
import { after, describe, it } from 'node:test'
import { conformsOver } from '../drivers/local/suite.js'
import { leakCheck } from '../support/leaks.js'

await conformsOver('abstract', { describe, it })

after(leakCheck)
