/** Is the store set up for locks? What can be read from outside, each with what it means and what to do. */
import { target } from '../connect.js'
import { consulSetup } from './setup-consul.js'
import { etcdSetup } from './setup-etcd.js'
import { localSetup } from './setup-local.js'
import { mysqlSetup } from './setup-mysql.js'
import { postgresSetup } from './setup-postgres.js'
import { redisSetup } from './setup-redis.js'
import { zookeeperSetup } from './setup-zookeeper.js'

export interface Check {
  readonly what: string
  /** `bad`: locks can be lost without anybody's fault. `weak`: a promise rests on something that may fail. */
  readonly verdict: 'ok' | 'weak' | 'bad' | 'not checked'
  readonly found: string
  readonly remedy?: string
}

const bySchema: Readonly<Record<string, (url: string, shown: string) => Promise<Check[]>>> = {
  local: localSetup,
  redis: redisSetup,
  rediss: redisSetup,
  'redis+sentinel': redisSetup,
  'redis+cluster': redisSetup,
  redlock: redisSetup,
  postgres: postgresSetup,
  postgresql: postgresSetup,
  mysql: mysqlSetup,
  zookeeper: zookeeperSetup,
  etcd: etcdSetup,
  consul: consulSetup,
}

export async function setupOf(url: string): Promise<Check[]> {
  const { shown } = target(url)
  const scheme = /^[^:]*/.exec(url)?.[0]?.toLowerCase() ?? ''
  const look = bySchema[scheme]
  if (look !== undefined) return look(url, shown)
  const found = `nothing looks at the set-up behind '${scheme}:' yet; see its page for what matters`
  return [{ what: 'set-up', verdict: 'not checked', found }]
}
