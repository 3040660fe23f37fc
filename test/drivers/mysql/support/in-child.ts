// What a child process of the conformance suite calls to get a driver on the same server.
import type { DriverFactory } from '../../../../src/core/driver.js'
import type { MysqlOptions } from '../../../../src/drivers/mysql/index.js'
import { driverOn, type Library } from './clients.js'

export function make(library: Library, port: number, options: Partial<MysqlOptions>): DriverFactory {
  return driverOn(library, port, options)
}
