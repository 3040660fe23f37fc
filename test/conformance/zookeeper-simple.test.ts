// The suite every driver passes, with the strategy `simple`.
// Second tier because `line` is the default, and most aspects are refusals here.
import { after } from 'node:test'
import { conformsWith } from '../drivers/zookeeper/support/suite.js'
import { leakCheck } from '../support/leaks.js'

conformsWith('simple')

after(leakCheck)
