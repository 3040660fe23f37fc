// What a child process of the conformance suite calls to get a driver on the same servers.
import type { DriverFactory } from '../../../../src/core/driver.js'
import { driverOn, type Library, openerOf, type Place } from './place.js'

export async function make(library: Library, place: Place): Promise<DriverFactory> {
  const open = await openerOf(library)
  return (env) => driverOn(open(place))(env)
}
