// Bun and Deno run memory, local and redis, alone and beside Node. Nothing else is promised for them.
// Second tier because it starts other runtimes, for what only a new function of Node, or a difference of theirs, can break.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { entries, read } from '../support/checkout.js'
import { leakCheck } from '../support/leaks.js'
import { unpacked } from '../support/servers/fetch.js'
import { startRedis } from '../support/servers/redis.js'

const home = mkdtempSync(join(tmpdir(), 'holdfast-runtimes-'))
const child = fileURLToPath(new URL('./runtimes-child.js', import.meta.url))
const firstMinute = fileURLToPath(new URL('../least-node-child.js', import.meta.url))
const server = await startRedis()
const port = String(server.port)
const [bun, deno] = await Promise.all(['bun', 'deno'].map(async (name) => (await unpacked(name)).root))
const node = [process.execPath]
const runtimes = { Bun: [`${bun}/bin/bun`], Deno: [`${deno}/deno`, 'run', '--allow-all', '--no-lock'] }
const running = new Set<ChildProcess>()

interface Started {
  /** The next line that it prints; the whole of what it said when it ends first. */
  readonly line: () => Promise<string>
  /** All further lines, once it has ended by itself without an error. */
  readonly rest: () => Promise<string[]>
  readonly kill: () => void
}

function start(command: readonly string[], ...args: readonly string[]): Started {
  const [program = '', ...before] = command
  const process_ = spawn(program, [...before, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, HOLDFAST_DIR: join(home, 'default'), NO_COLOR: '1' },
  })
  running.add(process_)
  const ended = once(process_, 'close').finally(() => running.delete(process_))
  const lines = createInterface(process_.stdout)[Symbol.asyncIterator]()
  let said = ''
  process_.stderr.on('data', (bytes: Buffer) => {
    said += bytes.toString()
  })
  return {
    line: async () => {
      const { value, done } = await lines.next()
      if (!done) return value
      await ended
      assert.fail(`${program} ended with code ${process_.exitCode}: ${said}`)
    },
    rest: async () => {
      const all: string[] = []
      for (let next = await lines.next(); !next.done; next = await lines.next()) all.push(next.value)
      await ended
      assert.equal(process_.exitCode, 0, said)
      return all
    },
    kill: () => void process_.kill('SIGKILL'),
  }
}

const folder = (): string => mkdtempSync(join(home, 'locks-'))
const tokenOf = (line: string): number => Number(/^(?:held|granted) (\d+)$/.exec(line)?.[1])

/** Three processes add to one number, each time under the lock. */
async function counted(kind: string, at: string, commands: readonly (readonly string[])[]): Promise<number> {
  const file = join(folder(), 'number')
  writeFileSync(file, '0')
  const all = commands.map((command) => start(command, child, 'count', kind, at, file, '25'))
  for (const one of all) assert.deepEqual(await one.rest(), ['tokens true', 'closed'])
  return Number(readFileSync(file, 'utf8'))
}

/** A holder is killed while somebody waits. */
async function inherited(
  kind: string,
  at: string,
  ttl: string,
  holder: readonly string[],
  waiter: readonly string[],
) {
  const holds = start(holder, child, 'hold', kind, at, 'door', ttl)
  const token = tokenOf(await holds.line())
  const waits = start(waiter, child, 'wait', kind, at, 'door')
  assert.equal(await waits.line(), 'waiting')
  holds.kill()
  const next = tokenOf(await waits.line())
  assert.ok(next > token, `${next} after ${token}`)
  assert.deepEqual(await waits.rest(), ['released', 'closed'])
}

for (const [name, runtime] of Object.entries(runtimes))
  describe(name, () => {
    test('it is the version that the docs name', async () => {
      const [program = ''] = runtime
      const [, version = ''] = /(\d+\.\d+\.\d+)/.exec(await start([program], '--version').line()) ?? []
      for (const page of ['docs/start.md', 'docs/zh/start.md'])
        assert.ok(
          read(page).includes(`**${name}** ${version}`),
          `${page} does not say **${name}** ${version}`,
        )
    })

    test('loads every entry point and runs what the README shows', async () => {
      const specifiers = entries.map(({ specifier }) => specifier)
      const said = await start(runtime, firstMinute, folder(), ...specifiers).rest()
      assert.deepEqual(said, [...specifiers, 'lock', 'all', 'barrier', 'once'])
    })

    test('memory: exclusion in order, permits, a wait that ends, a lease that uses no more than its time', async () => {
      assert.deepEqual(await start(runtime, child, 'memory').rest(), [
        'a in, a out, b in, b out, c in, c out',
        'true released',
        'the clock keeps to itself: true',
        'closed',
      ])
    })

    test('local: three processes exclude each other', async () => {
      assert.equal(await counted('local', folder(), [runtime, runtime, runtime]), 75)
    })

    // The ttl is an hour: only the end of the process can have freed the lock.
    test('local: a killed holder blocks nobody', () => inherited('local', folder(), '', runtime, runtime))

    test('local: beside Node, with socket files', async () => {
      const directory = folder()
      assert.equal(await counted('local-file', directory, [runtime, node, runtime]), 75)
      await inherited('local-file', directory, '', runtime, node)
      await inherited('local-file', directory, '', node, runtime)
    })

    for (const kind of ['ioredis', 'node-redis']) {
      test(`redis, ${kind}: processes exclude each other and those of Node`, async () => {
        assert.equal(await counted(kind, port, [runtime, node, runtime]), 75)
      })
    }

    test('redis: a killed holder blocks for its ttl', async () => {
      await inherited('ioredis', port, '5000', runtime, runtime)
    })
  })

test('Deno meets Node in a directory of abstract sockets; Bun, which has none, says so', async () => {
  const directory = folder()
  assert.equal(await counted('local', directory, [runtimes.Deno, node]), 50)
  const waits = start(runtimes.Bun, child, 'wait', 'local', directory, 'door')
  await assert.rejects(
    waits.line(),
    /is in use with abstract sockets, which Bun [\d.]+ cannot do; use a fresh directory with local\(\{ directory, socket: 'file' \}\) in all processes/,
  )
})

after(async () => {
  for (const process_ of running) process_.kill('SIGKILL')
  await server.stop()
  rmSync(home, { recursive: true, force: true })
  await leakCheck()
})
