/** A {@link Connection} over node-redis 4.7+: client, cluster or sentinel. Subscriptions are in `node-redis-subscription.ts`. */
import type { Clock } from '../../core/clock.js'
import type { Connection, NodeRedis, Reply } from './client.js'
import { connectionErrors } from './connection-errors.js'
import { databaseOf, inDatabase } from './database.js'
import { onAll } from './events.js'
import { loggedIn } from './login.js'
import { attach, destroy, quiet } from './node-redis-subscription.js'
import {
  type Args,
  type Clustered,
  clustered,
  type Sentinel,
  type Single,
  sentinel,
  single,
} from './node-redis-topologies.js'
import { toCount } from './reply-shapes.js'
import { scanAll } from './scan.js'

export function fromNodeRedis(given: NodeRedis, clock: Clock): Connection {
  const way =
    'nodeClient' in given
      ? clustered(given as Clustered, clock)
      : 'use' in given
        ? sentinel(given as unknown as Sentinel, clock)
        : single(given as Single)
  const { keyPrefix } = way
  const several = 'nodeClient' in given || 'use' in given
  const errors = connectionErrors(given, clock, several, ['node-error'])
  const full = (key: string) => keyPrefix + key
  // The client does not add its key prefix to raw commands.
  const script = (how: string, text: string, keys: Args, args: Args) => [
    how,
    text,
    String(keys.length),
    ...keys.map(full),
    ...args,
  ]

  const connection: Connection = {
    cluster: way.cluster,
    keyPrefix,
    get ended() {
      return !given.isOpen
    },
    get outage() {
      return errors.last
    },
    watchOutages: errors.start,
    unwatchOutages: errors.stop,
    run: (how, text, keys, args) =>
      way.send(full(keys[0] ?? ''), script(how, text, keys, args)) as Promise<Reply>,
    async runAndWait(how, text, keys, args, replicas, timeout) {
      const wait = ['WAIT', String(replicas), String(timeout)]
      const [ran, waited] = await way.both(full(keys[0] ?? ''), script(how, text, keys, args), wait)
      return [ran as Reply, toCount('WAIT', waited)]
    },
    command: (...args) => way.send(undefined, args) as Promise<Reply>,
    scan: (pattern) => scanAll(() => way.masters(), pattern, way.cluster),
    watch(down, up) {
      const moved = () => {
        down()
        up()
      }
      const stop = onAll(given, {
        reconnecting: down,
        end: down,
        ready: up,
        'topology-change': moved,
        'node-reconnecting': down,
        'node-ready': up,
      })
      const unwatch = way.watch?.(down, up)
      return () => {
        unwatch?.()
        stop()
      }
    },
    duplicate() {
      if (given.duplicate === undefined) {
        throw new TypeError(
          'replicas: this client of Sentinels cannot be duplicated; use redis 6 or later, or ioredis',
        )
      }
      const own = quiet(given.duplicate())
      // The client is open from now on and queues commands until it is connected; failures show in the commands.
      own.connect().catch(() => undefined)
      return fromNodeRedis(own, clock)
    },
    listen: (channel, handler, setApart) => {
      if (!setApart) return way.listen(channel, handler)
      return { close: attach(given as Single, channel, handler) }
    },
    close: () => destroy(given),
  }
  // A client of Sentinels does not show its options.
  return several ? connection : inDatabase(loggedIn(connection, errors, clock), () => databaseOf(given))
}
