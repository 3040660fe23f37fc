// Bundles the library and the command line into build/dist, as the package has them: few files, so that both load fast, and no module twice.
//
// Entries are the `exports` of package.json, the command line, and every file that the code starts by its URL (`new URL('./x.js',
// import.meta.url)`: processes and threads). All of the output lies in one folder, where these URLs are rewritten to point.
// The three libraries of the command line are included; the clients of stores are not.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  type BuildOptions,
  type BuildResult as BuildResultOf,
  build,
  type Metafile,
  type OnLoadArgs,
  type OnLoadResult,
  type Plugin,
  transform,
} from 'esbuild'
import { builtFile } from './dist-files.js'

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

type BuildResult = BuildResultOf<BuildOptions & { readonly metafile: true; readonly write: false }>

const entryName = (source: string) => relative(src, source).replace(/\.ts$/, '').replaceAll('/', '-')

/** Files that are started by their URL: found while bundling. */
const started = new Set<string>()

/** The library: `holdfast` within it is itself. */
const library: Plugin = {
  name: 'library',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^holdfast(\/|$)/ }, ({ path }) => ({ path: sourceFile(path), sideEffects: false }))
    onLoad({ filter: /\/src\/ui\/page-file\.ts$/ }, withPageFiles)
    onLoad({ filter: /\/src\/.+\.ts$/ }, withFlatUrls)
  },
}

/** The command line loads the library as users do, and only once it needs it: the process that the user starts never does. */
const commandLine: Plugin = {
  name: 'command line',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^holdfast(\/|$)/ }, ({ path, importer }) =>
      // It uses one function.
      importer === join(src, 'cli/duration.ts')
        ? { path: sourceFile(path), sideEffects: false }
        : { path: `./${builtFile(`.${path.slice('holdfast'.length)}`)}`, external: true },
    )
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

function sourceFile(specifier: string): string {
  const [, source] = publicEntries.find(([key]) => specifier === `holdfast${key.slice(1)}`) ?? []
  if (source === undefined) throw new Error(`${specifier} is not among the exports of package.json`)
  return source
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
      const flat = isCode ? `./${entryName(source)}.js` : `${relative(out, at)}`
      return `new URL('${flat}', import.meta.url)`
    },
  )
  return { contents, loader: 'ts' }
}

/** In the place of the module that reads the files of the page: their contents. */
function withPageFiles(): OnLoadResult {
  const folder = join(root, 'build/src/ui/page')
  const files = Object.fromEntries(
    readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), 'utf8')]),
  )
  const contents = `const files = ${JSON.stringify(files)}
    export const pageFile = (name) => new TextEncoder().encode(files[name])`
  return { contents, loader: 'js' }
}

/** @returns the files, with those that were found to be started by their URL. @param points sources, by file name without `.js` */
async function bundle(plugin: Plugin, points: Readonly<Record<string, string>>): Promise<BuildResult> {
  started.clear()
  const result = await build({
    absWorkingDir: root,
    entryPoints: points,
    outdir: out,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: `node${manifest.engines.node.replace('>=', '')}`,
    chunkNames: 'chunk-[hash]',
    plugins: [plugin],
    external: [...Object.keys(manifest.peerDependencies), '@nestjs/*', 'rxjs'],
    legalComments: 'none',
    // The package stays under its bound of 2.5 MB. The library itself stays readable in a debugger, except for `isBesideLocks`.
    minifyWhitespace: plugin === commandLine,
    minifySyntax: plugin === commandLine,
    charset: 'utf8',
    metafile: true,
    logLevel: 'warning',
    write: false,
  })
  const all = { ...points, ...Object.fromEntries([...started].map((source) => [entryName(source), source])) }
  return Object.keys(all).length > Object.keys(points).length ? await bundle(plugin, all) : result
}

const short = { minify: true, charset: 'utf8' } as const

/** What no lock runs through: the suite and the checkers, which only those who test a lock need, the page for operators, and telemetry. */
function isBesideLocks(path: string): boolean {
  const { inputs = {} } = forUsers.metafile.outputs[relative(root, path)] ?? {}
  const sources = Object.keys(inputs)
  return sources.length > 0 && sources.every((source) => /^src\/(conformance|verify|ui|otel)\//.test(source))
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

const entries = publicEntries.map(([path, source]) => [builtFile(path).slice(0, -'.js'.length), source])
const [forUsers, forShells] = await [
  await bundle(library, Object.fromEntries(entries)),
  await bundle(commandLine, { 'cli-main': join(src, 'cli/main.ts') }),
]
rmSync(out, { recursive: true, force: true })
mkdirSync(out, { recursive: true })
for (const { path, contents, text } of [...forUsers.outputFiles, ...forShells.outputFiles])
  writeFileSync(path, isBesideLocks(path) ? (await transform(text, short)).code : contents)
writeFileSync(join(out, 'LICENSES.txt'), licences(forShells.metafile))
