// PostgreSQL URLs: parsed, and used against a real server; and the schema that is printed for them.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createLocks } from 'holdfast'
import { target } from '../../src/cli/connect.js'
import { parsePostgresAddress } from '../../src/cli/connect-postgres.js'
import { CliError } from '../../src/cli/exit.js'
import { leakCheck } from '../support/leaks.js'
import { startPostgres } from '../support/servers/postgres.js'
import { bench } from './support/cli.js'

const place = (url: string) => parsePostgresAddress(url.slice(url.indexOf(':') + 1), url)

test('a URL says host, port, login, database and settings', () => {
  const url =
    'postgres://me:p%40ss:word@db.example:5433/shop?strategy=session&schema=app&create=false&tls=true'
  assert.deepEqual(place(url), {
    ...{ host: 'db.example', port: 5433, user: 'me', password: 'p@ss:word', database: 'shop', tls: {} },
    options: { strategy: 'session', schema: 'app', create: false },
  })
  const { host, port, user, database, options } = place('postgresql://[::1]/a%20b?listen=false')
  assert.deepEqual([host, port, user, database, options], ['::1', 5432, 'postgres', 'a b', { listen: false }])
})

const bad: readonly [url: string, complaint: RegExp][] = [
  ['postgres:', /names no host; write postgres:\/\/user@host:5432\/database/],
  ['postgres://h:port/d', /has a host that cannot be read/],
  ['postgres://h:99999/d', /has a port that is not from 1 to 65535; write host, host:port/],
  ['postgres://h', /names no database/],
  ['postgres://h/50%', /has a % that is not/],
  [
    'postgres://h/d?ttl=5',
    /unknown setting 'ttl'; known are strategy, schema, create, listen, tls, ca, cert, key/,
  ],
  ['postgres://h/d?strategy=transaction', /has strategy=transaction; it is row or session$/],
  ['postgres://h/d?schema=a;b', /has schema=a;b/],
  ['postgres://h/d?schema=a&schema=b', /has schema twice; give it once$/],
  ['postgres://h/d?listen=true', /has listen=true; it is false$/],
]
for (const [url, complaint] of bad) {
  test(`--on ${url} is refused before any I/O`, () => {
    assert.throws(
      () => target(url),
      (error) => error instanceof CliError && error.exitCode === 64 && complaint.test(error.message),
    )
  })
}

test('a URL gives locks on a real server, with the least rights the printed schema grants', async (context) => {
  await using server = await startPostgres()
  const at = bench()
  context.after(() => at.close())
  await server.sql('create role app login')
  const on = `postgres://app@127.0.0.1:${server.port}/postgres?schema=hold&create=false`
  const refused = await at.cli('ls', '--on', on)
  assert.equal(refused.code, 69)
  assert.match(refused.stderr, /schema is missing; run what `holdfast schema` prints/)
  const printed = await at.cli('schema', '--on', on, '--role', 'app')
  assert.equal(printed.code, 0)
  await server.sql(printed.stdout)
  // Again changes nothing.
  await server.sql(printed.stdout)
  for (const strategy of ['row', 'session']) {
    const connection = await target(`${on}&strategy=${strategy}`).connect()
    const locks = createLocks(connection.driver)
    const name = `from the command line, ${strategy}`
    const lease = await locks.mutex(name).acquire()
    const waiting = locks.mutex(name).run(({ token }) => token)
    assert.equal((await locks.list('from')).length, 1)
    await lease.release()
    assert.ok((await waiting) > lease.token)
    await locks.close()
    await connection.close()
  }
  await assert.rejects(server.sql('set role app; create table hold.more (x int)'), /permission denied/)
})

test('schema is printed for databases alone', async (context) => {
  const at = bench()
  context.after(() => at.close())
  const mysql = await at.cli('schema', '--on', 'mysql://h/d?prefix=app_', '--role', 'app')
  assert.equal(mysql.code, 0)
  assert.match(mysql.stdout, /app_locks/)
  assert.match(mysql.stdout, /GRANT SELECT, INSERT, UPDATE, DELETE/)
  const local = await at.cli('schema', '--on', 'local:')
  assert.equal(local.code, 64)
  assert.match(local.stderr, /needs no schema/)
})

after(leakCheck)
