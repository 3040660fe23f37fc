// The report of `holdfast verify` on databases: each setting that weakens locks is found on a real server, and a sound one is called so.
// Second tier because it starts every kind of SQL server, with settings that weaken locks.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { createLocks } from 'holdfast'
import { migration as mysqlMigration } from 'holdfast/mysql'
import { migration as postgresMigration } from 'holdfast/postgres'
import { target } from '../../../src/cli/connect.js'
import type { Check } from '../../../src/cli/setup/check.js'
import { checkSetup } from '../../../src/cli/setup/setup.js'
import { leakCheck } from '../../support/leaks.js'
import { type MysqlServer, startMysql } from '../../support/servers/mysql.js'
import { startPgBouncer } from '../../support/servers/pgbouncer.js'
import { type PostgresServer, startPostgres } from '../../support/servers/postgres.js'

async function told(url: string, what: string): Promise<Check> {
  const checks = await checkSetup(url)
  const check = checks.find((one) => one.what === what)
  assert.ok(check !== undefined, `nothing was said of ${what}: ${checks.map((one) => one.what)}`)
  return check
}

async function verdicts(url: string): Promise<string[]> {
  return (await checkSetup(url)).filter(({ verdict }) => verdict !== 'ok').map(({ what }) => what)
}

describe('the set-up of PostgreSQL', { concurrency: false }, () => {
  let server: PostgresServer
  before(async () => {
    server = await startPostgres({ preload: ['clock'], settings: { fsync: 'on' } })
    await server.sql('create role app login')
    await server.sql(postgresMigration({ role: 'app' }))
  })
  after(() => server.stop())

  const as = (role: string, query = '') => `postgres://${role}@127.0.0.1:${server.port}/postgres${query}`

  it('is called sound where it is', async () => {
    assert.deepEqual(await verdicts(as('app')), [])
    assert.deepEqual(await verdicts(as('app', '?strategy=session')), [])
  })

  it('a pooler in transaction mode is seen: bad for session, and where somebody listens', async (t) => {
    const pooler = await startPgBouncer(server, 'transaction', 4)
    t.after(() => pooler.stop())
    const pooled = await told(pooler.url, 'pooler')
    assert.equal(pooled.verdict, 'bad')
    assert.match(pooled.found, /transaction mode: two clients were on one connection/)
    assert.match(pooled.means ?? '', /LISTEN receives nothing there/)
    assert.equal((await told(`${pooler.url}?listen=false`, 'pooler')).verdict, 'ok')
    assert.equal((await told(`${pooler.url}?strategy=session`, 'pooler')).verdict, 'bad')
    const inSession = await startPgBouncer(server, 'session', 4)
    t.after(() => inSession.stop())
    assert.match((await told(inSession.url, 'pooler')).found, /in session mode/)
  })

  it('rights and tables that are missing, a role that may only read, time-outs that cut requests off', async () => {
    await server.sql('create role guest login')
    assert.match(
      (await told(as('guest'), 'tables and rights')).found,
      /may not read and write holdfast_locks/,
    )
    assert.match(
      (await told(as('app', '?schema=absent'), 'tables and rights')).found,
      /there is no holdfast_locks/,
    )
    await server.sql('grant create on database postgres to guest')
    const maker = await told(as('guest', '?schema=absent'), 'tables and rights')
    assert.deepEqual(
      [maker.verdict, maker.found],
      ['ok', 'no tables yet; this role may make them, at the first use'],
    )
    assert.equal((await told(as('guest', '?schema=absent&create=false'), 'tables and rights')).verdict, 'bad')
    // What is asked under it here must come to its end on a busy machine, too.
    for (const setting of ['default_transaction_read_only = on', `statement_timeout = '1400ms'`]) {
      await server.sql(`alter role guest set ${setting}`)
    }
    assert.equal((await told(as('guest'), 'primary')).verdict, 'bad')
    assert.equal((await told(as('guest'), 'statement_timeout')).verdict, 'weak')
    await server.sql(`alter role guest set idle_session_timeout = '50s'`)
    assert.equal((await told(as('guest'), 'idle_session_timeout')).verdict, 'weak')
  })

  it('where functions are not for everybody, the schema grants them, and a role without them is seen', async () => {
    await server.sql('alter default privileges revoke execute on functions from public')
    await server.sql(postgresMigration({ schema: 'strict', role: 'app' }))
    const url = as('app', '?schema=strict')
    assert.equal((await told(url, 'tables and rights')).verdict, 'ok')
    for (const strategy of ['row', 'session']) {
      const { driver, close } = await target(`${url}&strategy=${strategy}`).connect()
      const locks = createLocks(driver)
      assert.equal(await (await locks.mutex('granted').acquire()).release(), 'released')
      await locks.close()
      await close()
    }
    await server.sql('revoke execute on function strict.holdfast_list_v1 from app')
    const { verdict, found } = await told(url, 'tables and rights')
    assert.deepEqual([verdict, found], ['bad', 'this role may not execute holdfast_list_v1'])
    await server.sql('revoke usage on schema strict from app')
    const outside = await told(url, 'tables and rights')
    assert.deepEqual([outside.verdict, outside.found], ['bad', 'this role may not use the schema strict'])
  })

  it('a clock that is far off, and commits that may be lost', async () => {
    server.clockJump(600_000)
    assert.match((await told(as('app'), 'clock')).found, /(599|6\d\d)\d{3} ms ahead of this machine's/)
    server.clockJump(-600_000)
    await server.sql('alter role app set synchronous_commit = off')
    assert.match(
      (await told(as('app'), 'durability')).means ?? '',
      /commits of locks are waited for all the same/,
    )
    await using careless = await startPostgres()
    assert.equal((await told(careless.url, 'durability')).verdict, 'weak')
  })
})

for (const flavour of ['mariadb', 'mysql'] as const) {
  describe(`the set-up of ${flavour}`, { concurrency: false }, () => {
    let server: MysqlServer
    before(async () => {
      server = await startMysql({ flavour, preload: ['clock'], args: ['--innodb-flush-log-at-trx-commit=1'] })
      for (const user of ['app', 'guest', 'owner']) await server.query(`create user '${user}'@'%'`)
      await server.query(`grant create on holdfast.* to 'guest'@'%'`)
      await server.query(`grant all on holdfast.* to 'owner'@'%'`)
      for (const statement of mysqlMigration({ user: 'app' }).split(';\n')) {
        if (statement.trim() !== '') await server.query(statement)
      }
    })
    after(() => server.stop())

    const as = (user: string, query = '') => `mysql://${user}@127.0.0.1:${server.port}/holdfast${query}`

    it('is called sound where it is', async () => {
      assert.deepEqual(await verdicts(as('app')), [])
      assert.deepEqual(await verdicts(as('app', '?strategy=session')), [])
    })

    it('relaxed durability, a replica, time-outs, rights and tables that are missing, a clock that is far off', async () => {
      const limit =
        flavour === 'mariadb' ? ['max_statement_time', '1.9', '0'] : ['max_execution_time', '1900', '0']
      const [name = '', short, none] = limit
      for (const setting of ['innodb_flush_log_at_trx_commit = 2', 'read_only = 1', `${name} = ${short}`]) {
        await server.query(`set global ${setting}`)
      }
      assert.match((await told(as('app'), 'durability')).means ?? '', /a power cut forgets the grants/)
      assert.equal((await told(as('app'), 'primary')).verdict, 'bad')
      assert.equal((await told(as('app'), name)).verdict, 'weak')
      for (const setting of ['innodb_flush_log_at_trx_commit = 1', 'read_only = 0', `${name} = ${none}`]) {
        await server.query(`set global ${setting}`)
      }
      assert.equal((await told(as('guest'), 'tables and rights')).verdict, 'bad')
      assert.equal((await told(as('app', '?prefix=absent_'), 'tables and rights')).verdict, 'bad')
      const maker = await told(as('owner', '?prefix=absent_'), 'tables and rights')
      assert.deepEqual(
        [maker.verdict, maker.found],
        ['ok', 'no tables yet; this user may make them, at the first use'],
      )
      assert.equal(
        (await told(as('owner', '?prefix=absent_&create=false'), 'tables and rights')).verdict,
        'bad',
      )
      for (const statement of [
        `create role 'maker'`,
        `grant all on holdfast.* to 'maker'`,
        `create user 'indirect'@'%'`,
        `grant 'maker' to 'indirect'@'%'`,
        `set default role 'maker' ${flavour === 'mysql' ? 'to' : 'for'} 'indirect'@'%'`,
      ])
        await server.query(statement)
      assert.equal((await told(as('indirect'), 'tables and rights')).verdict, 'ok')
      const indirect = await told(as('indirect', '?prefix=absent_'), 'tables and rights')
      assert.equal(indirect.verdict, 'not checked')
      assert.match(indirect.found, /^no tables yet; whether .* by its role .*maker.* cannot be seen$/)
      server.clockJump(-600_000)
      assert.match((await told(as('app'), 'clock')).found, /ms behind this machine's/)
      server.clockJump(600_000)
    })
  })
}

after(leakCheck)
