/** The servers that scenes share: each is started when the first scene needs it, and stopped at the end. Redis scenes break theirs, and have their own. */
import { type ConsulServer, startConsul } from '../../test/support/servers/consul.js'
import { type EtcdServer, startEtcd } from '../../test/support/servers/etcd.js'
import { type MysqlServer, startMysql } from '../../test/support/servers/mysql.js'
import { type PostgresServer, startPostgres } from '../../test/support/servers/postgres.js'
import {
  type Ensemble,
  startEnsemble,
  startZookeeper,
  type ZookeeperServer,
} from '../../test/support/servers/zookeeper.js'

/** What has to be fetched for each, as `scripts/servers/fetch.sh` calls it. */
export const recipes = {
  redis: ['redis7'],
  zookeeper: ['java17', 'zookeeper'],
  etcd: ['etcd35'],
  consul: ['consul'],
  mariadb: ['mariadb10'],
  postgres: ['postgres15'],
} as const

export type Store = keyof typeof recipes

export class Servers implements AsyncDisposable {
  readonly #started = new Map<string, Promise<AsyncDisposable>>()
  #turn: Promise<unknown> = Promise.resolve()

  zookeeper(): Promise<ZookeeperServer> {
    return this.#once('zookeeper', () => startZookeeper())
  }

  /** Three servers. */
  ensemble(): Promise<Ensemble> {
    return this.#once('ensemble', () => startEnsemble())
  }

  etcd(): Promise<EtcdServer> {
    return this.#once('etcd', () => startEtcd())
  }

  consul(): Promise<ConsulServer> {
    return this.#once('consul', () => startConsul())
  }

  mariadb(): Promise<MysqlServer> {
    return this.#once('mariadb', () => startMysql({ flavour: 'mariadb' }))
  }

  postgres(): Promise<PostgresServer> {
    return this.#once('postgres', () => startPostgres())
  }

  /** Exclusive use of a shared server, for a scene that breaks and repairs it. */
  inTurn<R>(work: () => Promise<R>): Promise<R> {
    const mine = this.#turn.then(work)
    this.#turn = mine.catch(() => undefined)
    return mine
  }

  #once<S extends AsyncDisposable>(name: string, start: () => Promise<S>): Promise<S> {
    const known = this.#started.get(name) ?? start()
    this.#started.set(name, known)
    return known as Promise<S>
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const all = await Promise.allSettled(this.#started.values())
    this.#started.clear()
    for (const one of all) if (one.status === 'fulfilled') await one.value[Symbol.asyncDispose]()
  }
}
