// Others may create objects in the same database. Their objects under our names are not used, and their other objects are not found.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { Client } from 'pg'
import { inTransaction, migration } from '../../../src/drivers/postgres/index.js'
import { leakCheck } from '../../support/leaks.js'
import { startPostgres } from '../../support/servers/postgres.js'
import { peer } from './support/peer.js'

const server = await startPostgres()
after(() => server.stop())
for (const role of ['mallory', 'deployer', 'app', 'wheel']) await server.sql(`create role ${role} login`)

/** Runs it as that role. */
async function as(role: string, text: string): Promise<void> {
  const client = new Client({ host: '127.0.0.1', port: server.port, user: role, database: 'postgres' })
  await client.connect()
  try {
    await client.query(text)
  } finally {
    await client.end()
  }
}

async function isSuper(role: string): Promise<unknown> {
  return (await server.sql('select rolsuper from pg_roles where rolname = $1', [role]))[0]?.['rolsuper']
}

/** A schema in which everybody may create things. */
async function open(schema: string): Promise<void> {
  await server.sql(`create schema ${schema}`)
  await server.sql(`grant create, usage on schema ${schema} to public`)
}

const takeover = (schema: string) => `create function ${schema}.take() returns trigger language plpgsql as $$
  begin alter role mallory superuser; return new; end $$`

async function refused(t: TestContext, schema: string, message: RegExp): Promise<void> {
  for (const strategy of ['row', 'session'] as const) {
    const { locks } = peer(t, server.port, { schema, strategy })
    const about = { code: 'BACKEND', message }
    await assert.rejects(locks.mutex('x').acquire({ wait: 60_000 }), about)
    await assert.rejects(locks.inspect('x'), about)
  }
  const { pool } = peer(t, server.port)
  const client = await pool.connect()
  try {
    await client.query('begin')
    await assert.rejects(inTransaction(client, 'x', { schema }), { code: 'BACKEND', message })
  } finally {
    await client.query('rollback')
    client.release()
  }
}

test('tables that a stranger created before are refused, and none of their code runs', async (t) => {
  await open('shared')
  await as(
    'mallory',
    migration({ schema: 'shared' }).replaceAll(/create or replace function[\s\S]*?\$\$;/g, ''),
  )
  await as('mallory', takeover('shared'))
  await as(
    'mallory',
    'create trigger take before insert on shared.holdfast_locks for each row execute function shared.take()',
  )
  await refused(t, 'shared', /belongs to the role mallory/)
  assert.equal(await isSuper('mallory'), false)
})

test('a function with our name that a stranger created is refused', async (t) => {
  await open('functions')
  await server.sql(migration({ schema: 'functions' }))
  await peer(t, server.port, { schema: 'functions' })
    .locks.mutex('x')
    .run(() => undefined)
  await as(
    'mallory',
    `create function functions.holdfast_inspect_v1(varchar) returns text language plpgsql as $$
    begin alter role mallory superuser; return '[0,[],[]]'; end $$`,
  )
  await refused(
    t,
    'functions',
    /the function functions\.holdfast_inspect_v1 belongs to the role mallory.*a schema of its own/,
  )
  assert.equal(await isSuper('mallory'), false)
})

test('a trigger that a stranger created on our tables is refused', async (t) => {
  await open('triggers')
  await server.sql(migration({ schema: 'triggers' }))
  await server.sql('grant trigger on triggers.holdfast_locks to mallory')
  await as('mallory', takeover('triggers'))
  await as(
    'mallory',
    'create trigger take before update on triggers.holdfast_locks for each row execute function triggers.take()',
  )
  await refused(t, 'triggers', /the trigger triggers\.take belongs to the role mallory/)
  assert.equal(await isSuper('mallory'), false)
})

test('objects that a stranger created in the caller’s search path are not found', async (t) => {
  await open('path')
  // It fits better than the one of PostgreSQL, which takes anything.
  await as(
    'mallory',
    `create function path.json_build_array(bigint, json, json) returns json language plpgsql as $$
    begin alter role mallory superuser; return '[1, [], []]'; end $$`,
  )
  const config = { options: '-c search_path=path,public' }
  const { locks } = peer(t, server.port, { schema: 'own', config })
  const lease = await locks.mutex('x').acquire()
  assert.equal((await locks.inspect('x')).lastToken, lease.token)
  assert.equal(await isSuper('mallory'), false)
  await lease.release()
})

test('tables of the owner of the schema, of the role itself, and of one that it is a member of are used', async (t) => {
  await server.sql('create schema deployed authorization deployer')
  await as('deployer', migration({ schema: 'deployed', role: 'app' }))
  await server.sql('create schema own_of_app authorization app')
  await open('of_wheel')
  await as('wheel', migration({ schema: 'of_wheel', role: 'app' }))
  await server.sql('grant wheel to app')
  for (const schema of ['deployed', 'own_of_app', 'of_wheel']) {
    for (const strategy of ['row', 'session'] as const) {
      const { locks } = peer(t, server.port, { schema, strategy, config: { user: 'app' } })
      await locks.mutex('x').run(() => undefined)
    }
  }
})

after(leakCheck)
