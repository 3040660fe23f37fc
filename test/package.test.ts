// The package as a user gets it: packed, unpacked into an empty project without any dependency, and loaded from there.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { after, before, test } from 'node:test'
import { entries, manifest, pkg, root } from './support/checkout.js'
import { leakCheck } from './support/leaks.js'

const project = mkdtempSync(join(tmpdir(), 'holdfast-package-'))
const installed = join(project, 'node_modules/holdfast')
let files: readonly string[] = []

before(() => {
  run('npm', ['pack', '--ignore-scripts', '--silent', '--pack-destination', project], root)
  const [tarball = ''] = readdirSync(project).filter((name) => name.endsWith('.tgz'))
  mkdirSync(installed, { recursive: true })
  run('tar', ['-xzf', join(project, tarball), '--strip-components=1', '-C', installed], project)
  files = readdirSync(installed, { recursive: true, encoding: 'utf8' })
})
after(() => rmSync(project, { recursive: true, force: true }))

function run(command: string, args: readonly string[], cwd: string): string {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, encoding: 'utf8' })
  assert.equal(status, 0, `${command} ${args.join(' ')}\n${stdout}${stderr}`)
  return stdout
}

for (const { specifier } of entries) {
  test(`${specifier} loads from an installation without any other package`, () => {
    const program = `console.log(Object.keys(await import('${specifier}')).length)`
    writeFileSync(join(project, 'load.mjs'), program)
    assert.ok(Number(run(process.execPath, ['load.mjs'], project)) > 0)
  })
}

test('the command starts once its libraries are there too', () => {
  for (const name of pkg.dependencies)
    symlinkSync(join(root, 'node_modules', name), join(project, 'node_modules', name))
  const command = join(installed, manifest.bin['holdfast'] ?? '')
  assert.equal(readFileSync(command, 'utf8').split('\n', 1)[0], '#!/usr/bin/env node')
  assert.match(run(process.execPath, [command, '--help'], project), /Usage: holdfast/)
})

test('the package holds the library, its sources and its papers, and nothing else', () => {
  const tops = new Set(
    files.map((path) =>
      path
        .split('/')
        .slice(0, path.startsWith('build') ? 2 : 1)
        .join('/'),
    ),
  )
  const allowed = ['build', 'build/src', 'src', 'package.json', 'README.md', 'CHANGELOG.md', 'LICENSE']
  assert.deepEqual(
    [...tops].filter((top) => !allowed.includes(top)),
    [],
  )
  for (const paper of ['README.md', 'LICENSE']) assert.ok(files.includes(paper), `${paper} is missing`)
})

test('a debugger finds the source of every published file', () => {
  const lost = files
    .filter((path) => path.endsWith('.map'))
    .filter((path) => {
      const map = JSON.parse(readFileSync(join(installed, path), 'utf8')) as {
        sourceRoot?: string
        sources: string[]
      }
      const folder = dirname(join(installed, path))
      return map.sources.some((source) => !existsSync(resolve(folder, map.sourceRoot ?? '', source)))
    })
  assert.deepEqual(lost, [], 'built from sources that are gone? npm run clean && npm run build')
})

after(leakCheck)
