import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join, posix } from 'node:path'
import { after, test } from 'node:test'
import { entries, listFiles, pkg, read, root } from './support/checkout.js'
import { blank, parseImports } from './support/imports.js'
import { cycles, layerViolations, packageName } from './support/layers.js'
import { leakCheck } from './support/leaks.js'

const published = texts('src')

function texts(...folders: string[]): Map<string, string> {
  return new Map(folders.flatMap((folder) => listFiles(folder, '.ts')).map((path) => [path, read(path)]))
}

test('every import keeps to the layers', () => {
  const found = layerViolations(texts('src', 'lab', 'bench', 'examples'), pkg)
  assert.deepEqual(found, [])
})

test('no two source files load each other, directly or around', () => {
  assert.deepEqual(cycles(published, pkg), [])
})

/** The first two are stores: tokens stand on the wall clock (ADR 0005). The third says how old things are, to people only. */
const readsWall = [
  'src/drivers/local/broker-thread.ts',
  'src/drivers/memory/driver.ts',
  'src/drivers/kit/server-time.ts',
]

test('core, locks and drivers read time and set timers through core/clock.ts alone', () => {
  const found = [...published]
    .filter(([path]) => /^src\/(core|locks|drivers)\//.test(path) && path !== 'src/core/clock.ts')
    .flatMap(([path, text]) => clockUse(text).map((use) => `${path}: ${use}`))
    .filter((use) => !readsWall.some((path) => use.startsWith(path)))
  assert.deepEqual(found, [])
})

test('the clock check finds each way to read time or wait, and none in comments and strings', () => {
  const uses = [
    'Date.now',
    'new Date',
    'performance.now',
    'process.hrtime',
    'setTimeout',
    'setInterval',
    'AbortSignal.timeout',
  ]
  for (const use of uses) assert.deepEqual(clockUse(`const x = ${use}()`), [use])
  assert.deepEqual(
    clockUse("// setTimeout\nconst a = 'Date.now()'\nconst clearTimeoutLater = b.setTimeout"),
    [],
  )
})

function clockUse(text: string): string[] {
  const uses =
    /(?<![.\w])(?:Date\.now|new Date|performance\.\w+|process\.(?:hrtime|uptime)|setTimeout|setInterval|AbortSignal\.timeout)\b/g
  return blank(text).match(uses) ?? []
}

/** They decide, and another file performs what they decide. */
const decides = [
  'src/core/lease-plan.ts',
  'src/core/lease-record.ts',
  'src/core/queue-state.ts',
  'src/core/reply-outcome.ts',
  'src/core/validity.ts',
  'src/core/mode.ts',
  'src/drivers/memory/table.ts',
  'src/drivers/memory/admission.ts',
]

test('decision functions read no clock, wait for nothing and notify nobody', () => {
  const acts =
    /\b(?:async|await|Promise|AbortSignal|AbortController|addEventListener|emit|clock\.\w+|Engine|random\(\))(?!\w)/g
  const found = decides.flatMap((path) =>
    (blank(published.get(path) ?? 'await nothing: no such file').match(acts) ?? []).map(
      (use) => `${path}: ${use}`,
    ),
  )
  assert.deepEqual(found, [])
  assert.ok(
    blank(published.get('src/core/watchdog.ts') ?? '').match(acts),
    'the check finds nothing anywhere',
  )
})

test("core and locks never branch on a driver's name", () => {
  const branch = /driver\.name\s*[!=]==?|switch\s*\(\s*[\w.]*driver\.name/
  const found = [...published]
    .filter(([path, text]) => /^src\/(core|locks)\//.test(path) && branch.test(blank(text)))
    .map(([path]) => path)
  assert.deepEqual(found, [])
  assert.ok(branch.test("if (engine.driver.name === 'x')"))
})

test('nothing that an entry point loads is a package', () => {
  const seen = new Set<string>()
  const packages: string[] = []
  const walk = (path: string): void => {
    if (seen.has(path)) return
    seen.add(path)
    for (const { specifier, line } of parseImports(read(path))) {
      if (specifier === undefined) continue
      const own = entries.find((entry) => entry.specifier === specifier)?.built
      const target =
        own ?? (specifier.startsWith('.') ? posix.join(posix.dirname(path), specifier) : undefined)
      if (target === undefined && !specifier.startsWith('node:'))
        packages.push(`${path}:${line}: ${packageName(specifier)}`)
      if (target?.endsWith('.js')) walk(target)
    }
  }
  for (const { built } of entries) if (existsSync(join(root, built))) walk(built)
  assert.deepEqual(packages, [])
  assert.ok(seen.size > entries.length, `the walk only saw ${seen.size} files`)
})

const bad: readonly (readonly [path: string, line: string, complaint: RegExp])[] = [
  ['src/core/lease.ts', "import { mutex } from '../locks/mutex.js'", /core must not import locks/],
  [
    'src/core/lease.ts',
    "import type { Redis } from 'ioredis'",
    /must not import the client 'ioredis', not even its types/,
  ],
  ['src/core/lease.ts', "export * from '../drivers/kit/index.js'", /core must not import drivers\/kit/],
  [
    'src/locks/mutex.ts',
    "import {\n  memory,\n} from '../drivers/memory/index.js'",
    /locks must not import drivers\/memory/,
  ],
  [
    'src/drivers/redis/index.ts',
    "import { mutex } from '../../locks/mutex.js'",
    /drivers\/redis must not import locks/,
  ],
  [
    'src/drivers/redis/index.ts',
    "import '../memory/index.js'",
    /drivers\/redis must not import drivers\/memory/,
  ],
  ['src/drivers/redis/index.ts', "const redis = await import('redis')", /must not import the client 'redis'/],
  ['src/drivers/redis/index.ts', "import { Lease } from 'holdfast'", /must import 'holdfast' by path/],
  [
    'src/drivers/kit/poll.ts',
    "import { z } from '@scope/zod/mini'",
    /must not import the package '@scope\/zod'/,
  ],
  [
    'src/drivers/local/index.ts',
    "new Worker(new URL('../../cli/main.js', import.meta.url))",
    /must not import cli/,
  ],
  [
    'src/drivers/local/index.ts',
    'const broker = await import(`./$' + '{name}.js`)',
    /what only run time knows/,
  ],
  [
    'src/conformance/index.ts',
    "import { now } from '../core/clock.js'",
    /conformance must not import core.*public entry point/,
  ],
  ['src/cli/main.ts', "import { Redis } from 'ioredis'", /may be absent: import\(\) it/],
  ['src/cli/main.ts', "import chalk from 'chalk'", /cli must not import the package 'chalk'/],
  ['src/cli/main.ts', "import { lease } from 'holdfast/core'", /'holdfast\/core' is no entry point/],
  ['examples/one.ts', "import { createLocks } from '../src/index.js'", /examples must not import root/],
  ['src/misc/x.ts', '', /no layer has this folder/],
]
for (const [path, line, complaint] of bad) {
  test(`the check finds \`${line.replaceAll('\n', ' ')}\` in ${path}`, () => {
    const found = layerViolations(new Map([[path, `// a comment\n${line}\n`]]), pkg)
    assert.equal(found.length, 1)
    assert.match(found[0] ?? '', complaint)
  })
}

test('the check lets pass what the layers allow', () => {
  const good: [string, string][] = [
    ['src/locks/mutex.ts', "import type { Lease } from '../core/lease.js'"],
    ['src/drivers/redlock/index.ts', "import { script } from '../redis/scripts.js'"],
    ['src/cli/main.ts', "import { Command } from 'commander'\nconst { Redis } = await import('ioredis')"],
    ['src/verify/index.ts', "import { createLocks } from 'holdfast'\nimport { join } from 'node:path'"],
    ['lab/main.ts', "import { startRedis } from '../test/support/servers/redis.js'"],
    [
      'src/core/lease.ts',
      "/** import { a } from 'a' */\nconst lua = `\nimport 'b'\n`\n// import 'c'\nconst d = '/*'\nconst e = /['`]/",
    ],
  ]
  assert.deepEqual(layerViolations(new Map(good), pkg), [])
})

test('the check finds a cycle, also one through an entry point, but not one of types', () => {
  const loop = new Map([
    ['src/a.ts', "import { b } from './b.js'"],
    ['src/b.ts', "export { c } from './c.js'"],
    ['src/c.ts', "const a = () => import('./a.js')"],
  ])
  assert.deepEqual(cycles(loop, pkg), ['src/a.ts → src/b.ts → src/c.ts → src/a.ts'])
  const self = new Map([
    ['src/index.ts', "import './b.js'"],
    ['src/b.ts', "import 'holdfast'\nimport type { A } from './index.js'"],
  ])
  assert.deepEqual(cycles(self, pkg), ['src/index.ts → src/b.ts → src/index.ts'])
  const types = new Map([
    ['src/a.ts', "import type { B } from './b.js'"],
    ['src/b.ts', "import { a } from './a.js'"],
  ])
  assert.deepEqual(cycles(types, pkg), [])
})

after(leakCheck)
