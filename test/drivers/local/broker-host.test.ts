// The thread that stands by, when the last client of its directory goes and another comes.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startBroker, startStandby, useDirectory } from '../../../src/drivers/local/broker-host.js'
import { openRuntimeDirectory } from '../../../src/drivers/local/runtime-directory.js'
import { leakCheck } from '../../support/leaks.js'
import { endAll, freshDirectory } from './processes.js'

test('a client that connects while the previous broker thread ends still gets a broker', async () => {
  const home = openRuntimeDirectory(freshDirectory(), 'abstract')
  const leave = useDirectory(home.directory)
  startStandby(home.directory)
  const left = leave()
  const leaveAgain = useDirectory(home.directory)
  assert.deepEqual(
    await startBroker({ runtimeDirectory: home, last: { number: 0, socket: '', mark: undefined } }),
    {
      is: 'up',
    },
  )
  await left
  await leaveAgain()
})

after(endAll)
after(leakCheck)
