import type { Result } from './figure.js'
import type { Scale } from './suite.js'
import { measureCli } from './suites/cli.js'
import { measureConsul } from './suites/consul.js'
import { measureEtcd } from './suites/etcd.js'
import { measureLocal } from './suites/local.js'
import { measureMemory } from './suites/memory.js'
import { measureMysql } from './suites/mysql.js'
import { measurePeers } from './suites/peers.js'
import { measurePostgres } from './suites/postgres.js'
import { measureRedis } from './suites/redis.js'
import { measureRedlock } from './suites/redlock.js'
import { measureSqlPeers } from './suites/sql-peers.js'
import { measureZookeeper } from './suites/zookeeper.js'

export type SuiteName =
  | 'memory'
  | 'local'
  | 'redis'
  | 'redlock'
  | 'mysql'
  | 'zookeeper'
  | 'postgres'
  | 'etcd'
  | 'consul'
  | 'cli'
  | 'peers'
  | 'sql-peers'

export const suites: Readonly<Record<SuiteName, (scale: Scale) => Promise<readonly Result[]>>> = {
  memory: measureMemory,
  local: measureLocal,
  redis: measureRedis,
  redlock: measureRedlock,
  mysql: measureMysql,
  zookeeper: measureZookeeper,
  postgres: measurePostgres,
  etcd: measureEtcd,
  consul: measureConsul,
  cli: measureCli,
  peers: measurePeers,
  'sql-peers': measureSqlPeers,
}

export function isSuite(word: string): word is SuiteName {
  return Object.hasOwn(suites, word)
}
