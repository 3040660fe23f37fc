// What a child process of the conformance suite calls to get a driver on the same servers.
import type { DriverFactory } from '../../../../src/core/driver.js'
import { driverOn, type Library, open, type Place } from './clients.js'

export function make(library: Library, place: Place): DriverFactory {
  return (env) => driverOn(open(library, place))(env)
}
