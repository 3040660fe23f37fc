import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { memory } from '../../src/drivers/memory/index.js'
import { createLocks, type DriverFactory, type Locks } from '../../src/index.js'
import { leakCheck } from '../support/leaks.js'
import { until } from '../support/until.js'

after(leakCheck)

/** Locks whose looks at a cell take until `open` is called once somebody holds. */
function slowCells(): { locks: Locks; open(): void } {
  const store = memory()
  let open = (): void => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  let held = false
  const slow: DriverFactory = (env) => {
    const driver = store(env)
    const { cells } = driver
    assert.ok(cells)
    return {
      ...driver,
      acquire: async (claim, wait) => {
        const grant = await driver.acquire(claim, wait)
        held ||= grant !== undefined
        return grant
      },
      cells: {
        ...cells,
        read: async (key, signal) => {
          if (held) await opened
          return cells.read(key, signal)
        },
      },
    }
  }
  return { locks: createLocks(slow), open: () => open() }
}

for (const [what, begin] of Object.entries({
  'a job': (locks: Locks, fn: () => void) => locks.job('x').run(fn),
  'a job with minHold': (locks: Locks, fn: () => void) => locks.job('x', { minHold: 1_000 }).run(fn),
  'once()': (locks: Locks, fn: () => void) => locks.once('x', fn),
}))
  test(`${what} does not begin when its lease was lost while the store was asked`, async () => {
    const { locks, open } = slowCells()
    let ran = false
    const running = begin(locks, () => {
      ran = true
    })
    const lost = new Promise((resolve) => {
      locks.on('lost', resolve)
    })
    await until(async () => (await locks.inspect('x')).holders.length === 1)
    await locks.forceRelease('x')
    await lost
    open()
    await assert.rejects(running, { code: 'LEASE_LOST' })
    assert.equal(ran, false)
    await locks.close()
  })
