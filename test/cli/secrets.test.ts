// Everybody on a machine can read the arguments of every process: no command puts a password there, nor does a process that it starts.
// Second tier because verify takes half a minute.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { type RedisServer, startRedis } from '../support/servers/redis.js'
import { until } from '../support/until.js'
import { type Bench, bench, kill, type Running } from './support/cli.js'

const secret = `s3cret${randomBytes(12).toString('hex')}`
let server: RedisServer
let b: Bench

before(async () => {
  server = await startRedis()
  await server.cli('CONFIG', 'SET', 'requirepass', secret)
  b = bench(`redis://:${secret}@127.0.0.1:${server.port}`)
})
after(async () => {
  b.close()
  await server.stop()
})

interface Seen {
  /** Command lines of the processes that a command has started. */
  readonly started: ReadonlySet<string>
  /** Those of any process of the machine that contain the password, but for the one that was asked for with it. */
  readonly leaks: ReadonlySet<string>
}

/** Looks at all processes of the machine until `front` has ended: what it has started may no longer be below it. */
async function watch(front: Running, work: Promise<unknown> = front.ended): Promise<Seen> {
  const [started, leaks] = [new Set<string>(), new Set<string>()]
  const family = new Set([front.pid])
  let own = ''
  const look = () => {
    for (const { pid, parent, words } of processes()) {
      if (family.has(parent) && words !== '') {
        family.add(pid)
        started.add(words)
      }
      if (pid === front.pid) own = words
      // A process that has been forked and has not executed its program yet shows the arguments of its parent.
      if (words.includes(secret) && words !== own) leaks.add(words)
    }
  }
  const timer = setInterval(look, 20)
  try {
    look()
    await work
    look()
  } finally {
    clearInterval(timer)
  }
  return { started, leaks }
}

function processes(): { pid: number; parent: number; words: string }[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return []
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8')
      const words = readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ').trim()
      return [
        { pid: Number(name), parent: Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]), words },
      ]
    } catch {
      // It has ended.
      return []
    }
  })
}

function clean({ started, leaks }: Seen, ...expected: readonly RegExp[]): void {
  assert.deepEqual([...leaks], [])
  for (const one of expected)
    assert.ok(
      [...started].some((words) => one.test(words)),
      `${one}: ${[...started]}`,
    )
}

/** A run that holds its lock until it has been looked at. */
async function held(start: () => Running): Promise<Seen> {
  const front = start()
  const inside = until(() => front.stdout().includes('inside'), { what: 'the command to run' })
  const seen = await watch(front, inside)
  kill(front.pid, 'SIGTERM')
  await front.ended
  return seen
}

const command = ['--', 'sh', '-c', 'echo inside; exec sleep 60']

test('run with the password in the URL of HOLDFAST_URL', async () => {
  clean(await held(() => b.start('run', 'x', ...command)), /lock process/, /sleep 60/)
})

test('run with the password in --on: only in the arguments that it was given', async () => {
  clean(await held(() => b.start('run', 'x', '--on', b.url, ...command)), /lock process/, /sleep 60/)
})

test('run with the password in REDISCLI_AUTH, or in a variable that a configuration refers to', async () => {
  const url = `redis://127.0.0.1:${server.port}`
  writeFileSync(
    join(b.folder, 'holdfast.json'),
    JSON.stringify({ stores: { own: url.replace('//', '//:$' + '{PW}@') } }),
    { mode: 0o644 },
  )
  for (const [on, env] of [
    [url, { REDISCLI_AUTH: secret }],
    ['own', { PW: secret }],
  ] as const) {
    const run = () =>
      b.script(`exec "$node" "$main" run x --on '${on}' -- sh -c 'echo inside; exec sleep 60'`, env)
    clean(await held(run), /lock process/, /sleep 60/)
  }
})

test('hold and release', async () => {
  const text = `node=${process.execPath} main=${b.main}
    token=$("$node" "$main" hold y --for $$) && echo inside && read line < go
    "$node" "$main" release y --token "$token"`
  writeFileSync(join(b.folder, 'part.sh'), text)
  const script = b.script('mkfifo go; setsid -w bash part.sh')
  const work = async () => {
    await until(() => script.stdout().includes('inside'), { what: 'the lock to be held' })
    await b.script('echo > go').ended
    return await script.ended
  }
  const done = work()
  clean(await watch(script, done), /holdfast hold/)
  assert.match((await done).stdout, /released "y"/)
})

test('demo', async () => {
  const demo = b.start('demo', '--workers', '2', '--on', b.url, '--json')
  clean(await watch(demo), /worker\.js/)
  assert.equal((await demo.ended).code, 0)
})

test('verify: its own processes, those of the conformance suite, and each holdfast run', async () => {
  const verify = b.start('verify', '--minutes', '0.1', '--only', 'crash', '--json')
  clean(await watch(verify), /worker\.js/, /main\.js run /, /lock process/)
  assert.equal((await verify.ended).code, 0)
})

after(leakCheck)
