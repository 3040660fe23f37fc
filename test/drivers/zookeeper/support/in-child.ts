// What a child process of the conformance suite calls to get a driver on the same servers.
import type { DriverFactory } from '../../../../src/core/driver.js'
import { type ZookeeperOptions, zookeeper } from '../../../../src/drivers/zookeeper/index.js'

export function make(options: ZookeeperOptions): DriverFactory {
  return zookeeper(options)
}
