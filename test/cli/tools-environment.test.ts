// Parts that a URL omits come from the environment of the store's own tools.
// Second tier because it starts one server of each kind.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { CliError } from '../../src/cli/exit.js'
import { withToolsEnvironment } from '../../src/cli/tools-environment.js'
import { leakCheck } from '../support/leaks.js'
import { startRedis } from '../support/servers/redis.js'
import { bench } from './support/cli.js'
import { stores } from './support/stores.js'

type Env = Record<string, string>
const pg = { PGHOST: 'db', PGPORT: '5433', PGUSER: 'me@home', PGDATABASE: 'app' }

const filled: readonly [url: string, env: Env, whole: string][] = [
  ['postgres:', pg, 'postgres://me%40home@db:5433/app'],
  ['postgresql:///other', pg, 'postgresql://me%40home@db:5433/other'],
  ['postgres://you:pw@h:1/d?schema=s', pg, 'postgres://you:pw@h:1/d?schema=s'],
  ['postgres://h', pg, 'postgres://me%40home@h:5433/app'],
  ['postgres://[::1]/d', { PGPORT: '5433' }, 'postgres://[::1]:5433/d'],
  ['postgres:', { PGHOST: '::1', PGDATABASE: 'a/b' }, 'postgres://[::1]/a%2Fb'],
  ['postgres://h/d', { PGSSLMODE: 'prefer' }, 'postgres://h/d'],
  [
    'postgres://h/d',
    { PGSSLMODE: 'verify-full', PGSSLROOTCERT: '/ca&.pem' },
    'postgres://h/d?tls=true&ca=%2Fca%26.pem',
  ],
  ['postgres://h/d?schema=s', { PGSSLMODE: 'require' }, 'postgres://h/d?schema=s&tls=true'],
  ['postgres://h/d?tls=false', { PGSSLMODE: 'require' }, 'postgres://h/d?tls=false'],
  ['postgres:', {}, 'postgres:'],
  ['mysql:///app', { MYSQL_HOST: 'db', MYSQL_TCP_PORT: '3307' }, 'mysql://db:3307/app'],
  ['etcd:', { ETCDCTL_ENDPOINTS: 'http://a:1,http://b:2/' }, 'etcd://a:1,b:2'],
  ['etcd:', { ETCDCTL_ENDPOINTS: 'https://a:1', ETCDCTL_CACERT: 'ca.pem' }, 'etcd://a:1?tls=true&ca=ca.pem'],
  ['etcd:?prefix=x', { ETCDCTL_ENDPOINTS: 'a:1' }, 'etcd://a:1?prefix=x'],
  [
    'etcd://h',
    { ETCDCTL_CACERT: 'ca', ETCDCTL_CERT: 'c', ETCDCTL_KEY: 'k' },
    'etcd://h?tls=true&ca=ca&cert=c&key=k',
  ],
  ['etcd:', { ETCDCTL_ENDPOINTS: 'http://a:1', ETCDCTL_CACERT: 'ca' }, 'etcd://a:1?tls=false'],
  ['consul:', { CONSUL_HTTP_ADDR: 'a:8501' }, 'consul://a:8501'],
  ['consul:', { CONSUL_HTTP_ADDR: 'https://a', CONSUL_CACERT: 'ca' }, 'consul://a?tls=true&ca=ca'],
  ['consul://b', { CONSUL_HTTP_ADDR: 'https://a' }, 'consul://b'],
  ['redis:', { ...pg, CONSUL_HTTP_ADDR: 'a' }, 'redis:'],
  ['constructor:', pg, 'constructor:'],
]
for (const [url, env, whole] of filled) {
  test(`${url} with ${JSON.stringify(env)} is ${whole}`, () => {
    assert.equal(withToolsEnvironment(url, env), whole)
    assert.equal(withToolsEnvironment(whole, env), whole, 'it is whole')
  })
}

const refused: readonly [url: string, env: Env, complaint: RegExp][] = [
  ['postgres:///d', { PGHOST: '/var/run/postgresql' }, /^PGHOST=\/var\/run\/postgresql is not a host that/],
  ['postgres:///d', { PGHOST: 'a,b' }, /^PGHOST=a,b is not a host that/],
  ['postgres://h/d', { PGPORT: 'x' }, /^PGPORT=x is not the number of a port/],
  ['postgres://h/d', { PGSSLMODE: 'verify' }, /^PGSSLMODE=verify is none that PostgreSQL knows/],
  [
    'etcd:',
    { ETCDCTL_ENDPOINTS: 'http://a,https://b' },
    /^ETCDCTL_ENDPOINTS cannot be read; .*all with http/,
  ],
  ['consul:', { CONSUL_HTTP_ADDR: 'unix:///run/consul.sock' }, /^CONSUL_HTTP_ADDR cannot be read/],
  ['etcd:', { ETCDCTL_ENDPOINTS: 'http://u:s3cret@a' }, /^(?!.*s3cret)ETCDCTL_ENDPOINTS cannot be read/],
]
for (const [url, env, complaint] of refused) {
  test(`${url} with ${JSON.stringify(env)} is refused`, () => {
    assert.throws(
      () => withToolsEnvironment(url, env),
      (error) => error instanceof CliError && error.exitCode === 64 && complaint.test(error.message),
    )
  })
}

const environments = {
  postgres: ({ hostname, port, username, password, pathname }: URL) => ({
    ...{ PGHOST: hostname, PGPORT: port, PGUSER: username, PGPASSWORD: password },
    PGDATABASE: pathname.slice(1),
  }),
  mysql: ({ hostname, port, password }: URL) => ({
    ...{ MYSQL_HOST: hostname, MYSQL_TCP_PORT: port, MYSQL_PWD: password },
  }),
  etcd: ({ host, username, password }: URL) => ({
    ...{ ETCDCTL_ENDPOINTS: `http://${host}`, ETCDCTL_USER: `${username}:${password}` },
  }),
  consul: ({ host, password }: URL) => ({ CONSUL_HTTP_ADDR: `http://${host}`, CONSUL_HTTP_TOKEN: password }),
} as const

describe('a run on a real server that only the environment names', () => {
  for (const [name, environment] of Object.entries(environments)) {
    test(name, async () => {
      const store = await stores[name as keyof typeof environments]()
      const { script, close } = bench('local:')
      try {
        const url = new URL(store.url)
        const on = name === 'mysql' ? `mysql://${url.username}@${url.pathname}` : `${name}:`
        const env = environment(url)
        const { code, stdout, stderr } = await script(`holdfast run x --on '${on}' -- echo ran`, env).ended
        assert.deepEqual([code, stdout, stderr], [0, 'ran\n', ''])
        const nobody = Object.fromEntries(Object.keys(env).map((key) => [key, undefined]))
        const without = await script(`holdfast run x --on '${on}' -- echo ran`, nobody).ended
        assert.equal(without.code, 64)
        assert.match(without.stderr, /names no host|cannot be read/)
      } finally {
        close()
        await store.stop()
      }
    })
  }
})

test('a run on a Redis with a password that only REDISCLI_AUTH has', async (t) => {
  const server = await startRedis()
  await server.cli('CONFIG', 'SET', 'requirepass', 's3cret')
  const { script, close } = bench('local:')
  t.after(async () => {
    close()
    await server.stop()
  })
  const run = `holdfast run x --no-wait --on redis://127.0.0.1:${server.port} -- echo ran`
  const { code, stdout, stderr } = await script(run, { REDISCLI_AUTH: 's3cret' }).ended
  assert.deepEqual([code, stdout, stderr], [0, 'ran\n', ''])
  const nobody = await script(run, { REDISCLI_AUTH: undefined }).ended
  assert.deepEqual([nobody.code, nobody.stdout], [69, ''])
  assert.match(nobody.stderr, /NOAUTH/)
  const wrong = await script(run, { REDISCLI_AUTH: 'wr0ng' }).ended
  assert.deepEqual([wrong.code, wrong.stdout], [69, ''])
  assert.match(wrong.stderr, /^(?!.*wr0ng).*WRONGPASS/)
  // What the URL says goes first.
  const own = await script(run.replace('redis://', 'redis://:s3cret@'), { REDISCLI_AUTH: 'wr0ng' }).ended
  assert.deepEqual([own.code, own.stdout, own.stderr], [0, 'ran\n', ''])
})

after(leakCheck)
