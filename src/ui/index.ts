/**
 * A live page of locks: who holds what, who waits, and what happened in the last minutes; for `holdfast ui`, and to be mounted in a server
 * of your own.
 *
 * ```ts
 * import { createServer } from 'node:http'
 * import { createLocks } from 'holdfast'
 * import { local } from 'holdfast/local'
 * import { lockPage } from 'holdfast/ui'
 *
 * const page = lockPage({ stores: { main: createLocks(local()) } })
 * createServer(page.node).listen(7070, '127.0.0.1')
 * ```
 * @module
 */
export type { FastifyLike } from './fastify.js'
export type { ForcedRelease } from './handler.js'
export { type LockPage, lockPage, type PageOptions } from './lock-page.js'
export type { StoreOptions, WatchedLocks } from './watch.js'
export type { Finding } from './wire.js'
