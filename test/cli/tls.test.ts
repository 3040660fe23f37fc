// TLS to every kind of store a URL can name: the server's certificate is trusted only if a named authority signed it, and only
// for the host that was asked for.
// Long because each kind of store is started with TLS in a way of its own.
// Second tier because it starts every kind of server with certificates.
import assert from 'node:assert/strict'
import { chmodSync, copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { startConsul } from '../support/servers/consul.js'
import { startEtcd } from '../support/servers/etcd.js'
import { startMysql } from '../support/servers/mysql.js'
import { freePort } from '../support/servers/ports.js'
import { startPostgres } from '../support/servers/postgres.js'
import { startRedis } from '../support/servers/redis.js'
import { certificates, startTlsCluster, startTlsSentinel, tlsArgs } from '../support/servers/redis-tls.js'
import { handOver } from '../support/servers/unprivileged.js'
import { startZookeeper } from '../support/servers/zookeeper.js'
import { type Bench, bench } from './support/cli.js'

type Which = keyof typeof certificates

interface Started {
  /** Without a query. */
  readonly url: string
  /** More of the query. */
  readonly more?: string
  readonly stop: () => Promise<unknown>
}

async function redis(which: Which): Promise<Started> {
  const port = await freePort()
  const server = await startRedis({ args: tlsArgs(certificates[which], port) })
  return { url: `redis://127.0.0.1:${port}`, stop: () => server.stop() }
}

async function redlock(which: Which): Promise<Started> {
  const three = await Promise.all([redis(which), redis(which), redis(which)])
  const url = `redlock://${three.map(({ url }) => url.replace('redis://', '')).join(',')}`
  return { url, stop: () => Promise.all(three.map(({ stop }) => stop())) }
}

async function cluster(which: Which): Promise<Started> {
  const { port, stop } = await startTlsCluster(certificates[which])
  // A node that has just started is doubted; what it may have forgotten runs out soon.
  return { url: `redis+cluster://127.0.0.1:${port}`, more: '&quarantine=off', stop }
}

async function sentinel(which: Which): Promise<Started> {
  const { name, port, stop } = await startTlsSentinel(certificates[which])
  return { url: `redis+sentinel://127.0.0.1:${port}/${name}`, stop }
}

/** A folder whose owner the server is: it takes no key of another's. */
function keysFor(which: Which): { readonly cert: string; readonly key: string; readonly remove: () => void } {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-tls-'))
  chmodSync(folder, 0o755)
  const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]
  copyFileSync(certificates[which].cert, cert)
  copyFileSync(certificates[which].key, key)
  chmodSync(key, 0o600)
  handOver(key)
  return { cert, key, remove: () => rmSync(folder, { recursive: true }) }
}

async function postgres(which: Which): Promise<Started> {
  const { cert, key, remove } = keysFor(which)
  const server = await startPostgres({ settings: { ssl: 'on', ssl_cert_file: cert, ssl_key_file: key } })
  const stop = () => server.stop().then(remove)
  return { url: `postgres://postgres@127.0.0.1:${server.port}/postgres`, stop }
}

async function mysql(which: Which): Promise<Started> {
  const { cert, key } = certificates[which]
  const server = await startMysql({ args: [`--ssl-cert=${cert}`, `--ssl-key=${key}`] })
  return { url: `mysql://root@localhost:${server.port}/holdfast`, stop: () => server.stop() }
}

async function etcd(which: Which): Promise<Started> {
  const server = await startEtcd({ tls: certificates[which] })
  return { url: `etcd://127.0.0.1:${server.port}`, stop: () => server.stop() }
}

async function consul(which: Which): Promise<Started> {
  const port = await freePort()
  const { cert, key } = certificates[which]
  const config = `ports { https = ${port} }\ncert_file = "${cert}"\nkey_file = "${key}"\nca_file = "${cert}"`
  const server = await startConsul({ ttlMin: '10s', config })
  return { url: `consul://127.0.0.1:${port}`, stop: () => server.stop() }
}

async function zookeeper(which: Which): Promise<Started> {
  const { cert, key, remove } = keysFor(which)
  const both = `${key}.both`
  writeFileSync(both, Buffer.concat([readFileSync(key), readFileSync(cert)]))
  const server = await startZookeeper({ tls: both })
  const stop = () => server.stop().then(remove)
  return { url: `zookeeper://${server.secureAddress}`, stop }
}

const kinds = {
  redis,
  redlock,
  'redis+cluster': cluster,
  'redis+sentinel': sentinel,
  postgres,
  mysql,
  etcd,
  consul,
  zookeeper,
}

const run = (on: string, query: string) => [
  'run',
  'x',
  '--wait',
  '5s',
  '--on',
  `${on}?${query}`,
  '--',
  'echo',
  'hello',
]

for (const [name, start] of Object.entries(kinds)) {
  describe(name, () => {
    let [right, other]: (Started | undefined)[] = []
    let at: Bench
    before(async () => {
      at = bench()
      ;[right, other] = [await start('right'), await start('other')]
    })
    after(async () => {
      at.close()
      await right?.stop()
      await other?.stop()
    })
    test('a certificate of an authority that was named, for this host, is believed', async () => {
      const { code, stdout, stderr } = await at.cli(
        ...run(right?.url ?? '', `ca=${certificates.right.cert}${right?.more ?? ''}`),
      )
      // On a loaded machine the first answer may take more than the second after which a run says that it waits.
      const said = stderr.replace(/^holdfast: waiting \d+s for "x".*\n/, '')
      assert.deepEqual([code, stdout, said], [0, 'hello\n', ''])
    })
    test('one of an unknown authority is not', async () => {
      const { code, stdout, stderr } = await at.cli(...run(right?.url ?? '', 'tls=true'))
      assert.deepEqual([code, stdout], [69, ''], stderr)
      assert.match(stderr, /self[- ]signed certificate/i)
    })
    test('nor is one for another host', async () => {
      const { code, stdout, stderr } = await at.cli(...run(other?.url ?? '', `ca=${certificates.other.cert}`))
      assert.deepEqual([code, stdout], [69, ''], stderr)
      assert.match(stderr, /does not match certificate's altnames/)
    })
  })
}

test('TLS to an address is refused where the client could not compare it with the certificate', async () => {
  const at = bench()
  const { code, stderr } = await at.cli('ls', '--on', 'mysql://root@127.0.0.1:1/d?tls=true')
  assert.equal(code, 64)
  assert.match(
    stderr,
    /mysql2 cannot compare a certificate with the address 127\.0\.0\.1; name the host to use TLS/,
  )
  at.close()
})

after(leakCheck)
