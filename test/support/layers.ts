// Who may import whom, as a function from source texts to complaints. The table is the one of ARCHITECTURE.md.
import { posix } from 'node:path'
import { type Import, parseImports } from './imports.js'

/** Source texts by path from the checkout's root: `src/core/clock.ts`. */
export type Sources = ReadonlyMap<string, string>

/** What package.json says that matters here. */
export interface Package {
  /** Entry points and their source: `holdfast/redis` → `src/drivers/redis/index.ts`. */
  readonly entries: ReadonlyMap<string, string>
  /** Bundled with the command line, and for it only. */
  readonly dependencies: readonly string[]
  /** Clients that users bring. */
  readonly peers: readonly string[]
}

/** Layers that a layer may import by path, besides itself. `drivers/*` stands for each driver without a line of its own. */
const byPath: Readonly<Record<string, readonly string[]>> = {
  core: [],
  locks: ['core'],
  root: ['core', 'locks'],
  guard: ['core'],
  // The state machine that `memory` and `local` run is there for drivers of others, too.
  'drivers/kit': ['core', 'drivers/memory'],
  'drivers/*': ['core', 'drivers/kit'],
  'drivers/local': ['core', 'drivers/kit', 'drivers/memory'],
  // How a part of a `multi` is written.
  'drivers/zookeeper': ['core', 'drivers/kit', 'guard'],
  'drivers/redlock': ['core', 'drivers/kit', 'drivers/redis'],
}
/** These see of holdfast what a user sees, by its name: what they lack, a user lacks. */
const outside: Readonly<Record<string, readonly string[]>> = {
  conformance: [],
  verify: [],
  'web-locks': [],
  decorators: [],
  nestjs: [],
  otel: [],
  health: [],
  compat: [],
  ui: [],
  cli: ['ui'],
  // The stories of the examples are among the lab's scenes; the bench knows the public libraries.
  lab: ['test', 'examples', 'bench'],
  bench: ['test'],
  examples: ['test'],
}
/** Not part of what is published: may use whatever is installed. */
const workshop = ['lab', 'bench', 'examples']

/** The layer of a file, or `undefined` if the table has none for it. */
export function findLayer(path: string): string | undefined {
  const [top = '', folder = '', driver = ''] = path.split('/')
  if (top !== 'src') return top === 'test' || outside[top] ? top : undefined
  if (folder.endsWith('.ts')) return 'root'
  if (folder === 'drivers') return `drivers/${driver}`
  return byPath[folder] || outside[folder] ? folder : undefined
}

/** One line per import that breaks a rule. */
export function layerViolations(sources: Sources, pkg: Package): string[] {
  const found: string[] = []
  for (const [path, text] of sources) {
    const layer = findLayer(path)
    if (layer === undefined) {
      found.push(`${path}: no layer has this folder; give it one in test/support/layers.ts`)
      continue
    }
    for (const entry of parseImports(text)) {
      const why = forbidden(path, layer, entry, pkg)
      if (why !== undefined) found.push(`${path}:${entry.line}: ${why}`)
    }
  }
  return found
}

function forbidden(
  path: string,
  layer: string,
  { specifier, how }: Import,
  pkg: Package,
): string | undefined {
  // Outside, it is what a user names: a module with a fixture, a config.
  if (specifier === undefined)
    return outside[layer] ? undefined : `${layer} must not import what only run time knows`
  if (specifier.startsWith('node:')) return undefined
  if (specifier.startsWith('.')) return forbiddenPath(path, layer, specifier)
  if (how === 'url') return undefined
  if (specifier === 'holdfast' || specifier.startsWith('holdfast/')) {
    if (!outside[layer]) return `${layer} must import '${specifier}' by path: it is part of it`
    return pkg.entries.has(specifier) ? undefined : `'${specifier}' is no entry point of package.json`
  }
  return forbiddenPackage(layer, specifier, how, pkg)
}

function forbiddenPath(path: string, layer: string, specifier: string): string | undefined {
  const target = resolveSource(path, specifier)
  if (target === undefined) return undefined
  const other = findLayer(target)
  if (other === layer) return undefined
  const allowed = outside[layer] ?? byPath[layer] ?? byPath['drivers/*'] ?? []
  if (other !== undefined && allowed.includes(other)) return undefined
  const remedy = outside[layer] ? "; use a public entry point: 'holdfast', 'holdfast/…'" : ''
  return `${layer} must not import ${other ?? target} (${specifier})${remedy}`
}

function forbiddenPackage(
  layer: string,
  specifier: string,
  how: Import['how'],
  pkg: Package,
): string | undefined {
  const name = packageName(specifier)
  if (workshop.includes(layer)) return undefined
  if (layer === 'cli' && pkg.dependencies.includes(name)) return undefined
  if (layer === 'cli' && pkg.peers.includes(name)) {
    return how === 'dynamic'
      ? undefined
      : `the client '${name}' may be absent: import() it when its URL is asked for`
  }
  if (pkg.peers.includes(name))
    return `${layer} must not import the client '${name}', not even its types: describe its shape`
  return `${layer} must not import the package '${name}': holdfast loads none`
}

/** The cycles in which the sources load each other, each as the paths around it. Types may refer to each other. */
export function cycles(sources: Sources, pkg: Package): string[] {
  const found: string[] = []
  const done = new Set<string>()
  const visit = (path: string, trail: readonly string[]): void => {
    const start = trail.indexOf(path)
    if (start >= 0) found.push([...trail.slice(start), path].join(' → '))
    if (start >= 0 || done.has(path)) return
    for (const { specifier = '', how, typeOnly } of parseImports(sources.get(path) ?? '')) {
      const target = specifier.startsWith('.') ? resolveSource(path, specifier) : pkg.entries.get(specifier)
      // A worker's or child's file is started, not loaded by the one that names it.
      if (how !== 'url' && !typeOnly && target !== undefined && sources.has(target))
        visit(target, [...trail, path])
    }
    done.add(path)
  }
  for (const path of sources.keys()) visit(path, [])
  return found
}

/** `src/core/lease.ts` and `./clock.js` → `src/core/clock.ts`; `undefined` for what is no code. */
function resolveSource(path: string, specifier: string): string | undefined {
  if (!specifier.endsWith('.js')) return undefined
  return posix.join(posix.dirname(path), specifier).replace(/\.js$/, '.ts')
}

/** `@redis/client/dist/x` → `@redis/client`. */
export function packageName(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')
}
