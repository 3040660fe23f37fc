// A client of ZooKeeper for who locks by hand: the driver's own session, which is a real client and knows nothing of locks.
import { systemClock } from '../../src/core/clock.js'
import { createSession } from '../../src/drivers/zookeeper/session/create-session.js'
import type { Session } from '../../src/drivers/zookeeper/session/session.js'

export {
  codes,
  create,
  exists,
  flags,
  getChildren,
  remove,
  ZookeeperError,
} from '../../src/drivers/zookeeper/session/protocol.js'
export type { Session } from '../../src/drivers/zookeeper/session/session.js'

const ignore = () => undefined

/** @param servers `127.0.0.1:4711,127.0.0.1:4712`, which tick every 500 ms */
export function zookeeperSession(servers: string, sessionTimeout: number): Session {
  const addresses = servers.split(',').map((one) => {
    const [host = '', port] = one.split(':')
    return { host, port: Number(port) }
  })
  return createSession(
    { servers: addresses, sessionTimeout, tickTime: 500, auth: [] },
    systemClock(),
    Math.random,
    { onResumed: ignore, onSuspended: ignore, onFailure: ignore, onExpired: ignore },
  )
}

export const open = [{ permissions: 31, scheme: 'world', id: 'anyone' }] as const
