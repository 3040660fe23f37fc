// What `npm test` runs: brings build/ up to date, then runs build/scripts/test.js. JavaScript, because it runs before anything is compiled.
//
// Without words, it is `npm run build`, as in CI. With words of file paths, esbuild transpiles the files that are newer than what was built
// from them, and types are not checked: that is the loop of editing and trying. Both write the same modules. Declarations and the bundle are
// the build's alone, so it runs where there are none yet, and for tests that use them. tsc writes only what has changed since it last ran, so
// it must forget that after files were transpiled: a source that is edited, tried and put back would keep what was made of the edit.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const folders = ['src', 'test', 'bench', 'lab', 'examples', 'scripts']
/** As in tsconfig.json: projects of their own. */
const others = ['examples/nestjs', 'examples/bullmq']

const words = process.argv.slice(2).filter((arg) => !arg.startsWith('-'))
if (words.length === 0 || needTypes(words)) compile()
else await transpile(folders.flatMap(sourcesIn).filter(isStale))
await import(new URL('../build/scripts/test.js', import.meta.url).href)

function needTypes(words) {
  if (!existsSync(join(root, 'build/src/index.d.ts'))) return true
  const tests = sourcesIn('test').filter((path) => path.endsWith('.test.ts'))
  return tests.some(
    (path) =>
      words.some((word) => path.includes(word)) &&
      /typescript\/bin\/tsc|build\/dist|support\/(cli|matrix)\.js|build\/src\/ui\/page/.test(
        readFileSync(join(root, path), 'utf8'),
      ),
  )
}

function compile() {
  const { status } = spawnSync('npm', ['run', '--silent', 'build'], { cwd: root, stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}

/** The TypeScript files below a folder, without packages and projects of their own. */
function sourcesIn(folder) {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory())
      return others.includes(path) || entry.name === 'node_modules' ? [] : sourcesIn(path)
    return path.endsWith('.ts') ? [path] : []
  })
}

function isStale(path) {
  const built = statSync(builtFrom(path), { throwIfNoEntry: false })
  return built === undefined || built.mtimeMs < statSync(join(root, path)).mtimeMs
}

function builtFrom(path) {
  return join(root, 'build', path.replace(/\.ts$/, '.js'))
}

async function transpile(paths) {
  if (paths.length === 0) return
  rmSync(join(root, 'build/tsconfig.tsbuildinfo'), { force: true })
  const { transform } = await import('esbuild')
  const results = await Promise.allSettled(paths.map((path) => transpileOne(path, transform)))
  const failed = results.filter(({ status }) => status === 'rejected')
  for (const { reason } of failed) console.error(reason.message)
  if (failed.length > 0) process.exit(1)
}

async function transpileOne(path, transform) {
  const built = builtFrom(path)
  const { code, map } = await transform(readFileSync(join(root, path), 'utf8'), {
    loader: 'ts',
    format: 'esm',
    target: 'es2022',
    sourcemap: 'external',
    sourcefile: `${'../'.repeat(path.split('/').length)}${path}`,
    sourcesContent: false,
    tsconfigRaw: { compilerOptions: { verbatimModuleSyntax: true, target: 'es2022' } },
  })
  mkdirSync(dirname(built), { recursive: true })
  writeFileSync(`${built}.map`, map)
  writeFileSync(built, `${code}//# sourceMappingURL=${basename(built)}.map\n`)
}
