// The package as a user gets it: packed, unpacked into an empty project without any dependency, and loaded from there.
// Second tier because it packs, installs and publishes; `npm run check` looks at the same package.
import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join, posix } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { entries, manifest, root } from './support/checkout.js'
import { leakCheck } from './support/leaks.js'
import { brokenLinks, parseLinks } from './support/markdown.js'

const project = mkdtempSync(join(tmpdir(), 'holdfast-package-'))
const installed = join(project, 'node_modules/holdfast')
/** Paths of files. */
let files: readonly string[] = []

before(() => {
  run(process.execPath, [join(root, 'build/scripts/package.js')], root)
  const from = join(root, 'build/package')
  run('npm', ['pack', '--ignore-scripts', '--silent', '--pack-destination', project], from)
  const [tarball = ''] = readdirSync(project).filter((name) => name.endsWith('.tgz'))
  mkdirSync(installed, { recursive: true })
  run('tar', ['-xzf', join(project, tarball), '--strip-components=1', '-C', installed], project)
  files = readdirSync(installed, { recursive: true, encoding: 'utf8' }).filter((path) =>
    statSync(join(installed, path)).isFile(),
  )
})
after(() => rmSync(project, { recursive: true, force: true }))

function run(command: string, args: readonly string[], cwd: string): string {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, encoding: 'utf8' })
  assert.equal(status, 0, `${command} ${args.join(' ')}\n${stdout}${stderr}`)
  return stdout
}

/** Runs a program in the project. */
function program(text: string): string {
  writeFileSync(join(project, 'program.mjs'), text)
  return run(process.execPath, ['program.mjs'], project)
}

for (const { specifier } of entries) {
  test(`${specifier} loads from an installation without any other package`, async () => {
    const names = `console.log(JSON.stringify(Object.keys(await import('${specifier}')).sort()))`
    assert.deepEqual(JSON.parse(program(names)), Object.keys(await import(specifier)).sort())
  })
}

test('the stack of a leaked lease begins at the line of its caller', () => {
  const text = `
    import { createLocks } from 'holdfast'
    import { memory } from 'holdfast/memory'
    const locks = createLocks(memory(), { leakWarning: { times: 2, atLeast: 1 } })
    process.removeAllListeners('warning')
    // A lease alone keeps no process alive, nor does the look for leaks.
    const alive = setInterval(() => undefined, 1_000)
    const leaked = new Promise((resolve) => locks.on('leaked', resolve))
    for (let i = 0; i < 5; i++) await locks.mutex('x').run(() => undefined)
    const lease = await locks.mutex('x').acquire()
    console.log((await leaked).stack.split('\\n')[0])
    clearInterval(alive)
    await lease.release()
    await locks.close()`
  assert.match(program(text), /^ +at file:.*program\.mjs:10:/)
})

test('entry points share their modules: an error of one is an instance of the class of another', () => {
  const text = `
    import { AcquireTimeoutError, createLocks } from 'holdfast'
    import { memory } from 'holdfast/memory'
    const locks = createLocks(memory())
    await using held = await locks.mutex('x').acquire()
    const error = await locks.mutex('x').acquire({ wait: 0 }).catch((error) => error)
    console.log(error instanceof AcquireTimeoutError)
    await held.release()
    await locks.close()`
  assert.equal(program(text.replace('await using', 'const')), 'true\n')
})

test('a compiler finds the declarations of every entry point, and all that they refer to', () => {
  const published = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8')) as typeof manifest
  const seen = new Set<string>()
  const look = (path: string): void => {
    if (seen.has(path)) return
    seen.add(path)
    assert.ok(files.includes(path), `${path} is missing`)
    const text = readFileSync(join(installed, path), 'utf8')
    for (const [, specifier = ''] of text.matchAll(/\b(?:from|import) ?\(?["'](\.[^"']+)\.js["']/g))
      look(posix.join(posix.dirname(path), `${specifier}.d.ts`))
  }
  for (const entry of Object.values(published.exports))
    if (typeof entry !== 'string') look(entry.types.slice(2))
  assert.ok(seen.size > entries.length)
})

test('the command works without any other package', () => {
  const command = join(installed, manifest.bin['holdfast'] ?? '')
  assert.equal(readFileSync(command, 'utf8').split('\n', 1)[0], '#!/usr/bin/env node')
  const on = `local:${join(project, 'locks')}`
  assert.match(run(process.execPath, [command, '--help'], project), /Usage: holdfast/)
  assert.equal(
    run(process.execPath, [command, 'run', 'x', '--on', on, '--', 'echo', 'ran'], project),
    'ran\n',
  )
  assert.match(run(process.execPath, [command, 'ls', '--on', on], project), /no lock is held/)
  const demo = JSON.parse(run(process.execPath, [command, 'demo', '--workers', '2', '--json'], project))
  assert.equal((demo as { ok: boolean }).ok, true)
})

const servesPage = `
  import { createLocks } from 'holdfast'
  import { memory } from 'holdfast/memory'
  import { lockPage } from 'holdfast/ui'
  const locks = createLocks(memory())
  const page = lockPage({ stores: { main: locks } })
  for (const path of ['', 'page.js', 'page.css', 'icon.svg']) {
    const reply = await page.fetch(new Request('http://localhost/' + path, { headers: { host: 'localhost' } }))
    console.log(reply.status, (await reply.text()).length > 100)
  }
  await locks.close()`

test('the published page is served with its files', () => {
  assert.equal(program(servesPage), '200 true\n'.repeat(4))
})

test('the published page is served by an application that a bundler has made one file of', () => {
  const folder = join(project, 'bundled')
  const [entry, outfile] = [join(project, 'application.mjs'), join(folder, 'application.mjs')]
  writeFileSync(entry, servesPage)
  const options = ['--bundle', '--format=esm', '--platform=node', `--outfile=${outfile}`]
  run(join(root, 'node_modules/.bin/esbuild'), [entry, ...options, '--log-level=warning'], project)
  assert.equal(run(process.execPath, [outfile], folder), '200 true\n'.repeat(4))
})

test('`local` in a bundle says what is missing, and works when the bundler leaves holdfast out', () => {
  const [entry, outfile] = [join(project, 'locking.mjs'), join(project, 'bundled/locking.mjs')]
  writeFileSync(
    entry,
    `import { createLocks } from 'holdfast'
    import { local } from 'holdfast/local'
    const locks = createLocks(local({ directory: '${join(project, 'bundled/locks')}' }))
    console.log(await locks.mutex('a').run(() => 'held').catch((error) => error.message))
    await locks.close()`,
  )
  const printed = (...options: string[]) => {
    const all = ['--bundle', '--format=esm', '--platform=node', `--outfile=${outfile}`, '--log-level=warning']
    run(join(root, 'node_modules/.bin/esbuild'), [entry, ...all, ...options], project)
    return run(process.execPath, [outfile], project)
  }
  assert.match(
    printed(),
    /Cannot find module '.*broker-thread.js' \(inside a bundle\? holdfast must be external to it\)/,
  )
  assert.equal(printed('--external:holdfast'), 'held\n')
})

test('the published driver passes the published conformance suite', () => {
  const command = join(installed, manifest.bin['holdfast'] ?? '')
  const on = `local:${join(project, 'verified')}`
  const args = ['verify', '--on', on, '--only', 'exclusion,tokens', '--minutes', '0.05', '--json']
  const { verdict, suite } = JSON.parse(run(process.execPath, [command, ...args], project)) as {
    verdict: string
    suite: { passed: number; failed: unknown[] }
  }
  assert.deepEqual([verdict, suite.failed], ['sound', []])
  assert.ok(suite.passed > 5, `${suite.passed} tests ran`)
})

test('the package has the bundle, its declarations and its pages, and nothing else', () => {
  const kinds = new Set(files.map((path) => path.replace(/^build\/dist\/[^/]+\.js$/, 'build/dist/*.js')))
  const others = [...kinds].filter((path) => !/^build\/src\/.+\.d\.ts$|^docs\/.+\.md$/.test(path)).sort()
  assert.deepEqual(others, [
    'CHANGELOG.md',
    'LICENSE',
    'README.md',
    'README.zh-CN.md',
    'build/dist/*.js',
    'build/dist/LICENSES.txt',
    'package.json',
  ])
})

test('every link of every page leads to a heading or a file of the package, or elsewhere by an address', () => {
  const pages = files.filter((path) => path.endsWith('.md'))
  for (const page of [
    'README.md',
    'README.zh-CN.md',
    'docs/start.md',
    'docs/zh/start.md',
    'docs/drivers/redis.md',
  ])
    assert.ok(pages.includes(page), `${page} is missing`)
  const text = (path: string): string => readFileSync(join(installed, path), 'utf8')
  const maybe = (path: string): string | undefined => (files.includes(path) ? text(path) : undefined)
  assert.deepEqual(
    pages.flatMap((page) => brokenLinks(page, text(page), maybe)),
    [],
  )
  const targets = parseLinks(text('README.md')).map(({ target }) => target)
  for (const { specifier } of entries.filter(({ source }) => source.startsWith('src/drivers/')))
    if (specifier !== 'holdfast/driver')
      assert.ok(targets.includes(`docs/drivers/${specifier.slice('holdfast/'.length)}.md`), specifier)
})

test('npm would publish it as it is, with nothing to correct', async () => {
  // A registry in which no version of it is.
  const registry = createServer((_request, response) => response.writeHead(404).end('{}')).listen(
    0,
    '127.0.0.1',
  )
  await once(registry, 'listening')
  const address = `127.0.0.1:${(registry.address() as AddressInfo).port}`
  const settings = join(project, 'npmrc')
  writeFileSync(settings, `registry=http://${address}/\n//${address}/:_authToken=none\n`)
  try {
    const args = ['publish', '--dry-run', '--ignore-scripts', '--userconfig', settings]
    const cwd = join(root, 'build/package')
    // What starts these tests may have settings of npm, which the environment hands down.
    const env = Object.fromEntries(
      Object.entries(process.env).filter(([name]) => !/^npm_config_/i.test(name)),
    )
    const { stdout, stderr } = await promisify(execFile)('npm', args, { cwd, env })
    assert.match(stdout, /^\+ holdfast@\d/)
    const said = stderr.split('\n').filter((line) => line !== '' && !line.startsWith('npm notice'))
    assert.deepEqual(said, [])
  } finally {
    registry.close()
    registry.closeAllConnections()
  }
})

test('it takes at most 2.5 MB, installs no other package and refers to no source map', () => {
  const sizes = files.map((path) => statSync(join(installed, path)).size)
  const total = sizes.reduce((sum, size) => sum + size, 0)
  assert.ok(total <= 2_500_000, `${total} bytes`)
  const published = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8')) as object
  assert.deepEqual(
    Object.keys(published).filter((key) => /^(dev|optional)?dependencies$/i.test(key)),
    [],
  )
  const mapped = files.filter((path) =>
    /^\/\/# sourceMappingURL=/m.test(readFileSync(join(installed, path), 'utf8')),
  )
  assert.deepEqual(mapped, [])
})

test('the licences of the bundled libraries are in the package', () => {
  const licences = readFileSync(join(installed, 'build/dist/LICENSES.txt'), 'utf8')
  for (const name of ['cli-table3', 'commander', 'picocolors'])
    assert.match(licences, new RegExp(`^${name} \\d`, 'm'))
})

after(leakCheck)
