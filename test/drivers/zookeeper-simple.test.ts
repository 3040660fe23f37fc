// The suite every driver passes, with the strategy `simple`.
// Second tier because `line` is the default, and most aspects are refusals here.
import { after } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { conformsWith } from './zookeeper/support/suite.js'

conformsWith('simple')

after(leakCheck)
