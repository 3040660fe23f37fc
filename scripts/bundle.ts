// Bundles the library and the command line into build/dist, as the package has them: few files, so that both load fast, and no module twice.
//
// Entries are the `exports` of package.json, the command line, and every file that the code starts by its URL (`new URL('./x.js',
// import.meta.url)`: processes and threads). All of the output lies in one folder, where these URLs are rewritten to point.
// The three libraries of the command line are included; the clients of stores are not.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build, type Metafile, type OnLoadArgs, type OnLoadResult, type Plugin } from 'esbuild'
import { fileOf } from './dist-files.js'

const root = fileURLToPath(new URL('../../', import.meta.url))
const src = join(root, 'src')
const out = join(root, 'build/dist')

interface Manifest {
  readonly engines: { readonly node: string }
  readonly peerDependencies: Readonly<Record<string, string>>
  readonly exports: Readonly<Record<string, string | { readonly default: string }>>
}

const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Manifest

/** Key in the exports of package.json, and source. */
const publicEntries = Object.entries(manifest.exports).flatMap(([path, target]) =>
  typeof target === 'string'
    ? []
    : [[path, join(root, target.default.replace('/build/', '/').replace(/\.js$/, '.ts'))] as const],
)

const nameOf = (source: string) => relative(src, source).replace(/\.ts$/, '').replaceAll('/', '-')

/** Files that are started by their URL: found while bundling. */
const started = new Set<string>([join(src, 'cli/main.ts')])

const ours: Plugin = {
  name: 'holdfast',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^holdfast(\/|$)/ }, ({ path }) => {
      const [, source] = publicEntries.find(([key]) => path === `holdfast${key.slice(1)}`) ?? []
      return source === undefined ? undefined : { path: source, sideEffects: false }
    })
    onLoad({ filter: /\/src\/.+\.ts$/ }, withFlatUrls)
    // CommonJS libraries require built-in modules, which a bundle of ES modules can only import.
    onLoad({ filter: /\/node_modules\/.+\.js$/ }, ({ path }) => ({
      contents: readFileSync(path, 'utf8').replace(
        /\brequire\((['"])([\w:/]+)\1\)/g,
        (whole, _quote, name) => (isBuiltin(name) ? `${whole}.default` : whole),
      ),
    }))
    onResolve({ filter: /^[\w:/]+$/ }, ({ path, kind }) =>
      kind === 'require-call' && isBuiltin(path) ? { path, namespace: 'builtin' } : undefined,
    )
    onLoad({ filter: /./, namespace: 'builtin' }, ({ path }) => ({
      contents: `export { default } from ${JSON.stringify(path)}`,
    }))
  },
}

function withFlatUrls({ path }: OnLoadArgs): OnLoadResult {
  const text = readFileSync(path, 'utf8')
  const contents = text.replace(
    /new URL\(\s*'(\.[^']*)',\s*import\.meta\.url,?\s*\)/g,
    (_whole, to: string) => {
      // Relative to the compiled file.
      const at = resolve(dirname(path.replace(src, join(root, 'build/src'))), to)
      const source = at.replace(join(root, 'build/src'), src).replace(/\.js$/, '.ts')
      const isCode = to.endsWith('.js')
      if (isCode) started.add(source)
      const flat = isCode ? `./${nameOf(source)}.js` : `${relative(out, at)}${to.endsWith('/') ? '/' : ''}`
      return `new URL('${flat}', import.meta.url)`
    },
  )
  return { contents, loader: 'ts' }
}

async function bundle(): Promise<Metafile> {
  const before = started.size
  const points = Object.fromEntries([
    ...publicEntries.map(([path, source]) => [fileOf(path).slice(0, -3), source]),
    ...[...started].map((source) => [nameOf(source), source]),
  ])
  const { metafile, outputFiles } = await build({
    absWorkingDir: root,
    entryPoints: points,
    outdir: out,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: `node${manifest.engines.node.replace('>=', '')}`,
    chunkNames: 'chunk-[hash]',
    plugins: [ours],
    external: [...Object.keys(manifest.peerDependencies), '@nestjs/*', 'rxjs'],
    legalComments: 'none',
    metafile: true,
    logLevel: 'warning',
    write: false,
  })
  // Files found on the way are entries of the next round.
  if (started.size > before) return await bundle()
  rmSync(out, { recursive: true, force: true })
  mkdirSync(out, { recursive: true })
  for (const { path, contents } of outputFiles) writeFileSync(path, contents)
  return metafile
}

/** What the licences of the bundled libraries ask for. */
function licences({ inputs }: Metafile): string {
  const folders = new Set(
    Object.keys(inputs).flatMap((path) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? []),
  )
  const texts = [...folders].sort().map((folder) => {
    const { name, version } = JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8')) as {
      name: string
      version: string
    }
    const file = readdirSync(join(root, folder)).find((each) => /^licen[cs]e/i.test(each))
    if (file === undefined) throw new Error(`${folder} has no licence`)
    return `${name} ${version}\n\n${readFileSync(join(root, folder, file), 'utf8').trim()}\n`
  })
  return `The command line includes these libraries.\n\n${texts.join(`\n${'-'.repeat(40)}\n\n`)}`
}

const metafile = await bundle()
writeFileSync(join(out, 'LICENSES.txt'), licences(metafile))
