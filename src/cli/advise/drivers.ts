/**
 * Facts about each driver. The beginning of each weak point appears verbatim on the driver's page, and a test compares them, so that advice
 * and pages cannot diverge.
 */
// Long because it is a table.
import type { Store } from './answers.js'

export type DriverName = Store | 'local'

export interface Facts {
  /** Why to choose it. */
  readonly strength: string
  /** `says` appears verbatim on the page. */
  readonly weak: readonly { readonly says: string; readonly more: string }[]
  /** What checks a token in this store, in one step with the write. */
  readonly guard: string
  /** Creates the client and the driver; OPTIONS is replaced. */
  readonly code: readonly string[]
  /** For `--on`. */
  readonly url: string
}

/** A database can keep its rows and their token in one transaction. */
const sql = 'guardedUpdate or admit of holdfast/guard, in the transaction that writes'

export const drivers: Readonly<Record<DriverName, Facts>> = {
  local: {
    strength:
      'no server is needed, and a crashed holder frees the lock within milliseconds: the kernel closes its socket',
    weak: [
      { says: 'One machine, one user.', more: ' A second machine, or another user, does not see its locks.' },
      {
        says: 'In containers, processes must share the directory',
        more: ', and should share the pid name space.',
      },
      { says: 'The code for macOS and Windows exists, but every test ran on Linux.', more: '' },
    ],
    guard: 'the guard of the store that is written to: holdfast/guard for SQL, Redis, HTTP and object stores',
    code: ["import { local } from 'holdfast/local'", '', 'const locks = createLocks(local(OPTIONS))'],
    url: 'local:',
  },
  redis: {
    strength:
      'the fastest hand-over: one command takes a free lock, one gives it back, and waiters are notified',
    weak: [
      {
        says: "The server's wall clock decides when a lease ends.",
        more: ' A jump forward can end one early; its holder is notified, and tokens still grow.',
      },
      {
        says: 'The first lock on a Redis that has just started waits',
        more: ', because a server without data may have lost them: for maxTtl.',
      },
      {
        says: 'Asynchronous replication can lose a grant',
        more: ' on a fail-over: with replicas set replicas: 1 and min-replicas-to-write 1, also in a Cluster, where some losses go unnoticed.',
      },
    ],
    guard: 'guardedSet or guardedCommands of holdfast/guard for what is in Redis; for SQL its guardedUpdate',
    code: [
      "import { Redis } from 'ioredis'",
      "import { redis } from 'holdfast/redis'",
      '',
      "const client = new Redis('redis://localhost')",
      'const locks = createLocks(redis({ client, OPTIONS }))',
    ],
    url: 'redis://HOST',
  },
  redlock: {
    strength: 'one of the servers may die, or lose its data, and the others go on without a pause',
    weak: [
      { says: 'No `fair` order', more: ', no permits, and no election, latch, barrier or pool.' },
      {
        says: 'Handing over takes two round trips, and each server is asked by each waiter',
        more: ' again and again: few should wait.',
      },
      {
        says: "A forward jump of one server's clock ends its vote early",
        more: '; with a second fault at the same time two can hold. Tokens still grow.',
      },
    ],
    guard: 'guardedUpdate of holdfast/guard for SQL, its guards for Redis, HTTP and object stores',
    code: [
      "import { Redis } from 'ioredis'",
      "import { redlock } from 'holdfast/redlock'",
      '',
      "const clients = ['redis://HOST1', 'redis://HOST2', 'redis://HOST3'].map((url) => new Redis(url))",
      'const locks = createLocks(redlock({ clients, OPTIONS }))',
    ],
    url: 'redlock://HOST1,HOST2,HOST3',
  },
  postgres: {
    strength:
      'a grant is a commit: a restart forgets nothing, waiters are notified, and the data it guards may be in the same database',
    weak: [
      {
        says: "The server's wall clock decides when a row lease ends.",
        more: ' A jump forward can end one early; its holder is notified, and tokens still grow.',
      },
      {
        says: 'A fail-over to an asynchronous standby can lose grants',
        more: ': set synchronous_standby_names, or rely on the guard.',
      },
      {
        says: 'NOTIFY takes a lock of the whole database cluster when it commits.',
        more: ' It is used only when somebody waits.',
      },
    ],
    guard: sql,
    code: [
      "import { Pool } from 'pg'",
      "import { postgres } from 'holdfast/postgres'",
      '',
      "const pool = new Pool({ connectionString: 'postgres://USER@HOST/DATABASE' })",
      'const locks = createLocks(postgres({ pool, OPTIONS }))',
    ],
    url: 'postgres://USER@HOST/DATABASE',
  },
  mysql: {
    strength:
      'a grant is a commit: a restart forgets nothing, and the data it guards may be in the same database',
    weak: [
      {
        says: 'Handing over between processes takes up to 50 ms',
        more: ', because waiters poll: MySQL cannot notify anybody that a row has changed.',
      },
      {
        says: 'Waiting is polling.',
        more: ' Each waiter that is first in its line costs statements for as long as it waits.',
      },
      {
        says: 'A fail-over can lose a grant',
        more: ' where replication is asynchronous, and a power cut where innodb_flush_log_at_trx_commit is not 1.',
      },
    ],
    guard: sql,
    code: [
      "import { createPool } from 'mysql2/promise'",
      "import { mysql } from 'holdfast/mysql'",
      '',
      "const pool = createPool({ uri: 'mysql://USER@HOST/DATABASE', connectionLimit: 4 })",
      'const locks = createLocks(mysql({ pool, OPTIONS }))',
    ],
    url: 'mysql://USER@HOST/DATABASE',
  },
  zookeeper: {
    strength:
      'a majority decides, so the death of a server loses no lock; each waiter watches one node; it shares a queue with Curator and kazoo',
    weak: [
      {
        says: 'A crashed holder blocks for the session',
        more: ', not its ttl: 15 s by default. A shorter sessionTimeout frees it sooner.',
      },
      {
        says: 'Writes go to disk',
        more: ': a take and a release are two transactions of the whole ensemble.',
      },
      { says: 'Ensembles restored from a backup', more: ' give old tokens again.' },
    ],
    guard: 'guardMulti for what is in ZooKeeper; for SQL guardedUpdate of holdfast/guard',
    code: [
      "import { zookeeper } from 'holdfast/zookeeper'",
      '',
      "const locks = createLocks(zookeeper({ servers: 'HOST1:2181,HOST2:2181,HOST3:2181', OPTIONS }))",
    ],
    url: 'zookeeper://HOST1,HOST2,HOST3',
  },
  etcd: {
    strength: 'a majority decides, so the death of a server loses no lock; each waiter watches one key',
    weak: [
      {
        says: 'Leases count in whole seconds',
        more: ', and a cluster has a least ttl of its own: 2 s by default.',
      },
      {
        says: 'A new leader gives every lease its whole ttl again.',
        more: ' A crashed holder can block for twice its ttl.',
      },
      {
        says: 'A restored backup takes revisions, and so tokens, back',
        more: ', unless it is restored with --bump-revision.',
      },
    ],
    guard: 'guardTxn for what is in etcd; for SQL guardedUpdate of holdfast/guard',
    code: [
      "import { etcd } from 'holdfast/etcd'",
      '',
      "const locks = createLocks(etcd({ endpoints: ['HOST1:2379', 'HOST2:2379', 'HOST3:2379'], OPTIONS }))",
    ],
    url: 'etcd://HOST1,HOST2,HOST3',
  },
  consul: {
    strength:
      'a majority decides, so the death of a server loses no lock; each waiter has one blocking query',
    weak: [
      { says: 'A crashed holder blocks for up to 2.2 × its ttl', more: ', or 20 s where that is more.' },
      {
        says: 'Each name that is waited for in a process holds up to three queries, each with a connection, open',
        more: '. Agents take 200 connections from one address.',
      },
      { says: 'A restored snapshot takes indexes, and so tokens, back.', more: '' },
    ],
    guard: 'guardTxn for what is in Consul; for SQL guardedUpdate of holdfast/guard',
    code: [
      "import { consul } from 'holdfast/consul'",
      '',
      "const locks = createLocks(consul({ url: 'http://127.0.0.1:8500', OPTIONS }))",
    ],
    url: 'consul://127.0.0.1',
  },
}
