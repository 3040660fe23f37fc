// `holdfast run` with several names: all of them or none.
// Second tier because it takes most of a minute; run.test.ts is the part for every change.
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { createLocks, type Locks } from 'holdfast'
import { target } from '../../src/cli/connect.js'
import { leakCheck } from '../support/leaks.js'
import { until } from '../support/until.js'
import { type Bench, bench } from './support/cli.js'
import { type Store, stores } from './support/stores.js'

const sh = (script: string) => ['--', 'sh', '-c', script]

for (const name of ['local', 'redis'] as const) describe(name, () => onStore(stores[name]))

function onStore(open: () => Promise<Store>): void {
  let store: Store
  let scene: Bench
  let locks: Locks
  let closeStore: () => Promise<void>
  before(async () => {
    store = await open()
    scene = bench(store.url)
    const { driver, close } = await target(store.url).connect()
    locks = createLocks(driver)
    closeStore = close
  })
  after(async () => {
    scene.close()
    await locks.close()
    await closeStore()
    await store.stop()
  })
  const file = (name: string) => join(scene.folder, name)
  const free = async (name: string) => (await locks.inspect(name)).holders.length === 0

  test('the command finds names and tokens, one a line, in the order given', async () => {
    const print = 'echo "$HOLDFAST_NAMES"; echo "$HOLDFAST_TOKENS"; printenv HOLDFAST_TOKEN || echo none'
    const run = scene.start('run', 'vb', 'v a', ...sh(`${print}; echo > ${file('names')}; exec sleep 60`))
    await until(() => existsSync(file('names')), { within: 60_000 })
    const standings = await Promise.all(['vb', 'v a'].map((name) => locks.inspect(name)))
    const tokens = standings.map(({ holders }) => holders[0]?.token)
    assert.equal(run.stdout(), `vb\nv a\n${tokens.join('\n')}\nnone\n`)
    process.kill(run.pid, 'SIGTERM')
    assert.equal((await run.ended).stderr, '')
  })

  test('a command that cannot be started with so many names leaves no lock behind', async (t) => {
    if (process.platform !== 'linux') return t.skip('only Linux bounds a single variable')
    const names = Array.from({ length: 280 }, (_, i) => `${i} ${'long '.repeat(99)}`)
    const { code, stderr } = await scene.cli('run', ...names, ...sh(`echo > ${file('long')}`))
    assert.match(stderr, /^holdfast: the command cannot be started: .*HOLDFAST_NAMES.* \(E2BIG\); shorten/)
    assert.equal(code, 126)
    assert.equal(existsSync(file('long')), false)
    assert.deepEqual(await locks.list(), [])
  })

  test('a run inside another has the variables of its own locks only', async () => {
    const inner = `"$0" "$1" run in1 in2 -- sh -c 'echo "\${HOLDFAST_NAME-none} $HOLDFAST_NAMES" | tr "\\n" ,'`
    const { stdout } = await scene.cli('run', 'out', ...sh(inner), process.execPath, scene.main)
    assert.equal(stdout, 'none in1,in2,')
  })

  test('one that is taken: none is held, the command is not started, and it is named', async () => {
    const lease = await locks.mutex('taken b').acquire({ note: 'import' })
    const names = ['taken c', 'taken b', 'taken a']
    const once = await scene.cli('run', ...names, '--no-wait', ...sh(`echo > ${file('never')}`))
    assert.equal(once.code, 75)
    assert.match(
      once.stderr,
      /^holdfast: "taken b" is not free; held for \d+m?s by .+ \("import"\); the command was not started\n$/,
    )
    assert.ok((await free('taken a')) && (await free('taken c')))
    const late = await scene.cli('run', ...names, '--wait', '300ms', ...sh(`echo > ${file('never')}`))
    assert.equal(late.code, 75)
    assert.match(late.stderr, /"taken b" was not free within \d+m?s; held for/)
    assert.ok((await free('taken a')) && (await free('taken c')))
    assert.equal(existsSync(file('never')), false)
    await lease.release()
    assert.equal((await scene.cli('run', ...names, '--no-wait', ...sh('true'))).code, 0)
  })

  test('whatever order they are named in, runs wait for each other in no ring, and never overlap', async () => {
    const job = sh(`echo in >> ${file('order')}; sleep 0.1; echo out >> ${file('order')}`)
    const orders = [
      ['ring a', 'ring b'],
      ['ring b', 'ring a'],
      ['ring b', 'ring a', 'ring c'],
      ['ring a', 'ring b'],
    ]
    const runs = await Promise.all(orders.map((names) => scene.cli('run', ...names, '--wait', '2m', ...job)))
    assert.deepEqual(
      runs.map(({ code }) => code),
      [0, 0, 0, 0],
    )
    assert.equal(readFileSync(file('order'), 'utf8'), 'in\nout\n'.repeat(4))
  })

  test('the loss of one ends the command, and the others are released', async () => {
    const run = scene.start('run', 'loss a', 'loss b', ...sh(`echo > ${file('loss')}; exec sleep 60`))
    await until(() => existsSync(file('loss')), { within: 60_000 })
    assert.equal(await locks.forceRelease('loss a'), 1)
    const { code, stderr } = await run.ended
    assert.equal(code, 76)
    assert.match(stderr, /stopping the command with SIG(TERM|KILL): the lease is (being )?lost/)
    assert.ok(await free('loss b'))
  })

  test('--shared and --permits go for each of them', async () => {
    const read = await locks.readWrite('mode a').read.acquire()
    assert.equal((await scene.cli('run', 'mode a', 'mode b', '--shared', '--no-wait', ...sh('true'))).code, 0)
    const write = await locks.mutex('mode b').acquire()
    const refused = await scene.cli('run', 'mode a', 'mode b', '--shared', '--no-wait', ...sh('true'))
    assert.equal(refused.code, 75)
    assert.match(refused.stderr, /"mode b" is not free; held/)
    await write.release()
    await read.release()
    const permit = await locks.semaphore('sem a', { permits: 2 }).acquire()
    const one = await scene.cli('run', 'sem a', 'sem b', '--permits', '1/2', '--no-wait', ...sh('true'))
    assert.equal(one.code, 0, one.stderr)
    assert.equal(
      (await scene.cli('run', 'sem a', 'sem b', '--permits', '2/2', '--no-wait', ...sh('true'))).code,
      75,
    )
    await permit.release()
  })

  test('--min-hold keeps them after the command has ended, with --no-wait, too', async () => {
    const run = scene.start(
      'run',
      'min a',
      'min b',
      '--no-wait',
      '--min-hold',
      '60s',
      ...sh(`echo > ${file('min')}`),
    )
    await until(() => existsSync(file('min')), { within: 60_000 })
    assert.equal((await scene.cli('run', 'min b', '--no-wait', ...sh('true'))).code, 75)
    process.kill(run.pid, 'SIGTERM')
    assert.equal((await run.ended).code, 0)
    assert.equal((await scene.cli('run', 'min b', '--no-wait', ...sh('true'))).code, 0)
  })

  test('--json reports the names, their tokens, and which of them is waited for', async () => {
    const { stderr } = await scene.cli('run', 'j a', 'j b', '--json', ...sh('exit 4'))
    const [granted, ended] = stderr
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    assert.deepEqual(granted.names, ['j a', 'j b'])
    assert.equal(granted.tokens.length, 2)
    assert.equal(granted.token, undefined)
    assert.equal(ended.code, 4)
    const lease = await locks.mutex('j b').acquire()
    const late = await scene.cli('run', 'j a', 'j b', '--wait', '1s', '--json', ...sh('true'))
    const events = late.stderr
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    assert.deepEqual(events.find(({ event }) => event === 'waiting').name, 'j b')
    assert.deepEqual(events.find(({ event }) => event === 'busy').name, 'j b')
    await lease.release()
  })
}

after(leakCheck)
