// What a child process of the conformance suite calls to get a driver on the same server.
import type { DriverFactory } from '../../../../src/core/driver.js'
import { driverOn, type Library, type Options } from './clients.js'

export function make(library: Library, port: number, options: Options): DriverFactory {
  return driverOn(library, port, options)
}
