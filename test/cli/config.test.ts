// Stores by name: holdfast.json and the key "holdfast" of package.json.
// Second tier because it runs the command line for every way to name a store; smoke.test.ts is the part for every change.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, chownSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { after, test } from 'node:test'
import { Redis } from 'ioredis'
import { leakCheck } from '../support/leaks.js'
import { startRedis } from '../support/servers/redis.js'
import { bench, type Ended } from './support/cli.js'

const { folder, script, close } = bench()
const none = { HOLDFAST_URL: undefined }
let cases = 0

/** A folder of its own with these files in it; commands run in it, or in a folder under it. */
function project(files: Readonly<Record<string, unknown>>) {
  cases += 1
  const root = join(folder, `case-${cases}`)
  mkdirSync(root)
  for (const [name, content] of Object.entries(files)) {
    const file = join(root, name)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content), { mode: 0o644 })
    chmodSync(file, 0o644)
  }
  const run = (command: string, env: NodeJS.ProcessEnv = {}, under = ''): Promise<Ended> => {
    mkdirSync(join(root, under), { recursive: true })
    return script(`cd '${join(root, under)}' && holdfast ${command}`, { ...none, ...env }).ended
  }
  return { root, run }
}

const local = (name: string) => `local:${join(folder, name)}`

test('--on takes the name of a store, and the default is used where nothing is named', async () => {
  const { root, run } = project({
    'holdfast.json': { stores: { prod: local('prod'), ci: local('ci') }, default: 'prod' },
  })
  const file = join(root, 'holdfast.json')
  const told = async (command: string, env = {}) => (await run(command, env)).stderr
  assert.equal(await told('ls -v'), `holdfast: the store is ${local('prod')}, 'prod' in ${file}\n`)
  assert.equal(await told('ls -v --on ci'), `holdfast: the store is ${local('ci')}, 'ci' in ${file}\n`)
  assert.equal(
    await told('ls -v', { HOLDFAST_URL: 'ci' }),
    `holdfast: the store is ${local('ci')}, 'ci' in ${file}\n`,
  )
  assert.equal(await told(`ls -v --on ${local('x')}`), `holdfast: the store is ${local('x')}\n`)
  assert.equal(await told('ls'), '')
})

test('a run locks on the store that was named, and says with --json which file named it', async () => {
  const { root, run } = project({ 'holdfast.json': { stores: { ci: local('named') } } })
  const list = `"$node" "$main" ls --on '${local('named')}'`
  const { code, stdout, stderr } = await run(
    `run build --json --on ci -- sh -c "${list.replaceAll('"', '\\"')}"`,
  )
  assert.equal(code, 0, stderr)
  assert.match(stdout, /^build /m)
  assert.deepEqual(JSON.parse(stderr.split('\n')[0] ?? ''), {
    event: 'store',
    url: local('named'),
    store: 'ci',
    config: join(root, 'holdfast.json'),
  })
})

test('the nearest file counts: of a folder or the next above, and holdfast.json before package.json', async () => {
  const { root, run } = project({
    'holdfast.json': { stores: { prod: local('top') } },
    'app/package.json': { name: 'app', holdfast: { stores: { prod: local('app') } } },
    'app/lib/package.json': { name: 'lib', keywords: ['holdfast'] },
    'both/holdfast.json': { stores: { prod: local('both') } },
    'both/package.json': { holdfast: { stores: { prod: local('not') } } },
  })
  const at = async (under: string) => (await run('ls -v --on prod', {}, under)).stderr
  assert.equal(
    await at('docs/a/b'),
    `holdfast: the store is ${local('top')}, 'prod' in ${root}/holdfast.json\n`,
  )
  assert.equal(
    await at('app/lib'),
    `holdfast: the store is ${local('app')}, 'prod' in ${root}/app/package.json\n`,
  )
  assert.equal(
    await at('both'),
    `holdfast: the store is ${local('both')}, 'prod' in ${root}/both/holdfast.json\n`,
  )
})

test('a directory of local: is relative to the file, wherever in the project a command is started', async () => {
  const { root, run } = project({ 'holdfast.json': { stores: { here: 'local:./locks' }, default: 'here' } })
  assert.match(
    (await run('ls -v', {}, 'a/b')).stderr,
    new RegExp(`the store is local:${root}/locks, 'here' in`),
  )
  const inner = `cd .. && '$0' '$1' run job --no-wait -- true`.replaceAll("'", '\\"')
  const { code } = await run(`run job -- sh -c "${inner}" "$node" "$main"`, {}, 'a/b')
  assert.equal(code, 75)
})

test('above the home directory nothing is looked for', async () => {
  const { root, run } = project({ 'holdfast.json': { stores: { prod: local('top') } } })
  const { code, stderr } = await run('ls --on prod', { HOME: join(root, 'home') }, 'home/me')
  assert.equal(code, 64)
  assert.match(
    stderr,
    /^holdfast: --on and HOLDFAST_URL take the URL of a store, .*; there is no holdfast\.json, /,
  )
})

test('a password comes from the environment, verbatim', async () => {
  const password = 'p@ss/w:rd?#%'
  await using server = await startRedis()
  const client = new Redis(server.port, server.host)
  await client.call('ACL', 'SETUSER', 'app', 'on', `>${password}`, '~*', '&*', '+@all')
  await client.call('ACL', 'SETUSER', 'default', 'off')
  client.disconnect()
  const { run } = project({
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is what stands in the file
    'holdfast.json': { stores: { prod: `redis://app:${'${APP_PASSWORD}'}@${server.host}:${server.port}` } },
  })
  const ran = await run('run x -v --on prod -- echo ran', { APP_PASSWORD: password })
  assert.equal(ran.stdout, 'ran\n', ran.stderr)
  assert.match(ran.stderr, /the store is redis:\/\/app:\*\*\*@/)
  const wrong = await run('ls --on prod', { APP_PASSWORD: 'wrong-secret' })
  assert.equal(wrong.code, 69)
  assert.doesNotMatch(wrong.stderr, /wrong-secret/)
  const unset = await run('ls --on prod')
  assert.equal(unset.code, 64)
  assert.match(unset.stderr, /^holdfast: store 'prod' in .*: the variable APP_PASSWORD, .* is not set\n$/)
})

const good = { prod: 'local:', staging: 'local:' }
const refused: readonly [what: string, content: unknown, complaint: RegExp][] = [
  [
    'an unknown store',
    { stores: good },
    /no store of that name: .*holdfast\.json has only prod, staging; did you mean 'prod'\?$/m,
  ],
  ['no stores', {}, /no store of that name: .*holdfast\.json has no stores$/m],
  [
    'an unknown key',
    { store: good },
    /unknown key 'store'; did you mean 'stores'\?; known are stores, default/,
  ],
  ['a list', [], /it must be an object with stores and default/],
  [
    'stores that are a list',
    { stores: ['local:'] },
    /stores must be an object of names with the URLs of stores/,
  ],
  ['a store that is no text', { stores: { prod: 5 } }, /stores\.prod must be the URL of a store, as text/],
  [
    'a name that could be a URL',
    { stores: { 'redis:': 'local:' } },
    /stores has the name 'redis:'; a name begins with/,
  ],
  [
    'a default that is none',
    { stores: good, default: 'stagin' },
    /default must be the name of one of .*; did you mean 'staging'\?/,
  ],
  [
    'two stores of one name',
    '{ "stores": { "prod": "redis://:s3cret@h", "ci": "local:", "prod": "local:" } }',
    /holdfast\.json has stores\.prod twice; remove one of them/,
  ],
  ['what is not JSON', '{ "stores": { "prod": "redis://:s3cret@h" }, }', /holdfast\.json is not JSON/],
  [
    'a password',
    { stores: { prdo: 'redis://app:s3cret@h' } },
    /store 'prdo' in .*: its URL has a password in it.*\$\{NAME\}/,
  ],
  ['half a password', { stores: { prdo: 'redis://app:s3cret$' + '{X}@h' } }, /its URL has a password in it/],
  [
    'a host from the environment',
    { stores: { prdo: 'redis://$' + '{HOST}' } },
    /a reference .* that is not the user or password/,
  ],
  [
    'an unknown scheme',
    { stores: { prdo: 'reids://h' } },
    /store 'prdo' in .*: unknown scheme 'reids:'.*did you mean 'redis:'/,
  ],
  [
    'a store for one process',
    { stores: { prdo: 'memory:' } },
    /store 'prdo' in .*: memory: locks live inside one process/,
  ],
]
test('package.json: of keys that are there twice, only those of holdfast are refused', async () => {
  const manifest = (more: string) =>
    `{ "scripts": { "a": "b", "a": "c" }, "holdfast": { "stores": { "prdo": "${local('a')}"${more} } } }`
  const fine = project({ 'package.json': manifest('') })
  assert.equal((await fine.run('ls --on prdo')).code, 0)
  const twice = project({ 'package.json': manifest(', "\\u0070rdo": "local:"') })
  const { code, stderr } = await twice.run('ls --on prdo')
  assert.match(stderr, /package\.json has holdfast\.stores\.prdo twice; remove one of them/)
  assert.equal(code, 64)
})

for (const [what, content, complaint] of refused) {
  test(`${what} is refused`, async () => {
    const { run } = project({ 'holdfast.json': content })
    const { code, stdout, stderr } = await run('ls --on prdo', { X: 'x', HOST: 'h' })
    assert.match(stderr, complaint)
    assert.match(stderr, /^holdfast: /)
    assert.doesNotMatch(stderr, /s3cret|\n {4}at /)
    assert.deepEqual([code, stdout], [64, ''])
  })
}

test('with a URL no file is read, whatever it contains', async () => {
  const { run } = project({ 'holdfast.json': '{' })
  assert.equal((await run(`ls --on ${local('other')}`)).code, 0)
  assert.equal((await run('ls', { HOLDFAST_URL: local('other') })).code, 0)
  assert.equal((await run('ls')).code, 64)
})

test('a wrong key in package.json is reported with its place', async () => {
  const { run } = project({ 'package.json': { holdfast: { defualt: 'x' } } })
  assert.match(
    (await run('ls')).stderr,
    /package\.json: unknown key 'holdfast\.defualt'; did you mean 'default'\?/,
  )
})

test('a file that others can write to is refused, by every command that would use it', async () => {
  const { root, run } = project({ 'holdfast.json': { stores: { prod: local('w') }, default: 'prod' } })
  const file = join(root, 'holdfast.json')
  chmodSync(file, 0o646)
  for (const command of ['ls', 'ls --on prod', 'run x -- touch ran']) {
    const { code, stderr } = await run(command)
    assert.equal(code, 64)
    assert.match(stderr, /holdfast\.json is not used: every user can write to it; chmod o-w; or give --on/)
  }
  assert.equal((await run(`ls --on ${local('w')}`)).code, 0)
  chmodSync(file, 0o644)
  assert.equal((await run('ls')).code, 0)
})

test('a file of another user, or of a group that can write to it, is refused', {
  skip: process.getuid?.() !== 0 && 'only root can give files away',
}, async () => {
  const { root, run } = project({
    'holdfast.json': { stores: { prod: local('o') }, default: 'prod' },
    'app/package.json': { dependencies: { holdfast: '*' } },
  })
  chownSync(join(root, 'app/package.json'), 65_534, 65_534)
  assert.equal((await run(`ls`, {}, 'app')).code, 0, 'one that only depends on holdfast')
  const file = join(root, 'holdfast.json')
  chownSync(file, 65_534, 65_534)
  assert.match((await run('ls')).stderr, /is not used: it belongs to another user \(65534\)/)
  chownSync(file, 0, 65_534)
  chmodSync(file, 0o664)
  assert.match((await run('ls')).stderr, /is not used: its group can write to it; chmod g-w/)
})

test('something under the name that is not a file is refused, and not waited for', async () => {
  const { root, run } = project({})
  execFileSync('mkfifo', [join(root, 'holdfast.json')])
  assert.match((await run('ls')).stderr, /holdfast\.json is not a file; remove it/)
  rmSync(join(root, 'holdfast.json'))
  mkdirSync(join(root, 'holdfast.json'))
  assert.match((await run('ls')).stderr, /holdfast\.json is not a file; remove it/)
})

test('a user whom the system does not know, without HOME, has no home directory', {
  skip: process.getuid?.() !== 0 && 'only root can be another user',
}, () => {
  const module = new URL('../../src/cli/config.js', import.meta.url).href
  const script = `import(${JSON.stringify(module)}).then(({ findConfig }) => {
    process.setuid(2_000_000_011)
    console.log(findConfig('/'))
  })`
  const { stdout, stderr } = spawnSync(process.execPath, ['-e', script], { env: {}, encoding: 'utf8' })
  assert.deepEqual([stdout, stderr], ['undefined\n', ''])
})

after(close)
after(leakCheck)
