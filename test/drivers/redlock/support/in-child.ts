// What a child process of the conformance suite calls to get a driver on the same servers.
import type { DriverFactory } from '../../../../src/core/driver.js'
import { type Library, openerOf } from '../../redis/support/place.js'
import { type Options, redlockWith } from './driver.js'

export async function make(
  library: Library,
  ports: readonly number[],
  options?: Options,
): Promise<DriverFactory> {
  return redlockWith(await openerOf(library), library, ports, options)
}
