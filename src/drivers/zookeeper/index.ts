/**
 * Locks in ZooKeeper: a FIFO queue of sequential nodes, one watch per hand-over, and the transaction id as the token. Shares
 * a queue with Curator's `InterProcessMutex` and kazoo's `Lock`.
 *
 * ```ts
 * import { createLocks } from 'holdfast'
 * import { zookeeper } from 'holdfast/zookeeper'
 *
 * const locks = createLocks(zookeeper({ servers: 'zk1:2181,zk2:2181,zk3:2181' }))
 * await locks.mutex('account:42').run(async (lease) => console.log(lease.token))
 * ```
 * @module
 */

export type { TlsOptions } from '../kit/http.js'
export type { LeaseKey } from '../kit/lease-index.js'
export { type SimpleTraits, type ZookeeperFactory, type ZookeeperTraits, zookeeper } from './driver.js'
export type { MultiOperation } from './guard.js'
export type { ZookeeperAcl, ZookeeperLogin, ZookeeperOptions } from './options.js'
