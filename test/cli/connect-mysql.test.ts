// MySQL URLs: parsed, and used against a real server.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createLocks } from 'holdfast'
import { target } from '../../src/cli/connect.js'
import { connectMysql, parseMysqlAddress } from '../../src/cli/connect-mysql.js'
import { CliError } from '../../src/cli/exit.js'
import { leakCheck } from '../support/leaks.js'
import { startMysql } from '../support/servers/mysql.js'

const place = (url: string) => parseMysqlAddress(url.slice('mysql:'.length), url)

test('a URL says host, port, login, database and settings', () => {
  assert.deepEqual(
    place('mysql://me:p%40ss:word@db.example:3307/shop?strategy=session&prefix=app_&create=false&tls=true'),
    {
      ...{ host: 'db.example', port: 3307, user: 'me', password: 'p@ss:word', database: 'shop', tls: {} },
      options: { strategy: 'session', prefix: 'app_', create: false },
    },
  )
  assert.deepEqual(place('mysql://[::1]/a%20b?wakeWithGetLock=true'), {
    ...{ host: '::1', port: 3306, user: 'root', password: undefined, database: 'a b', tls: undefined },
    options: { wakeWithGetLock: true },
  })
})

const bad: readonly [url: string, complaint: RegExp][] = [
  ['mysql:', /names no host; write mysql:\/\/user@host:3306\/database/],
  ['mysql://h:port/d', /has a host that cannot be read/],
  ['mysql://h:99999/d', /has a port that is not from 1 to 65535; write host, host:port/],
  ['mysql://h', /names no database/],
  [
    'mysql://h/d?ttl=5',
    /unknown setting 'ttl'; known are strategy, wakeWithGetLock, prefix, create, tls, ca, cert, key/,
  ],
  ['mysql://h/d?strategy=transaction', /has strategy=transaction; it is row or session$/],
  ['mysql://h/d?prefix=a-b', /has prefix=a-b/],
]
for (const [url, complaint] of bad) {
  test(`--on ${url} is refused before any I/O`, () => {
    assert.throws(
      () => target(url),
      (error) => error instanceof CliError && error.exitCode === 64 && complaint.test(error.message),
    )
  })
}

test('a URL gives locks on a real server, and its connections are closed', async () => {
  await using server = await startMysql()
  const connection = await connectMysql(place(server.url))
  const locks = createLocks(connection.driver)
  await locks.mutex('from the command line').run((lease) => assert.equal(lease.isHeld, true))
  await locks.close()
  await connection.close()
  const [row] = await server.query(
    `select count(*) as n from holdfast_locks where name = 'from the command line'`,
  )
  assert.equal(row?.['n'], 1)
})

after(leakCheck)
