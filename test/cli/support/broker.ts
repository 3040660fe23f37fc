// Keeps the locks of the URL given open until it is killed: where nobody was before, that makes it the broker.
import { createLocks } from 'holdfast'
import { target } from '../../../src/cli/connect.js'

const { driver } = await target(process.argv[2]).connect()
const locks = createLocks(driver)
// Waited for, however long a busy machine takes to start one; a mere question is given up.
await locks.mutex('broker').run(() => undefined, { wait: Number.POSITIVE_INFINITY })
process.send?.('ready')
setInterval(() => undefined, 1e9)
process.once('disconnect', () => process.exit())
