// --ca, --cert, --key and --insecure: the same as the settings of a URL, for every store across a network, but --insecure is no setting.
// Second tier because it starts every store with certificates.
// Long because each option is shown on the stores and beside each setting of a URL.
import assert from 'node:assert/strict'
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { commandLine } from '../../src/cli/command-line.js'
import { known, target } from '../../src/cli/connect.js'
import { CliError } from '../../src/cli/exit.js'
import { acceptsAnyCertificate } from '../../src/cli/tls.js'
import { withTlsOptions } from '../../src/cli/tls-options.js'
import { leakCheck } from '../support/leaks.js'
import { startEtcd } from '../support/servers/etcd.js'
import { startMysql } from '../support/servers/mysql.js'
import { checkout } from '../support/servers/places.js'
import { freePort } from '../support/servers/ports.js'
import { startRedis } from '../support/servers/redis.js'
import { bench } from './support/cli.js'

const file = (name: string) => join(checkout, 'test/support/tls', name)
const [cert, key, otherCert, otherKey] = ['cert.pem', 'key.pem', 'other-cert.pem', 'other-key.pem'].map(
  file,
) as [string, string, string, string]

const urls: Readonly<Record<string, string>> = {
  redis: 'redis://me:pw@h:1/2?prefix=a:',
  rediss: 'rediss://h',
  'redis+sentinel': 'redis+sentinel://h1,h2/main',
  'redis+cluster': 'redis+cluster://h1,h2',
  redlock: 'redlock://h1,h2,h3',
  etcd: 'etcd://me:pw@h1,h2?prefix=a/',
  zookeeper: 'zookeeper://me:pw@h1,h2/app',
  consul: 'consul://:token@h',
  postgres: 'postgres://me:pw@h/app?schema=s',
  postgresql: 'postgresql://h/app',
  mysql: 'mysql://me:pw@h/app',
}

test('every store across a network takes them', () => {
  assert.deepEqual(
    Object.keys(urls)
      .map((scheme) => `${scheme}:`)
      .sort(),
    known.filter((scheme) => scheme !== 'local:').sort(),
  )
  for (const url of Object.values(urls)) {
    const more = url.includes('?') ? '&' : '?'
    assert.equal(target(url, { ca: cert, cert, key }).url, `${url}${more}ca=${cert}&cert=${cert}&key=${key}`)
    assert.equal(target(url, { ca: otherCert }).url, `${url}${more}ca=${otherCert}`)
    const { tls, startsTls } = target(url, { ca: cert })
    assert.ok(tls !== undefined || startsTls === true, `${url} uses TLS`)
  }
})

test('a file is found from the working directory, whatever its name is', () => {
  const { folder, close } = bench()
  try {
    const odd = join(folder, 'a & b+c?=#%41.pem')
    copyFileSync(cert, odd)
    const { searchParams } = new URL(withTlsOptions('redis://h', { ca: odd }))
    assert.equal(searchParams.get('ca'), odd)
    assert.equal(
      new URL(withTlsOptions('redis://h', { ca: cert.replace(`${checkout}/`, '') })).searchParams.get('ca'),
      join(process.cwd(), cert.replace(`${checkout}/`, '')),
    )
  } finally {
    close()
  }
})

type Options = Parameters<typeof withTlsOptions>[1]
const refused: readonly [url: string, options: Options, complaint: RegExp][] = [
  ['redis://h', { ca: '/nowhere.pem' }, /^--ca \/nowhere\.pem cannot be read: ENOENT$/],
  ['redis://h', { ca: '' }, /^--ca is empty; it takes a file in PEM form$/],
  ['redis://h', { ca: file('.') }, /^--ca .* cannot be read: EISDIR$/],
  ['etcd://h', { cert }, /^--cert needs --key, the private key of that certificate$/],
  ['etcd://h', { key }, /^--key needs --cert, the certificate of that key$/],
  [
    'etcd://h',
    { cert, key: otherKey },
    /^--key .*\/other-key\.pem is not the key of --cert .*\/cert\.pem; give the two/,
  ],
  ['etcd://h', { cert: key, key: cert }, /^--cert .*\/key\.pem is not a certificate in PEM form$/],
  ['etcd://h', { cert, key: cert }, /^--key .* is not a private key without a passphrase in PEM form$/],
  [
    'etcd://h',
    { ca: join(checkout, 'package.json') },
    /^--ca .*package\.json is not a certificate in PEM form$/,
  ],
  ['etcd://h', { ca: cert, insecure: true }, /^--ca and --insecure exclude each other: /],
  ['mysql://me:s3cret@h/d?ca=x', { ca: cert }, /^the URL of the store has ca=, too; leave it out there, or/],
  ['consul://h?cert=a&key=b', { cert, key }, /^the URL of the store has cert=, too;/],
  ['consul://h?tls=false', { ca: cert }, /^the URL of the store has tls=false; leave it out there, or leave/],
  ['redis://h?tls=false', { insecure: true }, /^the URL of the store has tls=false; .*leave out --insecure$/],
  [
    'redis://h?ca=x',
    { insecure: true },
    /^--insecure accepts any certificate, but the URL of the store has ca=/,
  ],
  ['local:', { ca: cert }, /^--ca: local: needs no TLS, .* name a store across a network with --on$/],
  ['local:/tmp/x', { insecure: true }, /^--insecure: local: needs no TLS/],
]
for (const [url, options, complaint] of refused) {
  test(`${url} with ${JSON.stringify(options).replaceAll(checkout, '')} is refused before any I/O`, () => {
    assert.throws(
      () => target(url, options),
      (error) =>
        error instanceof CliError &&
        error.exitCode === 64 &&
        complaint.test(error.message) &&
        !error.message.includes('s3cret'),
      String(complaint),
    )
  })
}

const wrongFiles: readonly [query: string, complaint: RegExp][] = [
  [`ca=${key}`, /ca=\S*\/key\.pem is not a certificate in PEM form$/],
  [`ca=${file('.')}`, /ca=\S* cannot be read: EISDIR$/],
  [`cert=${key}&key=${key}`, /cert=\S*\/key\.pem is not a certificate in PEM form$/],
  [`cert=${cert}&key=${cert}`, /key=\S*\/cert\.pem is not a private key without a passphrase in PEM form$/],
  [
    `cert=${cert}&key=${otherKey}`,
    /key=\S*\/other-key\.pem is not the key of cert=\S*\/cert\.pem; give the two/,
  ],
]
test('files named in the URL are checked like those of the options', async () => {
  const { cli, close } = bench()
  try {
    for (const url of Object.values({ ...urls, redis: 'redis://h' })) {
      for (const [query, complaint] of wrongFiles) {
        const whole = `${url.replace('pw@', 's3cret@')}${url.includes('?') ? '&' : '?'}${query}`
        await assert.rejects(
          async () => void (await target(whole).connect()),
          (error) =>
            error instanceof CliError &&
            error.exitCode === 64 &&
            complaint.test(error.message) &&
            !error.message.includes('s3cret'),
          whole,
        )
      }
    }
    const { code, stderr } = await cli('ls', '--on', `etcd://h?cert=${cert}&key=${cert}`)
    assert.match(stderr, /^holdfast: key=\S* is not a private key without a passphrase in PEM form\n$/)
    assert.equal(code, 64)
  } finally {
    close()
  }
})

test('certificate and key may be in one file', () => {
  const { folder, close } = bench()
  try {
    for (const [i, parts] of [
      [cert, key],
      [key, cert],
    ].entries()) {
      const both = join(folder, `${i}.pem`)
      writeFileSync(both, parts.map((part) => readFileSync(part, 'utf8')).join(''))
      assert.ok(target(`etcd://h?ca=${both}&cert=${both}&key=${both}`).tls?.key)
    }
  } finally {
    close()
  }
})

test('every command that connects to a store has them; schema connects to none', () => {
  const missing = commandLine(undefined).commands.flatMap((command) => {
    const names = command.options.map(({ long }) => long)
    const all = ['--ca', '--cert', '--key', '--insecure'].every((name) => names.includes(name))
    return names.includes('--on') && !all ? [command.name()] : []
  })
  assert.deepEqual(missing, ['schema'])
})

test('--insecure is refused for a store without TLS, by every command', async () => {
  const { cli, script, close } = bench()
  try {
    for (const command of [
      ['ls'],
      ['run', 'x', '--', 'true'],
      ['doctor'],
      ['verify'],
      ['top', '--once'],
      ['ui'],
      ['demo'],
    ]) {
      const [name = '', ...rest] = command
      const { code, stdout, stderr } = await cli(name, '--insecure', '--on', 'redis://h', ...rest)
      assert.deepEqual([code, stdout], [64, ''], stderr)
      assert.match(
        stderr,
        /--insecure: 'redis:\/\/h' uses no TLS, so there is no certificate to accept; leave it out, or add \?tls=true to the URL\n$/,
      )
    }
    const unset = await script('holdfast ls --ca /nowhere.pem').ended
    assert.match(unset.stderr, /^holdfast: --ca: local: needs no TLS/)
    // Neither a URL nor a variable turns verification off.
    const inUrl = await cli('ls', '--on', 'etcd://h?tls=true&insecure=true')
    assert.match(inUrl.stderr, /unknown setting 'insecure'; known are/)
  } finally {
    close()
  }
})

const warning = /^holdfast: --insecure: the certificate of the store is not checked, .*\n$/

describe('an etcd that demands a certificate of its clients', () => {
  test('is used with --ca, --cert and --key, by every command; not without', async (t) => {
    await using server = await startEtcd({
      tls: { cert, key },
      args: ['--client-cert-auth', `--trusted-ca-file=${cert}`],
    })
    const { cli, script, folder, main, close } = bench()
    t.after(close)
    const on = ['--on', `etcd://127.0.0.1:${server.port}`]
    const own = ['--ca', cert, '--cert', cert, '--key', key]
    const run = await cli('run', 'x', ...on, ...own, '--', 'echo', 'ran')
    assert.deepEqual([run.code, run.stdout, run.stderr], [0, 'ran\n', ''])
    const text = [...on, ...own].join(' ')
    const lines = [
      `holdfast() { ${process.execPath} ${main} "$@"; }`,
      `token=$(holdfast hold y --for $$ ${text}) && holdfast ls --json ${text}`,
      `holdfast release y --token "$token" ${text}`,
    ]
    writeFileSync(join(folder, 'part.sh'), lines.join('\n'))
    const held = await script('setsid -w bash part.sh').ended
    assert.match(held.stdout, /"name":"y"/, held.stderr)
    assert.match(held.stdout, /released "y"\n$/)
    const doctor = await cli('doctor', ...on, ...own, '--json')
    assert.match(doctor.stdout, /"what":"encryption","found":"TLS"/, doctor.stderr)
    const without = await cli('run', 'x', '--wait', '3s', ...on, '--ca', cert, '--', 'echo', 'ran')
    assert.deepEqual([without.code, without.stdout], [69, ''], without.stderr)
    // Its own certificate is no proof of the server's.
    const stranger = await cli(
      'run',
      'x',
      '--wait',
      '3s',
      ...on,
      '--cert',
      cert,
      '--key',
      key,
      '--',
      'echo',
      'ran',
    )
    assert.deepEqual([stranger.code, stranger.stdout], [69, ''], stranger.stderr)
    const variables = `ETCDCTL_CACERT=${otherCert} ETCDCTL_CERT=${otherCert} ETCDCTL_KEY=${otherKey}`
    const env = await script(`${variables} holdfast run x ${text} -- echo ran`).ended
    assert.deepEqual([env.code, env.stdout, env.stderr], [0, 'ran\n', ''], 'options go before variables')
  })

  test('--insecure accepts any certificate, says so in one line, and goes on to the process that holds the lock', async (t) => {
    await using server = await startEtcd({ tls: { cert: otherCert, key: otherKey } })
    const { cli, script, close } = bench()
    t.after(close)
    const on = ['--insecure', '--on', `etcd://127.0.0.1:${server.port}?tls=true`]
    const run = await cli('run', 'x', ...on, '--', 'echo', 'ran')
    assert.deepEqual([run.code, run.stdout], [0, 'ran\n'], run.stderr)
    assert.match(run.stderr, warning)
    const quiet = await cli('run', 'x', '-q', ...on, '--', 'echo', 'ran')
    assert.deepEqual([quiet.code, quiet.stdout, quiet.stderr], [0, 'ran\n', ''])
    const ls = await cli('ls', ...on)
    assert.deepEqual([ls.code, ls.stdout], [0, 'no lock is held or waited for\n'])
    assert.match(ls.stderr, warning)
    const doctor = await cli('doctor', ...on)
    assert.match(doctor.stdout, /encryption: TLS, and --insecure\n.*the certificate was not checked/)
    const json = await cli('run', 'x', '--json', ...on, '--', 'true')
    assert.equal(json.stderr.split('\n')[0], '{"event":"insecure"}')
    const env = await script(
      `ETCDCTL_CACERT=${cert} ETCDCTL_ENDPOINTS=https://127.0.0.1:${server.port} holdfast run x -q --insecure --on etcd: -- echo ran`,
    ).ended
    assert.deepEqual([env.code, env.stdout, env.stderr], [0, 'ran\n', ''])
    const checked = await cli('ls', '--on', `etcd://127.0.0.1:${server.port}?tls=true`)
    assert.equal(checked.code, 69)
    assert.match(checked.stderr, /self[- ]signed certificate/)
  })
})

test('a Redis that demands a certificate of its clients', async (t) => {
  const port = await freePort()
  const args = ['--tls-port', `${port}`, '--tls-cert-file', cert, '--tls-key-file', key]
  const server = await startRedis({
    args: [...args, '--tls-ca-cert-file', cert, '--tls-auth-clients', 'yes'],
  })
  const { cli, close } = bench()
  t.after(async () => {
    close()
    await server.stop()
  })
  const on = ['--wait', '3s', '--on', `redis://127.0.0.1:${port}`]
  const run = await cli('run', 'x', ...on, '--ca', cert, '--cert', cert, '--key', key, '--', 'echo', 'ran')
  assert.deepEqual([run.code, run.stdout, run.stderr], [0, 'ran\n', ''])
  const without = await cli('run', 'x', ...on, '--ca', cert, '--', 'echo', 'ran')
  assert.deepEqual([without.code, without.stdout], [69, ''], without.stderr)
  const unchecked = await cli(
    'run',
    'x',
    ...on,
    '--insecure',
    '--cert',
    cert,
    '--key',
    key,
    '--',
    'echo',
    'ran',
  )
  assert.deepEqual([unchecked.code, unchecked.stdout], [0, 'ran\n'], unchecked.stderr)
  assert.match(unchecked.stderr, warning)
})

test('--insecure on a store that starts TLS after a greeting, at an address', async (t) => {
  const server = await startMysql({ args: [`--ssl-cert=${otherCert}`, `--ssl-key=${otherKey}`] })
  const { cli, close } = bench()
  t.after(async () => {
    close()
    await server.stop()
  })
  const on = `mysql://root@127.0.0.1:${server.port}/holdfast?tls=true`
  const run = await cli('run', 'x', '--insecure', '--on', on, '--', 'echo', 'ran')
  assert.deepEqual([run.code, run.stdout], [0, 'ran\n'], run.stderr)
  assert.match(run.stderr, warning)
})

after(() => assert.equal(acceptsAnyCertificate(), false, 'no refused option has turned verification off'))
after(leakCheck)
