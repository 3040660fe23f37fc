// What a child process of the conformance suite calls to get a driver on the same servers.
import type { DriverFactory } from '../../../../src/core/driver.js'
import { redis } from '../../../../src/drivers/redis/index.js'
import { driverOn, type Library, openerOf, type Place } from './place.js'

export async function make(library: Library, place: Place): Promise<DriverFactory> {
  const open = await openerOf(library)
  return (env) => driverOn(open(place))(env)
}

/** The same, used while its client still connects: that of node-redis does so for ever where the server is silent. */
export async function makeConnecting(library: Library, place: Place): Promise<DriverFactory> {
  const { client, start } = (await openerOf(library))(place)
  start().catch(() => undefined)
  return redis({ client, quarantine: 'off' })
}
