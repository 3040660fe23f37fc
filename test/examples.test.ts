// Every example runs to its end. One that needs a server says so at its top: "Needs etcd at ETCD_URL."
// Second tier because it starts one server of each kind; site/start.test.ts runs those of the first page for every change.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { after, test } from 'node:test'
import { listFiles, read, root } from './support/checkout.js'
import { leakCheck } from './support/leaks.js'
import { startConsul } from './support/servers/consul.js'
import { startEtcd } from './support/servers/etcd.js'
import { startMysql } from './support/servers/mysql.js'
import { startPostgres } from './support/servers/postgres.js'
import { startRedis } from './support/servers/redis.js'
import { startZookeeper } from './support/servers/zookeeper.js'

const timeLimit = 180_000

// What stands in a folder of its own is no program by itself, and has a test of its own.
const examples = listFiles('examples', '.ts').filter((path) => path.split('/').length === 2)

test('there are examples', () => {
  assert.ok(examples.length > 0)
})

interface Served extends AsyncDisposable {
  readonly url: string
}

const servers: Readonly<Record<string, () => Promise<Served>>> = {
  'Redis at REDIS_URL': startRedis,
  'ZooKeeper at ZOOKEEPER_URL': async () => {
    const server = await startZookeeper()
    return { url: server.address, [Symbol.asyncDispose]: () => server.stop() }
  },
  'etcd at ETCD_URL': startEtcd,
  'Consul at CONSUL_URL': startConsul,
  'PostgreSQL at POSTGRES_URL': startPostgres,
  'MySQL or MariaDB at MYSQL_URL': () => startMysql({ flavour: 'mariadb' }),
}

for (const path of examples) {
  test(`${path} runs to its end`, async () => {
    const [, needed = ''] = /Needs (?:an? )?(.+ at \w+_URL)\b/.exec(read(path).slice(0, 600)) ?? []
    const start = servers[needed]
    assert.equal(start === undefined, needed === '', `nobody starts ${needed}`)
    await using server = await start?.()
    const variable = needed.split(' ').at(-1) ?? ''
    const { code, output } = await runExample(path, server === undefined ? {} : { [variable]: server.url })
    assert.equal(code, 0, output)
  })
}

async function runExample(
  path: string,
  env: Record<string, string>,
): Promise<{ code: number | null; output: string }> {
  // A home of its own: what an example locks on this machine must not meet what somebody else locks.
  const folder = mkdtempSync(join(tmpdir(), `holdfast-${basename(path, '.ts')}-`))
  try {
    const child = spawn(process.execPath, [join(root, 'build', path.replace(/\.ts$/, '.js'))], {
      cwd: folder,
      env: { ...process.env, TMPDIR: folder, HOLDFAST_DIR: join(folder, 'holdfast'), ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: timeLimit,
      killSignal: 'SIGKILL',
    })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk))
    const [code, signal] = await once(child, 'close')
    return { code, output: signal ? `${output}\nkilled by ${signal} after ${timeLimit} ms` : output }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

after(leakCheck)
