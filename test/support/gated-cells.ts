/** Locks over a store whose cells answer one client as late as a test wants: what happens between two of its looks is decided there. */
import { createLocks, type DriverFactory, type Locks } from '../../src/index.js'

export interface GatedLocks {
  readonly locks: Locks
  /** Resolves when it waits for a change of a cell, which it has seen then. */
  readonly parked: Promise<void>
  /** From now on it reads nothing and learns of nothing. */
  shut(): void
  open(): void
}

export function gated(store: DriverFactory): GatedLocks {
  let gate: Promise<void> | undefined
  let open = (): void => undefined
  let wait = (): void => undefined
  const parked = new Promise<void>((resolve) => {
    wait = resolve
  })
  const factory: DriverFactory = (env) => {
    const driver = store(env)
    const { cells } = driver
    if (cells === undefined) throw new Error(`${driver.name} has no cells`)
    return {
      name: driver.name,
      traits: driver.traits,
      acquire: (claim, wait) => driver.acquire(claim, wait),
      inspect: (name) => driver.inspect(name),
      close: () => driver.close(),
      cells: {
        async read(key, signal) {
          await gate
          return cells.read(key, signal)
        },
        write: (key, change, signal) => cells.write(key, change, signal),
        async changed(key, version, signal) {
          wait()
          await cells.changed(key, version, signal)
          await gate
        },
      },
    }
  }
  return {
    locks: createLocks(factory) as Locks,
    parked,
    shut() {
      gate = new Promise((resolve) => {
        open = resolve
      })
    },
    open: () => open(),
  }
}
