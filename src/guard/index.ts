/**
 * What the token is for: storage that refuses a holder that does not yet know that it has lost the lock.
 *
 * ```ts
 * import { createLocks } from 'holdfast'
 * import { guardedUpdate, pg } from 'holdfast/guard'
 * import { local } from 'holdfast/local'
 * import { Pool } from 'pg'
 *
 * const locks = createLocks(local())
 * const db = pg(new Pool())
 * await locks.mutex('invoice:7').run((lease) =>
 *   guardedUpdate(db, { table: 'invoices', key: { id: 7 }, set: { total: 90 }, fence: lease }),
 * )
 * ```
 * @module
 */
export { StaleTokenError, VersionConflictError } from '../core/errors.js'
export { type GuardedCommit, guardedCommit } from './commit.js'
export { type ConsulGuardOptions, type ConsulTxn, guardedConsulTxn } from './consul.js'
export { type EtcdSend, type EtcdTxn, etcdGateway, guardedTxn } from './etcd.js'
export { assertFresh, type Fence } from './fence.js'
export { fenceHeader, fenceHeaders, parseFence } from './header.js'
export { type Fences, type HttpGuardOptions, redisFences, sqlFences } from './http.js'
export { memoryFences } from './memory-fences.js'
export {
  expressGuard,
  expressStale,
  type FetchHandler,
  guardFetch,
  type HonoContext,
  honoGuard,
  type Next,
  type NodeRequest,
  type NodeResponse,
} from './middleware.js'
export { type GuardedPut, guardedPut, httpObjects, type ObjectStore } from './objects.js'
export { type OnceOptions, type OnceResult, once, onceSchema } from './once.js'
export {
  fenceKey,
  type GuardedCommands,
  type GuardedValue,
  guardedCommands,
  guardedSet,
  type IoredisLike,
  type NodeRedisLike,
  type RedisGuardClient,
} from './redis.js'
export { getFence } from './request-gate.js'
export type { Target, Values } from './sql.js'
export {
  type Dialect,
  type MariadbClient,
  type MariadbStatement,
  type Mysql2Client,
  mariadb,
  mysql2,
  type PgClient,
  type PostgresJsClient,
  pg,
  postgresJs,
  type Sql,
  type SqlAnswer,
  type SqlRow,
} from './sql-client.js'
export {
  admit,
  type FenceTable,
  fenceSchema,
  type GuardedRow,
  guardedDelete,
  guardedRead,
  guardedUpdate,
  guardedUpsert,
} from './sql-guard.js'
export { type Expression, expression, type Json, json } from './sql-value.js'
export { type Versioned, withVersion } from './with-version.js'
export {
  type GuardedMulti,
  guardedMulti,
  type ZookeeperGuardClient,
  type ZookeeperOperation,
} from './zookeeper.js'
