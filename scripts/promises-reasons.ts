// What the tables of docs/promises.md and docs/primitives.md say of single drivers: why one cannot keep a promise that others keep. What happens
// instead is said by the conformance suite itself, once for all: src/conformance/scenario/differences.ts.

const oneNode = '`zookeeper (simple)` is a single node, owned only by the client that creates it first.'
const connection =
  'A hold of `mysql (session)` and `postgres (session)` is bound to a connection, with which it ends.'

/** By the id of a difference and the column of the table. The same text for several is printed once. */
export const reasons: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  line: { 'zookeeper (simple)': oneNode },
  fair: {
    redlock: '`redlock`: each server has a queue of its own, and two queues can differ.',
    'zookeeper (simple)': oneNode,
  },
  maxTtl: each(
    ['zookeeper', 'zookeeper (simple)'],
    'A hold in ZooKeeper is there for as long as its session, whose time-out is fixed when it begins.',
  ),
  forceRelease: {
    'postgres (session)':
      'To end one hold of `postgres (session)` is to end its connection, and with it all locks of that process.',
  },
  maxLockDelay: {
    local: 'The broker of `local` frees a lock in the moment in which the process of its holder ends.',
    ...each(['mysql (session)', 'postgres (session)'], connection),
  },
  'shared mode': {
    'mysql (session)': 'The `GET_LOCK` of MySQL has one owner.',
    'zookeeper (simple)': oneNode,
  },
  permits: {
    'mysql (session)': 'The `GET_LOCK` of MySQL has one owner.',
    'postgres (session)': 'An advisory lock of PostgreSQL has one owner or readers, and no count.',
    redlock:
      'Majorities cannot count permits: of five servers in `redlock`, with two permits each, three holders find a majority.',
    'zookeeper (simple)': oneNode,
  },
  acquireMany: {
    'redis (Cluster)': 'In a Redis Cluster each name has a slot of its own, and a script runs in one slot.',
    redlock: '`redlock` votes on each name by itself.',
  },
  cells: {
    redlock: 'The servers of `redlock` are independent, and keep no value in common.',
    'zookeeper (simple)': oneNode,
    'postgres (session)': '`postgres` has them with the strategy `row`.',
  },
  portable: {
    ...each(['mysql (session)', 'postgres (session)'], connection),
    consul: 'A hold in Consul belongs to the session of its process.',
    etcd: 'A hold in etcd belongs to a lease of etcd that its process keeps alive.',
    ...each(
      ['zookeeper', 'zookeeper (simple)'],
      'A hold in ZooKeeper belongs to the session of its process.',
    ),
  },
}

function each(columns: readonly string[], reason: string): Readonly<Record<string, string>> {
  return Object.fromEntries(columns.map((column) => [column, reason]))
}
