/** Is the store set up for locks? Reports what can be read from outside, with consequence and remedy. */
import { target } from '../connect.js'
import { type Check, unchecked } from './check.js'
import { consulSetup } from './consul.js'
import { etcdSetup } from './etcd.js'
import { localSetup } from './local.js'
import { mysqlSetup } from './mysql.js'
import { postgresSetup } from './postgres.js'
import { redisSetup } from './redis.js'
import { zookeeperSetup } from './zookeeper.js'

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

export async function checkSetup(url: string): Promise<Check[]> {
  const { shown } = target(url)
  const scheme = /^[^:]*/.exec(url)?.[0]?.toLowerCase() ?? ''
  const look = bySchema[scheme]
  if (look !== undefined) return look(url, shown)
  const found = `nothing looks at the set-up behind '${scheme}:' yet; see its page for what matters`
  return [unchecked('set-up', found)]
}
