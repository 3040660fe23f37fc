// The schemes of store URLs and values that each setting takes. `urls.ts` compares them with what the command line accepts.

export interface Setting {
  /** Values that are accepted; `FILE`: the path of a PEM file. */
  readonly values: readonly string[]
  /** They are examples. */
  readonly like?: boolean
  /** An option of the driver by another name, or what it means where no option does it. */
  readonly option?: string
  readonly meaning?: string
}

const flag = ['true', 'false']
const file = ['FILE']

export const tls: Readonly<Record<string, Setting>> = {
  tls: { values: flag, meaning: 'TLS from the first byte.' },
  ca: {
    values: file,
    meaning: 'PEM file of the trusted authorities. Default: those that Node trusts. Implies TLS.',
  },
  cert: { values: file, meaning: 'PEM file of the certificate of the client; with `key`. Implies TLS.' },
  key: { values: file, meaning: 'PEM file of its key; with `cert`.' },
}

const redisSettings: Readonly<Record<string, Setting>> = {
  prefix: { values: ['hf:'], like: true },
  replicas: { values: ['1'], like: true },
  quarantine: { values: ['strict', 'detected', 'off'] },
  maxTtl: { values: ['60000'], like: true },
}

export interface Scheme {
  readonly title: string
  /** The file whose header describes the form; empty: there is none. */
  readonly source: string
  /** Where there is no such file. */
  readonly form?: string
  readonly example: string
  readonly options: readonly [specifier: string, name: string] | undefined
  readonly settings: Readonly<Record<string, Setting>>
  readonly schemes: readonly string[]
}

const redisOptions = ['holdfast/redis', 'RedisOptions'] as const

export const all: readonly Scheme[] = [
  {
    title: 'local',
    source: '',
    form: 'local:[directory]',
    example: 'local:/run/locks',
    options: undefined,
    settings: {},
    schemes: ['local:'],
  },
  {
    title: 'Redis, Sentinels, Cluster',
    source: 'redis-place.ts',
    example: 'redis://h1',
    options: redisOptions,
    settings: redisSettings,
    schemes: ['redis:', 'rediss:', 'redis+sentinel:', 'redis+cluster:'],
  },
  {
    title: 'Redlock',
    source: 'redis-place.ts',
    example: 'redlock://h1,h2,h3',
    options: ['holdfast/redlock', 'RedlockOptions'],
    settings: {
      prefix: { values: ['hf:'], like: true },
      maxTtl: { values: ['60000'], like: true },
    },
    schemes: ['redlock:'],
  },
  {
    title: 'PostgreSQL',
    source: 'connect-postgres.ts',
    example: 'postgres://app@h1/shop',
    options: ['holdfast/postgres', 'PostgresOptions'],
    settings: {
      strategy: { values: ['row', 'session'] },
      schema: { values: ['public'], like: true },
      create: { values: flag },
      listen: { values: ['false'] },
    },
    schemes: ['postgres:', 'postgresql:'],
  },
  {
    title: 'MySQL and MariaDB',
    source: 'connect-mysql.ts',
    example: 'mysql://app@h1/shop',
    options: ['holdfast/mysql', 'MysqlOptions'],
    settings: {
      strategy: { values: ['row', 'session'] },
      wakeWithGetLock: { values: flag },
      prefix: { values: ['holdfast_'], like: true },
      create: { values: flag },
    },
    schemes: ['mysql:'],
  },
  {
    title: 'etcd',
    source: 'connect-etcd.ts',
    example: 'etcd://h1,h2,h3',
    options: ['holdfast/etcd', 'EtcdOptions'],
    settings: { prefix: { values: ['holdfast/'], like: true }, grpc: { values: flag } },
    schemes: ['etcd:'],
  },
  {
    title: 'ZooKeeper',
    source: 'connect-zookeeper.ts',
    example: 'zookeeper://user:password@h1,h2,h3',
    options: ['holdfast/zookeeper', 'ZookeeperOptions'],
    settings: {
      strategy: { values: ['line', 'simple'] },
      names: { values: ['curator', 'kazoo'] },
      sessionTimeout: { values: ['10000'], like: true },
      tickTime: { values: ['2000'], like: true },
      acl: { values: ['open', 'creator'] },
    },
    schemes: ['zookeeper:'],
  },
  {
    title: 'Consul',
    source: 'connect-consul.ts',
    example: 'consul://h1',
    options: ['holdfast/consul', 'ConsulOptions'],
    settings: {
      prefix: { values: ['holdfast/'], like: true },
      datacenter: { values: ['dc1'], like: true },
      'min-ttl': { values: ['10s'], like: true, option: 'minTtl' },
    },
    schemes: ['consul:'],
  },
]
