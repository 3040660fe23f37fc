// The public API as text, one file per entry point, so that a change to it is seen in review, and the reference made from it.
//
//   npm run api:write    writes docs/api/<entry>.txt, docs/reference/*.md and docs/zh/reference/*.md
//   npm run check:api    fails if what is written there is not what the code says
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { CompilerState, Extractor, ExtractorConfig, ExtractorLogLevel } from '@microsoft/api-extractor'
import { readModel } from './reference/model.js'
import { referencePages } from './reference/pages.js'

interface Entry {
  /** `holdfast/redis` */
  readonly specifier: string
  /** `redis.txt` */
  readonly file: string
  readonly declarations: string
}

const root = fileURLToPath(new URL('../..', import.meta.url))
const docs = join(root, 'docs')
const scratch = join(root, 'build/api')
/** Up to the name that a declaration declares. */
const keyword =
  /^(?:export |default |declare |abstract )*(?:interface|type|class|const|let|function|enum) ([\w$]+)/
const silent = { default: { logLevel: ExtractorLogLevel.None } }

const entries = readEntries()
const missing = entries.filter(({ declarations }) => !existsSync(declarations))
for (const { specifier, declarations } of missing) {
  console.error(`'${specifier}' is exported by package.json, but ${declarations} is missing`)
}
if (missing.length > 0) process.exit(1)
const reports = new Map([...report(entries)].map(([file, text]) => [`api/${file}`, text]))
const models = entries.map(({ specifier, file }) => readModel(specifier, modelFile(file)))
const { pages, complaint } = await referencePages(models)
for (const [file, text] of pages) reports.set(file, text)
if (process.argv.includes('--write')) write(reports)
else check(reports)
if (complaint !== undefined) {
  console.error(complaint)
  process.exitCode = 1
}

function readEntries(): Entry[] {
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    exports: Record<string, string | { types: string }>
  }
  return Object.entries(exports).flatMap(([path, target]) => {
    if (typeof target === 'string') return []
    const name = path === '.' ? 'holdfast' : path.slice(2)
    const specifier = path === '.' ? name : `holdfast/${name}`
    return [{ specifier, file: `${name.replaceAll('/', '-')}.txt`, declarations: join(root, target.types) }]
  })
}

function report(entries: readonly Entry[]): Map<string, string> {
  mkdirSync(scratch, { recursive: true })
  const configs = entries.map(configure)
  const [first] = configs
  if (first === undefined) throw new Error('package.json exports no entry point')
  const compilerState = CompilerState.create(first, {
    additionalEntryPoints: entries.map(({ declarations }) => declarations),
  })
  const raw = configs.map((config, at) => {
    const { succeeded } = Extractor.invoke(config, {
      compilerState,
      localBuild: true,
      messageCallback: (message) => {
        if (message.logLevel !== ExtractorLogLevel.Error) message.handled = true
      },
    })
    if (!succeeded) throw new Error(`the API of '${entries[at]?.specifier}' could not be read`)
    return readFileSync(config.reportFilePath, 'utf8')
  })
  const exported = new Set(raw.flatMap(exportedBy))
  return new Map(
    entries.map(({ specifier, file }, at) => [file, readable(specifier, raw[at] ?? '', exported)]),
  )
}

/** Where API Extractor writes what it read, as JSON. */
function modelFile(file: string): string {
  return join(scratch, file.replace('.txt', '.api.json'))
}

function configure({ file, declarations }: Entry): ExtractorConfig {
  return ExtractorConfig.prepare({
    configObjectFullPath: undefined,
    packageJsonFullPath: join(root, 'package.json'),
    configObject: {
      projectFolder: root,
      mainEntryPointFilePath: declarations,
      compiler: {
        overrideTsconfig: {
          files: [declarations],
          compilerOptions: {
            target: 'es2022',
            lib: ['es2023', 'esnext.disposable'],
            module: 'nodenext',
            moduleResolution: 'nodenext',
            strict: true,
            skipLibCheck: true,
            types: ['node'],
            typeRoots: [join(root, 'node_modules/@types')],
          },
        },
      },
      apiReport: {
        enabled: true,
        includeForgottenExports: true,
        reportFileName: file.replace('.txt', ''),
        reportFolder: scratch,
        reportTempFolder: join(scratch, 'temp'),
      },
      docModel: { enabled: true, apiJsonFilePath: modelFile(file) },
      dtsRollup: { enabled: false },
      tsdocMetadata: { enabled: false },
      newlineKind: 'lf',
      messages: {
        compilerMessageReporting: silent,
        extractorMessageReporting: silent,
        tsdocMessageReporting: silent,
      },
    },
  })
}

/**
 * What API Extractor wrote, without its Markdown around it and the remarks that everything is public. It also tells the
 * declarations that an entry point uses without exporting them; those that another one exports are told there.
 */
function readable(specifier: string, report: string, exported: ReadonlySet<string>): string {
  const lines = parseCode(report)
    .split('\n')
    .filter((line) => !/^\s*\/\/ (@public|\(undocumented\)|\(No @package)/.test(line))
  const declarations = lines
    .join('\n')
    .trim()
    .split(/\n{2,}(?=\S)/)
  const own = declarations.filter((text) => text.startsWith('export ') || !exported.has(parseName(text)))
  return `What '${specifier}' exports. Written by 'npm run api:write'.\n\n${own.join('\n\n')}\n`
}

function parseCode(report: string): string {
  return /```ts\n([\s\S]*?)```/.exec(report)?.[1] ?? ''
}

function exportedBy(report: string): string[] {
  return parseCode(report)
    .split('\n')
    .filter((line) => line.startsWith('export '))
    .map(parseName)
}

function parseName(declaration: string): string {
  return keyword.exec(declaration)?.[1] ?? ''
}

function write(reports: ReadonlyMap<string, string>): void {
  for (const stale of written().filter((file) => !reports.has(file))) rmSync(join(docs, stale))
  for (const [file, text] of reports) writeFileSync(join(docs, file), text)
}

function check(reports: ReadonlyMap<string, string>): void {
  const wrong = [...new Set([...written(), ...reports.keys()])].filter((file) => {
    const path = join(docs, file)
    return !existsSync(path) || readFileSync(path, 'utf8') !== reports.get(file)
  })
  if (wrong.length === 0) return
  console.error(`The public API and its docstrings are not what docs/ says: ${wrong.join(', ')}.`)
  console.error(
    "If the change is meant, run 'npm run api:write' and commit the result with a line in CHANGELOG.md.",
  )
  process.exitCode = 1
}

/** The files that this writes. The indexes of the reference are written by hand. */
function written(): string[] {
  return ['api', 'reference', 'zh/reference']
    .flatMap((folder) => readdirSync(join(docs, folder)).map((file) => `${folder}/${file}`))
    .filter((file) => /\.(txt|md)$/.test(file) && !file.endsWith('reference/index.md'))
}
