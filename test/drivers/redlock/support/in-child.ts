// What a child process of the conformance suite calls to get a driver on the same servers.
import type { DriverFactory } from '../../../../src/core/driver.js'
import type { Library } from '../../redis/support/clients.js'
import { redlockOn } from './clients.js'

export function make(library: Library, ports: readonly number[]): DriverFactory {
  return redlockOn(library, ports)
}
