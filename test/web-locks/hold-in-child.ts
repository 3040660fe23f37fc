// Started by crash.test.ts: takes a lock, tells, and never lets go.
import { createLocks } from 'holdfast'
import { local } from 'holdfast/local'
import { lockManager } from 'holdfast/web-locks'

const [, , directory = ''] = process.argv
const manager = lockManager(createLocks(local({ directory })), { clientId: 'child' })
void manager.request('a', () => {
  process.send?.('held')
  return new Promise(() => setInterval(() => undefined, 1000))
})
