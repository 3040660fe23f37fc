// The clauses in a Node with its own `navigator.locks`: the table here, and docs/web-locks.md, list its differences from ours.
// Second tier because it is about another Node's locks, for half a minute.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { read } from '../support/checkout.js'
import { leakCheck } from '../support/leaks.js'
import { unpacked } from '../support/servers/fetch.js'

/** Clauses that Node's own does not keep, and how the page names what differs. */
const differences: Readonly<Record<string, string>> = {
  '2.5 Termination of locks: when a client ends, its locks and requests go with it':
    'has one client for each thread',
  '3.2.1 request(): an error of the callback is that of the request, and the lock is free':
    'a callback that throws before its first `await` leaves the lock held for ever',
  '3.2.1 request(): it is always a promise, and the callback is called later':
    'the callback of a free lock is called before `request` returns',
  '3.2.1 options.signal: it ends the wait, and the place in the queue is gone':
    'a request whose signal was aborted stays in `query` until its turn comes',
  '3.2.2 query(): held locks in the order of their grants, also of several names':
    'lists held locks of several names in no order',
  '2.5 Termination of locks: when a thread ends, the next in the queue is called back':
    'a request that waits for a lock of a terminated worker is rarely called back',
}

test('Node’s own navigator.locks keeps the clauses that ours keeps, but for those that are reported', async () => {
  const { root } = await unpacked('node24')
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  const file = fileURLToPath(new URL('./native-clauses.js', import.meta.url))
  const child = spawn(join(root, 'bin/node'), ['--test-reporter=tap', '--test', '--test-force-exit', file], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let said = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    said += text
  })
  await once(child, 'close')
  const results = [...said.matchAll(/^ *(not )?ok \d+ - (.*) \(native\)$/gm)]
  assert.ok(results.length > 30, said)
  const failed = results.filter(([, not]) => not !== undefined).map(([, , title = '']) => title)
  assert.deepEqual(failed, Object.keys(differences), said)
  const page = read('docs/web-locks.md')
  for (const told of Object.values(differences))
    assert.ok(page.includes(told), `the page does not say: ${told}`)
})

after(leakCheck)
