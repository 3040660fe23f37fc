// The rights that `holdfast doctor` asks a Redis server for are those that the scripts use: every one of them, and of the right driver.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { after, test } from 'node:test'
import { checkSetup } from '../../../src/cli/setup/setup.js'
import { leakCheck } from '../../support/leaks.js'
import { startMany } from '../../support/servers/redis.js'

const { servers, stop } = await startMany(3)
after(stop)

const folder = (driver: string) => `src/drivers/${driver}/`
const texts: Readonly<Record<string, readonly string[]>> = {
  redis: readdirSync(`${folder('redis')}scripts`).map((file) => `${folder('redis')}scripts/${file}`),
  redlock: ['scripts', 'state', 'fast-paths', 'marker'].map((file) => `${folder('redlock')}${file}.ts`),
}

/** The commands that the scripts of a driver call. */
function called(driver: string): readonly string[] {
  const found = (texts[driver] ?? []).flatMap((file) => [
    ...readFileSync(file, 'utf8').matchAll(/\b(?:call|redis\.p?call)\('([A-Z]+)'/g),
  ])
  return [...new Set(found.map(([, name = '']) => name.toLowerCase()))].sort()
}

/** What is said of an account that may do everything but run these commands. */
async function said(driver: string, keys: string, ...rules: string[]) {
  const account = ['reset', 'on', '>pw', keys, `&${keys.slice(1)}`, '+@all', ...rules]
  for (const server of servers) await server.cli('ACL', 'SETUSER', 'app', ...account)
  const hosts = servers.map(({ port }) => `127.0.0.1:${port}`)
  const checks = await checkSetup(`${driver}://app:pw@${driver === 'redis' ? hosts[0] : hosts.join(',')}`)
  return (what: string) => {
    const check = checks.find((one) => one.what === what)
    assert.ok(check, `${what} of ${checks.map((one) => one.what)}`)
    return check
  }
}

for (const driver of ['redis', 'redlock']) {
  test(`${driver}: an account without any one command of the scripts gets an error that says so`, async () => {
    const names = called(driver)
    assert.ok(names.includes('get') && names.includes('time'), String(names))
    // Only in a Cluster are nodes asked for; INFO has a check of its own.
    const sent = ['evalsha', 'subscribe', ...(driver === 'redis' ? ['scan'] : [])]
    for (const name of [...names, ...sent].filter((one) => one !== 'cluster')) {
      const told = await said(driver, '~hf:*', `-${name}`)
      const check = told(name === 'info' ? 'INFO' : 'rights')
      assert.notEqual(check.verdict, 'ok', name)
      assert.match(`${check.found} `, new RegExp(`may not .*\\b${name}\\b`, 'i'))
      const spared = ['publish', 'subscribe', 'pubsub', 'scan'].includes(name)
      assert.equal(check.verdict, spared ? 'weak' : 'bad', name)
    }
  })
}

test('an account with no more than a driver needs is sound', async () => {
  const only = (driver: string) => [
    ...['-@all', ...called(driver).map((name) => `+${name}`)],
    ...['+eval', '+evalsha', '+subscribe', '+info', '+config|get', '+ping', '+hello', '+auth', '+client'],
  ]
  assert.equal((await said('redis', '~hf:*', ...only('redis'), '+scan'))('rights').verdict, 'ok')
  const { verdict, means } = (await said('redis', '~hf:*', ...only('redis')))('rights')
  assert.deepEqual(
    [verdict, means],
    ['weak', 'locks work; holdfast ls, top and ui, and locks.list(), are refused'],
  )
  // Its keys and channels have names of their own.
  assert.equal((await said('redlock', '~hf:redlock*', ...only('redlock')))('rights').verdict, 'ok')
})

after(leakCheck)
