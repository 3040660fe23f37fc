// What a child process of the conformance suite calls to get a driver on the same agents.
import type { DriverFactory } from '../../../../src/core/driver.js'
import { type ConsulOptions, consul } from '../../../../src/drivers/consul/index.js'

export function make(url: readonly string[], more: Omit<ConsulOptions, 'url'> = {}): DriverFactory {
  return consul({ url, minTtl: 1_000, ...more })
}
