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
  [
    'postgres:///d',
    { PGHOST: '/var/run/postgresql' },
    /^PGHOST=\/var\/run\/postgresql is not a host that .* no sockets of this machine; give a name/,
  ],
  ['postgres:///d', { PGHOST: 'a,b' }, /^PGHOST=a,b is not a host that .*: it takes one name or address/],
  ['postgres:///d', { PGHOST: 'h:5' }, /^PGHOST=h:5 is not a host that .*; the port goes into PGPORT$/],
  ['postgres:///d', { PGHOST: '[::1]' }, /^PGHOST=\[::1\] is not a host that .*without brackets$/],
  ['postgres:///d', { PGHOST: 'u:s3cret@h' }, /^(?!.*s3cret)PGHOST is not a host that/],
  ['postgres:///d', { PGHOST: 'fe80::1%eth0' }, /^PGHOST=fe80::1%eth0 is not .* no IPv6 address with a zone/],
  ['postgres://h/d', { PGPORT: 'x' }, /^PGPORT=x is not the number of a port; give a whole number from 1 to/],
  ['postgres://h/d', { PGPORT: '99999' }, /^PGPORT=99999 is not the number of a port/],
  ['postgres://h/d', { PGPORT: '0' }, /^PGPORT=0 is not the number of a port/],
  ['postgres://h/d', { PGPORT: ' 5432' }, /^PGPORT= 5432 is not the number of a port/],
  ['postgres://h/d', { PGSSLMODE: 'verify' }, /^PGSSLMODE=verify is none that PostgreSQL knows/],
  [
    'postgres://h/d',
    { PGSSLMODE: 'require', PGSSLCERT: 'c.pem' },
    /^PGSSLCERT=c\.pem is set without PGSSLKEY; .*: set PGSSLKEY, or unset PGSSLCERT$/,
  ],
  ['mysql:///d', { MYSQL_HOST: 'h:1' }, /^MYSQL_HOST=h:1 is not .*; the port goes into MYSQL_TCP_PORT$/],
  ['mysql:///d', { MYSQL_HOST: 'h', MYSQL_TCP_PORT: '0' }, /^MYSQL_TCP_PORT=0 is not the number of a port/],
  [
    'etcd:',
    { ETCDCTL_ENDPOINTS: 'http://a,https://b' },
    /^ETCDCTL_ENDPOINTS=http:\/\/a,https:\/\/b cannot be read: .*all with http/,
  ],
  ['etcd:', { ETCDCTL_ENDPOINTS: 'a:1,' }, /^ETCDCTL_ENDPOINTS=a:1, cannot be read/],
  ['etcd:', { ETCDCTL_ENDPOINTS: 'a:0' }, /^ETCDCTL_ENDPOINTS=a:0 cannot be read: it has a port that is not/],
  ['etcd:', { ETCDCTL_ENDPOINTS: 'http://u:s3cret@a' }, /^(?!.*s3cret)ETCDCTL_ENDPOINTS cannot be read/],
  ['etcd://h', { ETCDCTL_CERT: 'c' }, /^ETCDCTL_CERT=c is set without ETCDCTL_KEY/],
  [
    'consul:',
    { CONSUL_HTTP_ADDR: 'unix:///run/consul.sock' },
    /^CONSUL_HTTP_ADDR=unix:\/\/\/run\/consul\.sock cannot be read/,
  ],
  [
    'consul:',
    { CONSUL_HTTP_ADDR: '::1' },
    /^CONSUL_HTTP_ADDR=::1 cannot be read: it has an IPv6 address without brackets; write \[address\]/,
  ],
  [
    'consul:',
    { CONSUL_HTTP_ADDR: '[fe80::1%eth0]:8500' },
    /^CONSUL_HTTP_ADDR=\[fe80::1%eth0\]:8500 cannot be read: it has an IPv6 address with a zone/,
  ],
  ['consul:', { CONSUL_HTTP_ADDR: 'h:99999' }, /^CONSUL_HTTP_ADDR=h:99999 cannot be read: it has a port/],
]
for (const [url, env, complaint] of refused) {
  test(`${url} with ${JSON.stringify(env)} is refused`, () => {
    assert.throws(
      () => withToolsEnvironment(url, env),
      (error) => error instanceof CliError && error.exitCode === 64 && complaint.test(error.message),
    )
  })
}

/** What is found where it is used: each with a command that would otherwise reach a server that is not there, and end with 69. */
const commands: readonly [on: string, env: Env, complaint: RegExp][] = [
  ['consul://127.0.0.1:1', { CONSUL_HTTP_SSL: 'yes' }, /^CONSUL_HTTP_SSL=yes is neither true nor false/],
  [
    'consul://127.0.0.1:1',
    { CONSUL_HTTP_TOKEN: 's3cret\n' },
    /^CONSUL_HTTP_TOKEN has a character that no token/,
  ],
  ['consul://127.0.0.1:1', { CONSUL_HTTP_TOKEN_FILE: 'empty' }, /^CONSUL_HTTP_TOKEN_FILE=empty has no token/],
  [
    'consul://127.0.0.1:1',
    { CONSUL_HTTP_TOKEN_FILE: 'none' },
    /^CONSUL_HTTP_TOKEN_FILE=none cannot be read: ENOENT/,
  ],
  [
    'consul://127.0.0.1:1',
    { CONSUL_HTTP_SSL: 'true', CONSUL_CACERT: 'none' },
    /^CONSUL_CACERT=none cannot be read: ENOENT/,
  ],
  [
    'consul://127.0.0.1:1',
    { CONSUL_HTTP_SSL: '1', CONSUL_CLIENT_CERT: 'c' },
    /^CONSUL_CLIENT_CERT=c is set without CONSUL_CLIENT_KEY/,
  ],
  [
    'etcd://127.0.0.1:1',
    { ETCDCTL_USER: 'root' },
    /^ETCDCTL_USER=root has no password; write user:password, or/,
  ],
  ['etcd://127.0.0.1:1', { ETCDCTL_USER: ':s3cret' }, /^ETCDCTL_USER has no user before the colon/],
  [
    'etcd://127.0.0.1:1',
    { ETCDCTL_CACERT: 'empty' },
    /^ETCDCTL_CACERT=empty is not a certificate in PEM form/,
  ],
  [
    'postgres://127.0.0.1:1/d',
    { PGSSLMODE: 'verify-full', PGSSLROOTCERT: 'none' },
    /^PGSSLROOTCERT=none cannot be read: ENOENT/,
  ],
]
test('a variable that cannot be used is named, with its value but no secret, before anything is sent', async () => {
  const { script, close } = bench('local:')
  try {
    for (const [on, env, complaint] of commands) {
      const { code, stdout, stderr } = await script(`> empty; holdfast ls --on '${on}'`, env).ended
      assert.deepEqual([code, stdout], [64, ''], stderr)
      assert.match(stderr.replace(/^holdfast: /, ''), complaint)
      assert.doesNotMatch(stderr, /s3cret/)
    }
    // What is not used is not judged: the URL decides, or --insecure.
    for (const [command, env] of [
      ["ls --on 'consul://127.0.0.1:1?tls=false'", { CONSUL_HTTP_SSL: 'true', CONSUL_CACERT: 'none' }],
      ["ls --insecure --on 'etcd://127.0.0.1:1?tls=true'", { ETCDCTL_CACERT: 'none' }],
      ["ls --on 'postgres://127.0.0.1:1/d'", { PGPORT: '0', PGHOST: 'h:5', PGSSLROOTCERT: 'none' }],
    ] as const) {
      const { code, stderr } = await script(`holdfast ${command}`, env).ended
      assert.equal(code, 69, stderr)
    }
  } finally {
    close()
  }
})

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
  assert.match(
    wrong.stderr,
    /^(?!.*wr0ng).*WRONGPASS.*; it is that of the variable REDISCLI_AUTH; correct it/,
  )
  // What the URL says goes first.
  const own = await script(run.replace('redis://', 'redis://:s3cret@'), { REDISCLI_AUTH: 'wr0ng' }).ended
  assert.deepEqual([own.code, own.stdout, own.stderr], [0, 'ran\n', ''])
})

after(leakCheck)
