// Keeps the locks of the URL given open until it is killed: where nobody was before, that makes it the broker.
import { createLocks } from 'holdfast'
import { target } from '../../../src/cli/connect.js'

const { driver } = await target(process.argv[2]).connect()
const locks = createLocks(driver)
await locks.inspect('broker')
process.send?.('ready')
setInterval(() => undefined, 1e9)
process.once('disconnect', () => process.exit())
