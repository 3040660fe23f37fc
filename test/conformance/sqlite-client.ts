// A client of the example driver, for the suite and for its child processes.
import type { DriverFactory } from 'holdfast'
import Database from 'libsql'
import { sqlite } from '../../examples/sqlite-driver/driver.js'

export function open(file: string): DriverFactory {
  return (env) => {
    const database = new Database(file)
    const driver = sqlite({ database })(env)
    return {
      ...driver,
      async close() {
        await driver.close()
        database.close()
      },
    }
  }
}
