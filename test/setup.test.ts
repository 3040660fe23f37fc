// The parts that every driver, file and entry point must have, so that none is incomplete.
import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { testFiles } from '../scripts/test-files.js'
import { entries, listFiles, manifest, read, root } from './support/checkout.js'
import { leakCheck } from './support/leaks.js'

const here = (path: string): boolean => existsSync(join(root, path))
const drivers = readdirSync(join(root, 'src/drivers'), { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && entry.name !== 'kit')
  .map((entry) => entry.name)

for (const name of drivers) {
  test(`the ${name} driver has its entry point, test, page and row in the README`, () => {
    const lacks: string[] = []
    const source = `src/drivers/${name}/index.ts`
    if (!here(source)) lacks.push(source)
    if (entries.find(({ specifier }) => specifier === `holdfast/${name}`)?.source !== source) {
      lacks.push(`exports["./${name}"] in package.json`)
    }
    for (const path of [`test/conformance/${name}.test.ts`, `docs/drivers/${name}.md`])
      if (!here(path)) lacks.push(path)
    const rows = here('README.md')
      ? read('README.md')
          .split('\n')
          .filter((line) => line.startsWith('|'))
      : []
    if (!rows.some((row) => row.includes(`docs/drivers/${name}.md`))) {
      lacks.push(`a row of README.md's driver table that links to docs/drivers/${name}.md`)
    }
    assert.deepEqual(lacks, [])
  })
}

test('there are drivers', () => {
  assert.ok(drivers.includes('memory'))
})

for (const { specifier, source, built } of entries) {
  test(`${specifier} has a source and was built`, () => {
    assert.deepEqual(
      [source, built].filter((path) => !here(path)),
      [],
    )
  })
}

test('the command line was bundled', () => {
  for (const path of Object.values(manifest.bin)) assert.ok(here(path), `${path} is missing`)
})

test('the lock file has the programs of every platform, or `npm ci` refuses it elsewhere', () => {
  const { packages } = JSON.parse(read('package-lock.json')) as {
    packages: Record<string, { optionalDependencies?: Record<string, string> }>
  }
  const wanted = Object.values(packages).flatMap((entry) => Object.keys(entry.optionalDependencies ?? {}))
  assert.ok(wanted.length > 0)
  assert.deepEqual(
    wanted.filter((name) => !packages[`node_modules/${name}`]),
    [],
  )
})

test('every test file has its leak check', () => {
  const lacks = listFiles('test', '.test.ts').filter(
    (path) => !/^after\(leakCheck\)$|^ {2}await leakCheck\(\)$/m.test(read(path)),
  )
  assert.deepEqual(lacks, [])
})

/** Lines of shell of all pages, without comments. */
function commands(): string[] {
  const pages = [...readdirSync(root).filter((name) => name.endsWith('.md')), ...listFiles('docs', '.md')]
  return pages.flatMap((page) => {
    const text = read(page)
    const fences = [...text.matchAll(/^```sh\n([\s\S]*?)^```/gm)].flatMap(([, lines = '']) =>
      lines.split('\n'),
    )
    const inline = [...text.matchAll(/`(n(?:pm|px) [^`]+)`/g)].map(([, line = '']) => line)
    return [...fences, ...inline]
      .map((line) => line.replace(/\s#.*/, '').trim())
      .filter((line) => line !== '')
  })
}

test('every command of CONTRIBUTING and the other pages that begins with npm, npx or a path is there', () => {
  const tests = testFiles().map(({ source }) => source)
  const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }
  const lacks = commands().flatMap((line) => {
    const [, script] = /\bnpm run (?:--silent )?([\w:]+)/.exec(line) ?? []
    if (script !== undefined && scripts[script] === undefined) return [`${line}: no script ${script}`]
    const [, program = ''] = /\bnpx ([\w-]+)/.exec(line) ?? []
    if (program !== '' && program !== 'holdfast' && !here(`node_modules/.bin/${program}`))
      return [`${line}: no program`]
    const [path = ''] = /^\.ci\/\S+/.exec(line) ?? []
    if (path !== '' && !here(path)) return [`${line}: no file`]
    return missingTests(line, tests)
  })
  assert.deepEqual(lacks, [])
})

/** Words of `npm test --` that select no file, and a pattern that no test of the selected files has in its name. */
function missingTests(line: string, tests: readonly string[]): string[] {
  const [, args] = /\bnpm test -- (.+)/.exec(line) ?? []
  if (args === undefined) return []
  const [, only = ''] = /--only='?([^']+)'?/.exec(args) ?? []
  const words = args
    .replace(/--only=('[^']*'|\S+)/, '')
    .split(' ')
    .filter((word) => /^[\w./-]+$/.test(word) && !word.startsWith('-'))
  const lost = words.filter((word) => !tests.some((path) => path.includes(word)))
  const selected = tests.filter((path) => words.some((word) => path.includes(word)))
  const found =
    only === '' ||
    [...selected, ...listFiles('src/conformance', '.ts')].some((path) => read(path).includes(only))
  return [
    ...lost.map((word) => `${line}: no test file has ${word}`),
    ...(found ? [] : [`${line}: no test has ${only}`]),
  ]
}

test('the check of commands sees a word that selects no file, and a pattern that no test has', () => {
  const tests = testFiles().map(({ source }) => source)
  assert.deepEqual(missingTests('npm test -- core/watchdog', tests), [])
  assert.equal(missingTests('npm test -- core/no-such-file', tests).length, 1)
  assert.equal(missingTests("npm test -- core/watchdog --only='no such test'", tests).length, 1)
})

test('a file of more than 200 lines says at its top why it is long', () => {
  const sources = ['src', 'lab', 'bench', 'scripts', 'examples'].flatMap((folder) => listFiles(folder, '.ts'))
  assert.deepEqual(
    sources.flatMap((path) => tooLong(path, read(path)) ?? []),
    [],
  )
})

test('the length check finds a long file without a reason, and takes one with it', () => {
  const long = 'x\n'.repeat(201)
  assert.equal(tooLong('a.ts', long), "a.ts has 201 lines and no comment 'Long because ...' in its first 12")
  assert.equal(tooLong('a.ts', 'x\n'.repeat(200)), undefined)
  assert.equal(
    tooLong('a.ts', `// What it is.\n// Long because one table is easier to read than two.\n${long}`),
    undefined,
  )
  assert.equal(tooLong('a.ts', `/**\n * What it is.\n *\n * Long because it is.\n */\n${long}`), undefined)
  assert.notEqual(tooLong('a.ts', `${'\n'.repeat(12)}// Long because.\n${long}`), undefined)
})

function tooLong(path: string, text: string): string | undefined {
  const lines = text.trimEnd().split('\n')
  if (
    lines.length <= 200 ||
    lines.slice(0, 12).some((line) => /^\s*(?:\/\/|\/?\*+)\s*Long because /.test(line))
  )
    return
  return `${path} has ${lines.length} lines and no comment 'Long because ...' in its first 12`
}

after(leakCheck)
